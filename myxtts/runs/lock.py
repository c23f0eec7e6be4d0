"""One trainer at a time in a run folder, by a lock of the kernel's that no deleting opens."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import time
from datetime import datetime
from pathlib import Path

from myxtts.documents import read_json
from myxtts.errors import MyXTTSError

LOCK_FILE = "run.lock"
_TRIES = 100  # each one lost to a reset in that very moment

log = logging.getLogger(__name__)


class RunLockedError(MyXTTSError, RuntimeError):
    """Another process is training in this run folder."""


class FolderLock:
    """A folder held until `release`, or until the process ends, however.

    Locked are the folder itself, so that it stays locked whatever is deleted in it, and a file in
    it, which names the holder, and guards alone where folders cannot be locked (NFS).
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / LOCK_FILE
        self._held: dict[Path, int] = {}
        self._process_id = os.getpid()

    def take(self) -> None:
        """Lock the folder, which is made if need be."""
        for _ in range(_TRIES):
            self._folder.mkdir(parents=True, exist_ok=True)
            try:
                for path in (self._folder, self._file):
                    self._lock(path)
            except FileNotFoundError:
                pass  # a reset has just moved the folder away
            except BaseException:
                self.release()
                raise
            else:
                if not self._displaced():
                    self._sign()
                    return
            self.release()
        raise RunLockedError(
            f"{self._folder} keeps being moved by other processes.", "stop them first"
        )

    def verify(self) -> None:
        """Before a write: what is locked must be what is there, else it is locked anew, or refused.

        Where folders can be locked a deleted lock file is only put back. Elsewhere another
        trainer may have come in by that, and then this one must not touch its files.
        """
        for path in self._displaced():
            log.warning("%s was moved or deleted while this run trains; it is made anew", path)
            before = self._held[path]
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock(path)
            _close(before)
            self._sign()

    def release(self) -> None:
        """Let go. The file stays: there is nothing to gain from removing it."""
        while self._held:
            descriptor = self._held.popitem()[1]
            # Closing alone would leave the lock with a child that inherited the descriptor; and a
            # forked child that cleans up must not unlock what is its parent's.
            _close(descriptor, unlock=os.getpid() == self._process_id)

    def _lock(self, path: Path) -> None:
        is_folder = path == self._folder
        kind = os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        descriptor = os.open(path, kind | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise RunLockedError(
                f"Another process is training in {self._folder}: {_holder(self._file)}.",
                "wait until it ends, stop it, or another --checkpoint-dir",
            ) from None
        except OSError as error:
            os.close(descriptor)
            if not is_folder:
                raise
            log.debug("%s cannot be locked (%s); its lock file alone guards it", path, error)
        else:
            self._held[path] = descriptor

    def _displaced(self) -> list[Path]:
        """Which of the paths no longer lead to what is locked."""
        return [path for path, descriptor in self._held.items() if not _is_at(path, descriptor)]

    def _sign(self) -> None:
        """Write who holds the folder into its lock file."""
        started = datetime.now().astimezone().isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
        os.ftruncate(self._held[self._file], 0)
        os.pwrite(self._held[self._file], json.dumps(holder).encode(), 0)


def _close(descriptor: int, *, unlock: bool = True) -> None:
    if unlock:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _holder(file: Path) -> str:
    time.sleep(0.1)  # a holder that came just before us is still writing its name
    try:
        holder = read_json(file)
        return "process {pid} on {host}, since {started}".format(**holder)
    except (OSError, ValueError, KeyError, TypeError):
        return f"it left no name in {file.name}"
