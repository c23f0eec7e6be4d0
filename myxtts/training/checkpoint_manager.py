"""Keeps what was trained: checkpoints when they are due, and whenever a run ends."""

from __future__ import annotations

import logging
import time
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.data.training_data import TrainingData
from myxtts.runs.checkpoints import CheckpointError, CheckpointStore
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
    ) -> None:
        self.store = store
        self.saved_step = state.step if resumed else -1
        self.failure: CheckpointError | None = None  # of the newest try, if it failed
        self._config, self._step, self._state, self._stopping = config, step, state, stopping
        self._saved_at = time.monotonic()
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

    def save(self, events: RunLog, *, best: bool = False) -> None:
        """Write a checkpoint of the last update."""
        step = self._state.step
        state = {
            **self._state.as_dict(),
            **self._facts,
            "early_stopping": self._stopping.state_dict(),
            "config": self._config.model_dump(mode="json"),
        }
        try:
            folder = self.store.save(
                step=step, tensors=take_snapshot(self._step), state=state, best=best
            )
        except CheckpointError as error:
            self.failure = error
            log.warning("No checkpoint at step %d, training goes on: %s", step, error)
            events.event("checkpoint_failed", step=step, error=str(error))
        else:
            self.saved_step, self.failure = step, None
            events.event("checkpoint", step=step, folder=folder, best=best)
            log.info("Checkpoint of step %d%s: %s", step, ", the best" if best else "", folder)
        self._saved_at = time.monotonic()

    def save_if_new(self, events: RunLog) -> None:
        """Save unless this very step is saved already."""
        # Before the first update there is no work to keep, only settings that may be wrong.
        if self._step.built and self._state.step not in (0, self.saved_step):
            self.save(events)

    def rescue(self, events: RunLog) -> None:
        """Save while another error is on its way up: it must not be hidden by one of ours."""
        try:
            self.save_if_new(events)
        except Exception:
            log.exception("What was trained since step %d could not be saved", self.saved_step)

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
