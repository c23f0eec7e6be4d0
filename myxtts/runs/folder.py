"""The folder of one training run: everything in one place, and one trainer at a time."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import time
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Literal

from myxtts.errors import ConfigError, MyXTTSError
from myxtts.runs.checkpoints import Checkpoint, CheckpointError, CheckpointStore

Resume = Literal["auto", "require", "reset"]

_LOCK_FILE = "run.lock"
_RUN_FILES = {_LOCK_FILE, "config.yaml", "checkpoints", "events.jsonl"}  # a run has one of these
_LOCK_TRIES = 100  # each one lost to a reset in that very moment
_OTHER_FOLDER = "another --checkpoint-dir: a new or empty folder, or that of an earlier run"

log = logging.getLogger(__name__)


class RunLockedError(MyXTTSError, RuntimeError):
    """Another process is training in this run folder."""


class RunFolder:
    """A run's files; entering it takes the lock and decides what `checkpoint` to go on from.

    "auto" goes on if there is a checkpoint, "require" insists on one, "reset" starts anew and
    keeps the old folder aside. None means that the run starts at its first step.
    """

    checkpoint: Checkpoint | None = None

    def __init__(self, path: Path, *, resume: Resume = "auto") -> None:
        self.path = Path(path).expanduser().resolve()
        self.checkpoints = CheckpointStore(self.path / "checkpoints")
        self.config_file = self.path / "config.yaml"
        self.events_file = self.path / "events.jsonl"
        self.dropped_file = self.path / "dropped_clips.csv"
        self.samples_dir = self.path / "samples"
        self.tensorboard_dir = self.path / "tensorboard"
        self._resume = resume
        self._lock: int | None = None

    def __enter__(self) -> RunFolder:
        assert self._lock is None, "already entered"
        try:
            self._open()
        except BaseException as error:
            self._release()
            if isinstance(error, MyXTTSError) or not isinstance(error, OSError):
                raise
            raise ConfigError(
                f"The run folder {self.path} cannot be used: {error}.",
                "another --checkpoint-dir: a folder you may write to",
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._release()

    def _open(self) -> None:
        self._refuse_unfit()
        self._lock = _take_lock(self.path)
        if self._resume == "reset":
            self._keep_aside()
        else:
            self.checkpoint = self._find_checkpoint()
        for folder in (self.samples_dir, self.tensorboard_dir):
            folder.mkdir(exist_ok=True)

    def _release(self) -> None:
        if self._lock is not None:
            _let_go(self._lock)
            self._lock = None

    def _refuse_unfit(self) -> None:
        """Refuse before anything is made or moved."""
        if self._resume == "require" and not self.checkpoints.steps():
            raise self._nothing_to_resume()
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise ConfigError(f"The run folder {self.path} is a file.", _OTHER_FOLDER)
        names = set(os.listdir(self.path))
        if names and not names & _RUN_FILES:  # `--checkpoint-dir ~` must not scatter files there
            raise ConfigError(
                f"{self.path} holds files ({min(names)}, …), but none of a training run.",
                _OTHER_FOLDER,
            )
        if self._resume == "reset" and Path.cwd().is_relative_to(self.path):
            raise ConfigError(
                f"--reset-training would move the current folder: {self.path}.",
                "the same command from another folder",
            )

    def _find_checkpoint(self) -> Checkpoint | None:
        checkpoint = self.checkpoints.latest()
        if checkpoint is None and self.checkpoints.steps():  # never start over in silence
            raise CheckpointError(
                f"Every checkpoint in {self.checkpoints.folder} is damaged; the log says how.",
                "put a copy of one there, or --reset-training to start anew (the old is kept)",
            )
        if checkpoint is None and self._resume == "require":
            raise self._nothing_to_resume()
        return checkpoint

    def _nothing_to_resume(self) -> ConfigError:
        return ConfigError(
            f"--resume was given, but {self.path} holds no checkpoint.",
            "leave out --resume to start a new run, or check --checkpoint-dir",
        )

    def _keep_aside(self) -> None:
        """Move the old run to a sibling and lock a new folder in its place."""
        if os.listdir(self.path) == [_LOCK_FILE]:
            return
        name = f"{self.path.name}.old-{datetime.now():%Y%m%d-%H%M%S}"
        aside, number = self.path.with_name(name), 1
        while aside.exists():
            number += 1
            aside = self.path.with_name(f"{name}-{number}")
        os.rename(self.path, aside)
        log.info("The old run is kept in %s", aside)
        # The old lock is held until the new one is ours: whoever waited at the old file finds
        # that it has moved, and meets us or a trainer that came first in the new folder.
        old_lock, self._lock = self._lock, None
        try:
            self._lock = _take_lock(self.path)
        finally:
            assert old_lock is not None
            _let_go(old_lock)


def _take_lock(folder: Path) -> int:
    """Lock the folder for this process; the kernel unlocks it when the process ends, however."""
    file = folder / _LOCK_FILE
    for _ in range(_LOCK_TRIES):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except FileNotFoundError:
            continue  # a reset has just moved the folder away
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, lock):
                os.ftruncate(lock, 0)
                os.pwrite(lock, _own_name(), 0)
                return lock
        except BlockingIOError:
            os.close(lock)
            raise RunLockedError(
                f"Another process is training in {folder}: {_holder(file)}.",
                "wait until it ends, stop it, or another --checkpoint-dir",
            ) from None
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)  # a reset moved the file while we opened it
    raise RunLockedError(f"{folder} keeps being moved by other processes.", "stop them first")


def _let_go(lock: int) -> None:
    # The file stays: once unlinked, two processes could lock two files of that name. Closing
    # alone would leave the lock with a child process that inherited the descriptor.
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def _is_at(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _own_name() -> bytes:
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
    return json.dumps(holder).encode()


def _holder(file: Path) -> str:
    time.sleep(0.1)  # a holder that came just before us is still writing its name
    try:
        holder = json.loads(file.read_bytes())
        return "process {pid} on {host}, since {started}".format(**holder)
    except (OSError, ValueError, KeyError, TypeError):
        return f"it left no name in {file.name}"
