"""The folder of one training run: everything in one place, and one trainer at a time."""

from __future__ import annotations

import logging
import os
from datetime import datetime
from pathlib import Path
from typing import Literal

from myxtts.errors import ConfigError, MyXTTSError
from myxtts.runs.checkpoints import Checkpoint, CheckpointError, CheckpointStore
from myxtts.runs.events import read_events
from myxtts.runs.lock import LOCK_FILE, FolderLock

Resume = Literal["auto", "require", "reset"]

EVENTS_FILE = "events.jsonl"
_RUN_FILES = {LOCK_FILE, "config.yaml", "checkpoints", EVENTS_FILE}  # a run has one of these
_OTHER_FOLDER = "another --checkpoint-dir: a new or empty folder, or that of an earlier run"

log = logging.getLogger(__name__)


class RunFolder:
    """A run's files; entering it takes the lock and decides what `checkpoint` to go on from.

    "auto" goes on if there is a checkpoint, "require" insists on one, "reset" starts anew and
    keeps the old folder aside. None means that the run starts at its first step.
    """

    checkpoint: Checkpoint | None = None

    def __init__(self, path: Path, *, resume: Resume = "auto") -> None:
        self.path = Path(path).expanduser().resolve()
        self._lock = FolderLock(self.path)
        self._entered = False
        self.checkpoints = CheckpointStore(self.path / "checkpoints", guard=self._lock.verify)
        self.config_file = self.path / "config.yaml"
        self.events_file = self.path / EVENTS_FILE
        self.dropped_file = self.path / "dropped_clips.csv"
        self.samples_dir = self.path / "samples"
        self.tensorboard_dir = self.path / "tensorboard"
        self._resume = resume

    def __enter__(self) -> RunFolder:
        assert not self._entered, "already entered"
        try:
            self._open()
            self._entered = True
        except BaseException as error:
            self._lock.release()
            if isinstance(error, MyXTTSError) or not isinstance(error, OSError):
                raise
            raise ConfigError(
                f"The run folder {self.path} cannot be used: {error}.",
                "another --checkpoint-dir: a folder you may write to",
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self._entered = False

    def _open(self) -> None:
        self._refuse_unfit()
        self._lock.take()
        if self._resume == "reset":
            self._keep_aside()
        else:
            self.checkpoint = self._find_checkpoint()
        for folder in (self.samples_dir, self.tensorboard_dir):
            folder.mkdir(exist_ok=True)

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
        if checkpoint is None and (step := self._last_saved_step()) is not None:
            raise CheckpointError(
                f"This run has saved checkpoints, the last at step {step}; none of them is in "
                f"{self.checkpoints.folder} any more.",
                "put them back, or --reset-training to start anew (the old is kept)",
            )
        if checkpoint is None and self._resume == "require":
            raise self._nothing_to_resume()
        return checkpoint

    def _last_saved_step(self) -> int | None:
        """As the run told it itself."""
        saved = (e for e in read_events(self.events_file) if e.get("kind") == "checkpoint")
        return max((e["step"] for e in saved if isinstance(e.get("step"), int)), default=None)

    def _nothing_to_resume(self) -> ConfigError:
        return ConfigError(
            f"--resume was given, but {self.path} holds no checkpoint.",
            "leave out --resume to start a new run, or check --checkpoint-dir",
        )

    def _keep_aside(self) -> None:
        """Move the old run to a sibling and lock a new folder in its place."""
        if os.listdir(self.path) == [LOCK_FILE]:
            return
        name = f"{self.path.name}.old-{datetime.now():%Y%m%d-%H%M%S}"
        aside, number = self.path.with_name(name), 1
        while aside.exists():
            number += 1
            aside = self.path.with_name(f"{name}-{number}")
        os.rename(self.path, aside)
        log.info("The old run is kept in %s", aside)
        # The old lock is held until the new one is ours: whoever waited at the old folder finds
        # that it has moved, and meets us or a trainer that came first in the new one.
        old_lock, self._lock = self._lock, FolderLock(self.path)
        self.checkpoints.guard = self._lock.verify
        try:
            self._lock.take()
        finally:
            old_lock.release()
