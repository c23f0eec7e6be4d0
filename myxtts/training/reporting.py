"""What a run says of itself every few steps; losses leave the device here, and only here."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.loader import LoaderState
from myxtts.data.training_data import TrainingData
from myxtts.errors import TrainingDivergedError
from myxtts.pipeline.devices import ROLES, DevicePlan
from myxtts.pipeline.engine import ProducerConsumerPipeline
from myxtts.pipeline.memory import read_role
from myxtts.pipeline.telemetry import PipelineStats
from myxtts.runs.diagnosis import Measurements, diagnose
from myxtts.runs.events import RunLog
from myxtts.runs.remedies import Settings
from myxtts.runs.trace import TRACE_FILE, spans_of, write_trace
from myxtts.training.progress import TrainingProgress
from myxtts.training.snapshot import RunState
from myxtts.training.step import Losses, TrainStep

log = logging.getLogger(__name__)

MOST_SKIPPED_IN_A_ROW = 10
LEAST_S_BETWEEN = 5.0  # two `pipeline` events: a day of training then writes 20 MB of them at most


class LossReport:
    """Collects the losses of each batch, still on the device, and reports their means."""

    def __init__(self, step: TrainStep, *, batches_a_step: int = 1) -> None:
        self._step = step
        self._batches_a_step = batches_a_step  # one for each replica
        self._losses: list[Losses] = []
        self._states: deque[LoaderState] = deque(maxlen=MOST_SKIPPED_IN_A_ROW * step.grad_accum)

    def add(self, losses: Losses, state: LoaderState) -> None:
        """Remember a batch's losses and, should they go wrong, which batch it was."""
        self._losses.append(losses)
        self._states.append(state)

    def write(
        self, at: int, events: RunLog, progress: TrainingProgress, **more: float
    ) -> dict[str, float]:
        """Log the mean losses since the last report, with rates; returns them."""
        if not self._losses:
            return {}
        losses, self._losses = self._losses, []
        names = list(dict.fromkeys(name for each in losses for name in each))
        with tf.device(self._step.device):  # one fetch, and not by way of the data device
            means = [tf.reduce_mean([e[name] for e in losses if name in e]) for name in names]
            values = dict(zip(names, tf.stack(means).numpy().tolist(), strict=True))
        clips = values.pop("weight") * len(losses)
        values |= {"skipped": float(self._step.skipped), **more}
        rate = progress.steps_per_second
        if rate is not None:
            clips_a_step = clips / len(losses) * self._step.grad_accum
            values |= {"steps_per_second": rate, "clips_per_second": rate * clips_a_step}
        events.scalars(at, values)
        progress.update(
            at,
            values={"loss": values["loss"]},
            samples_per_second=values.get("clips_per_second"),
        )
        return values

    def refuse_endless_skipping(self, data: TrainingData | None, last_good: str) -> None:
        """Stop a run of which no update gets through: it will not mend by itself."""
        in_a_row = int(self._step.skipped_in_a_row)
        if in_a_row < MOST_SKIPPED_IN_A_ROW:
            return
        names = [
            name
            for state in self._states
            if data is not None
            for name in data.clips_before(state, batches=self._batches_a_step)
        ]
        raise TrainingDivergedError(
            f"The loss or its gradient was not finite in {in_a_row} updates in a row, or no clip "
            f"of them could be used. None of them changed the weights; the last good checkpoint is "
            f"{last_good}. The clips of these batches: "
            f"{', '.join(dict.fromkeys(names)) or 'unknown'}.",
            "listen to these clips and take broken ones out of the list, or lower --lr, and go on "
            "from the checkpoint",
        )


class PipelineReport:
    """Writes `pipeline` events: what each stage, buffer and memory did, as the monitor shows it."""

    def __init__(self, plan: DevicePlan, progress: TrainingProgress) -> None:
        self._plan, self._progress = plan, progress
        self._written_at, self._written_step = -math.inf, -1

    def write(self, at: int, batches: ProducerConsumerPipeline, events: RunLog) -> None:
        """Write one, unless the last was a moment ago."""
        now = time.monotonic()
        if now - self._written_at >= LEAST_S_BETWEEN:
            self._written_at = now
            self._write(at, batches, events)

    @contextlib.contextmanager
    def final(
        self, batches: ProducerConsumerPipeline, run: Path, state: RunState, events: RunLog
    ) -> Iterator[None]:
        """However the run ends: its last event, and the timeline of its last minutes."""
        try:
            yield
        finally:
            if batches.stats().batches:
                if state.step != self._written_step:
                    self._write(state.step, batches, events)
                try:
                    write_trace(run / TRACE_FILE, spans_of(batches.telemetry))
                except OSError as error:
                    log.warning("The run's timeline cannot be written: %s", error)

    def _write(self, at: int, batches: ProducerConsumerPipeline, events: RunLog) -> None:
        memory = {}
        for role in ROLES:
            reading = read_role(self._plan, role)
            memory[role] = {
                "used_mb": reading.used_mb,
                "limit_mb": reading.total_mb or None,
                "source": reading.source,
            }
        events.event(
            "pipeline",
            step=at,
            total_steps=self._progress.total_steps,
            steps_per_second=self._progress.steps_per_second,
            memory=memory,
            **batches.stats().as_dict(),
        )
        self._written_step = at


def warn_of_uneven_steps(stats: PipelineStats, config: XTTSConfig, plan: DevicePlan) -> None:
    """Say at the end of a run why its step time varied, where it varied much."""
    measured = Measurements(
        stages=stats.stages,
        ring=stats.ring_occupancy,
        steps=stats.steps,
        settings=Settings.of(config.model_dump()),
        shared_device=plan.simulated or plan.data_gpu == plan.model_gpu,
    )
    if (cause := diagnose(measured).uneven) is not None:
        log.warning("%s", cause)
