"""Processes that the page starts and follows: they outlive the page, and the server too."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from myxtts.documents import read_json
from myxtts.errors import MyXTTSError
from myxtts.runs.lock import LOCK_FILE
from myxtts.studio.project import write_whole

LOG_TAIL = 4000  # bytes that are read of a log
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}  # the page shows the end of what a process printed
State = Literal["none", "running", "done", "stopped", "failed"]
STOPPED = (-signal.SIGTERM, 128 + signal.SIGTERM)  # by the signal itself, or heeding it


@dataclass(frozen=True)
class Job:
    """A process as it is now."""

    state: State = "none"
    pid: int = 0
    said: str = ""  # the end of what it printed


class Jobs:
    """One process a name, with a log and a note of who it is in a folder of ours."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, arguments: Sequence[str], *, cwd: Path) -> None:
        """Run `python ARGUMENTS`; refused while the last one of that name is still running."""
        with self._lock:
            if self.look(name).state == "running":
                raise MyXTTSError("It is running already.", "wait until it ends, or stop it")
            command = [sys.executable, *arguments]
            # A session of its own: neither Ctrl-C nor a closed terminal reaches it.
            with self._log(name).open("wb") as log:
                process = subprocess.Popen(
                    command,
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**QUIET, **os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
                )
            self._started[name] = process
            self._note(name, process, None)
            waiter = threading.Thread(target=self._wait, args=(name, process), daemon=True)
            waiter.start()

    def look(self, name: str) -> Job:
        """What is known of the last process of that name, whoever started it."""
        try:
            noted = read_json(self._file(name))
            pid, created, code = int(noted["pid"]), float(noted["created"]), noted["exit"]
        except (OSError, ValueError, KeyError, TypeError):
            return Job()
        mine = self._started.get(name)
        if mine is not None and mine.pid == pid and mine.poll() is not None:
            code = mine.returncode
        said = self._said(name)
        if code is not None:
            return Job(_state_of(code), pid, said)
        return Job("running" if _lives(pid, created) else "failed", pid, said)

    def stop(self, name: str, *, run: Path | None = None) -> bool:
        """Ask it to end; a trainer then saves first. With a run also one started elsewhere."""
        job = self.look(name)
        pid = job.pid if job.state == "running" else (run and trainer_in(run)) or 0
        if not pid:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        return True

    def _wait(self, name: str, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        if self._started.get(name) is process:
            with contextlib.suppress(OSError):  # the folder may be gone
                self._note(name, process, process.returncode)

    def _note(self, name: str, process: subprocess.Popen[bytes], code: int | None) -> None:
        noted = {"pid": process.pid, "created": time.time(), "exit": code}
        if code is None:
            with contextlib.suppress(psutil.Error):
                noted["created"] = psutil.Process(process.pid).create_time()
        write_whole(self._file(name), json.dumps(noted).encode())

    def _said(self, name: str) -> str:
        """The last lines of its log."""
        try:
            with self._log(name).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        lines = [line.rstrip() for line in re.split(r"[\r\n]+", text)]
        return "\n".join([line for line in lines if line][-8:])

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def trainer_in(run: Path) -> int | None:
    """The process that trains in a run folder on this machine, by the folder's lock file."""
    try:
        holder = read_json(run / LOCK_FILE)
        pid, host = int(holder["pid"]), holder["host"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if host != socket.gethostname() or pid == os.getpid():
        return None
    try:
        # The number alone may be another's by now: ours holds the lock file open.
        held = {file.path for file in psutil.Process(pid).open_files()}
    except psutil.Error:
        return None
    return pid if str((run / LOCK_FILE).resolve()) in held else None


def _state_of(code: int) -> State:
    if code == 0:
        return "done"
    return "stopped" if code in STOPPED else "failed"


def _lives(pid: int, created: float) -> bool:
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < 2
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
