"""Keeps what was trained: checkpoints when they are due, and whenever a run ends."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.data.training_data import TrainingData
from myxtts.runs.checkpoints import CheckpointError, CheckpointStore, Tensors
from myxtts.runs.events import RunLog
from myxtts.training.snapshot import RunState, take_snapshot
from myxtts.training.step import TrainStep
from myxtts.training.stopping import EarlyStopping

log = logging.getLogger(__name__)


class CheckpointManager:
    """Saves a run. A save that fails is warned of, and training goes on."""

    def __init__(
        self,
        store: CheckpointStore,
        *,
        config: XTTSConfig,
        step: TrainStep,
        state: RunState,
        stopping: EarlyStopping,
        data: TrainingData | None,
        speakers: list[str],
        languages: list[str],
        resumed: bool,
        writes: bool = True,
    ) -> None:
        self.store = store
        self._writes = writes  # of several replicas only the first does
        self.saved_step = state.step if resumed else -1
        self.failure: CheckpointError | None = None  # of the newest try, if it failed
        self._config, self._step, self._state, self._stopping = config, step, state, stopping
        self._saved_at = time.monotonic()
        self._saved_mark = self._mark() if resumed else None
        self._updates_counted = step.updates_begun
        self._untold: Path | None = None  # saved by another thread, which writes no events
        self._lock = threading.Lock()
        self._facts: dict[str, Any] = {
            "seed": config.training.seed,
            "speakers": speakers,
            "languages": languages,
            "tokenizer": None if data is None else data.tokenizer.to_dict(),
            "buckets": [] if data is None else [list(bucket) for bucket in data.plan.buckets],
            "fingerprint": None if data is None else data.fingerprint,
        }

    @property
    def is_due(self) -> bool:
        """Whether enough steps or minutes have passed."""
        training = self._config.training
        minutes = (time.monotonic() - self._saved_at) / 60
        return (
            self._state.step % training.checkpoint_steps == 0
            or minutes >= training.checkpoint_minutes
        )

    def count_update(self) -> None:
        """The run's state tells of the update just made; from now on the two can be saved."""
        self._updates_counted = self._step.updates_begun

    def save(self, events: RunLog, *, best: bool = False) -> None:
        """Write a checkpoint of the last update."""
        step = self._state.step
        with self._lock:  # which another thread may have had until now, to save
            self._tell_untold(events)
            folder = self._write(step, take_snapshot(self._step), self._contents(), best=best)
        if folder is None:
            events.event("checkpoint_failed", step=step, error=str(self.failure))
        else:
            events.event("checkpoint", step=step, folder=folder, best=best)

    def save_meanwhile(self) -> bool:
        """Save the last update from another thread; False if it must be tried again.

        The loop's own thread may be in a call that lasts minutes, such as compiling. It is not
        locked out: if it begins an update after all, what was read is thrown away.
        """
        with self._lock:
            begun = self._step.updates_begun
            if begun != self._updates_counted:
                return False
            if not self._is_new:
                return True
            step, tensors, contents = self._state.step, take_snapshot(self._step), self._contents()
            if self._step.updates_begun != begun:
                return False
            self._untold = self._write(step, tensors, contents)
        return True

    def save_if_new(self, events: RunLog) -> None:
        """Save unless this very state is saved already."""
        with self._lock:
            self._tell_untold(events)
        if self._is_new:
            self.save(events)

    @contextlib.contextmanager
    def kept(self, events: RunLog) -> Iterator[None]:
        """However what is inside ends, the last update is saved before anything else happens."""
        try:
            yield
        except Exception:  # it must not be hidden by one of ours
            try:
                self.save_if_new(events)
            except Exception:
                log.exception("What was trained since step %d could not be saved", self.saved_step)
            raise
        self.save_if_new(events)

    def describe(self) -> str:
        """Which checkpoint is the newest, in words."""
        if self.saved_step < 0:
            return "none yet"
        return f"that of step {self.saved_step} in {self.store.folder}"

    def raise_if_unsaved(self) -> None:
        """At a run's end: its work is not on disk, and the exit code must say so."""
        if self.failure is not None:
            raise CheckpointError(
                f"The last {self._state.step - max(0, self.saved_step)} steps could not be saved: "
                f"{self.failure.problem}",
                f"{self.failure.remedy}; then resume from step {max(0, self.saved_step)}",
            )

    def _tell_untold(self, events: RunLog) -> None:
        untold, self._untold = self._untold, None
        if untold is not None:
            events.event("checkpoint", step=self.saved_step, folder=untold, best=False)

    @property
    def _is_new(self) -> bool:
        # Before the first update there is no work to keep, only settings that may be wrong; and
        # after one that was broken off the weights are no state to go on from.
        some = self._writes and self._step.built and self._state.step > 0
        whole = self._step.updates_begun == self._updates_counted
        return some and whole and self._mark() != self._saved_mark

    def _mark(self) -> tuple[int, dict[str, Any]]:
        """What tells one state of a run from another."""
        return self._state.step, self._stopping.state_dict()

    def _contents(self) -> dict[str, Any]:
        return {
            **asdict(self._state),
            **self._facts,
            "early_stopping": self._stopping.state_dict(),
            "config": self._config.model_dump(mode="json"),
        }

    def _write(
        self, step: int, tensors: Tensors, contents: dict[str, Any], *, best: bool = False
    ) -> Path | None:
        folder = None
        try:
            folder = self.store.save(step=step, tensors=tensors, state=contents, best=best)
        except CheckpointError as error:
            self.failure = error
            log.warning("No checkpoint at step %d, training goes on: %s", step, error)
        else:
            self.saved_step, self.failure = step, None
            self._saved_mark = step, contents["early_stopping"]
            log.info("Checkpoint of step %d%s: %s", step, ", the best" if best else "", folder)
        self._saved_at = time.monotonic()
        return folder
