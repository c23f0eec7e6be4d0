"""Measures the pipeline while it runs: where each stage's time goes, and how even the steps are."""

from __future__ import annotations

import statistics
import time
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

READ, PROCESS, TRANSFER, TRAIN = STAGES = ("read", "process", "transfer", "train")

BUSY = "busy"
WAITING_INPUT = "waiting for input"
WAITING_ROOM = "waiting for room"
QUEUED = "queued behind other work of its device"
IDLE = "idle"

WARM_UP_STEPS = 3  # of every shape: the first compiles, the next still fill caches
KEPT_ALONE = 5  # times of a batch with its device to itself
KEPT_SPANS = 20_000  # the newest, for the trace; about 4 MB
MANY_SHAPES = "(many shapes)"
EQUALLY_BUSY = 0.02  # shares closer than this are


class StageMeter:
    """One stage's clock. Its owner thread says what it is doing now; anyone may look."""

    def __init__(self, name: str, spans: deque[tuple[str, str, int, float, float]]) -> None:
        self.name = name
        self._now = (IDLE, time.perf_counter())  # one thing, so that nobody sees half of a change
        self.batches = 0  # finished ones
        self.seconds = dict.fromkeys((BUSY, QUEUED, WAITING_INPUT, WAITING_ROOM, IDLE), 0.0)
        self._spans = spans
        self._alone: deque[float] = deque(maxlen=KEPT_ALONE)

    @property
    def state(self) -> str:
        """What the stage is doing."""
        return self._now[0]

    @property
    def since(self) -> float:
        """Since when."""
        return self._now[1]

    def enter(self, state: str) -> float:
        """Change what the stage is doing; returns the time of the change."""
        now = time.perf_counter()
        before, since = self._now
        self.seconds[before] += now - since
        if before != IDLE:
            self._spans.append((self.name, before, self.batches, since, now))
        self._now = state, now
        return now

    def finish_batch(self, state: str) -> float:
        """Count the batch in work as done, and go on to another state."""
        began = self.since
        now = self.enter(state)
        if self._alone:  # more than it takes alone was a queue's
            queued = max(0.0, now - began - statistics.median(self._alone))
            self.seconds[BUSY] -= queued
            self.seconds[QUEUED] += queued
        self.batches += 1  # after, so that the span of its work still bears its number
        return now

    def timed_alone(self, seconds: float) -> None:
        """Note what a batch takes while nothing else is queued on the device."""
        self._alone.append(seconds)

    def snapshot(self) -> StageStats:
        """The totals up to now, what is under way included."""
        (state, since), seconds = self._now, dict(self.seconds)
        seconds[state] += time.perf_counter() - since
        return StageStats(
            batches=self.batches,
            busy_s=seconds[BUSY],
            waiting_input_s=seconds[WAITING_INPUT],
            waiting_room_s=seconds[WAITING_ROOM],
            queued_s=seconds[QUEUED],
        )


@dataclass(frozen=True)
class StageStats:
    """What a stage did with its time."""

    batches: int
    busy_s: float
    waiting_input_s: float
    waiting_room_s: float
    queued_s: float = 0.0  # its work waited for other work of the same GPU

    @property
    def busy_share(self) -> float:
        """Share of its time that the stage worked, from 0 to 1."""
        whole = self.busy_s + self.waiting_input_s + self.waiting_room_s + self.queued_s
        return self.busy_s / whole if whole else 0.0

    def minus(self, earlier: StageStats) -> StageStats:
        """What came after an earlier snapshot."""
        return StageStats(
            self.batches - earlier.batches,
            self.busy_s - earlier.busy_s,
            self.waiting_input_s - earlier.waiting_input_s,
            self.waiting_room_s - earlier.waiting_room_s,
            self.queued_s - earlier.queued_s,
        )


@dataclass(frozen=True)
class StepStats:
    """Step times of one batch shape, after its warm-up."""

    shape: str
    steps: int
    mean_s: float
    variation: float  # standard deviation over mean
    waiting_share_of_variance: float  # how much of the unevenness is waiting for a batch


@dataclass(frozen=True)
class PipelineStats:
    """A run so far, from its start or the last `mark`."""

    batches: int
    wall_s: float
    stages: dict[str, StageStats]
    steps: tuple[StepStats, ...]
    ring_occupancy: tuple[int, ...]  # how often the model found 0, 1, ... batches ready
    transferred_bytes: int

    @property
    def rate(self) -> float:
        """Batches a second."""
        return self.batches / self.wall_s if self.wall_s else 0.0

    @property
    def bottleneck(self) -> str:
        """The stage that works most of its time, and so holds the others back."""
        return busiest({name: stage.busy_share for name, stage in self.stages.items()})

    @property
    def variation(self) -> float | None:
        """Coefficient of variation of the step time within each shape; None at first."""
        return step_variation(self.steps)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "rate": self.rate, "bottleneck": self.bottleneck}


class Telemetry:
    """All meters of one pipeline."""

    def __init__(self, ring_capacity: int) -> None:
        self._spans: deque[tuple[str, str, int, float, float]] = deque(maxlen=KEPT_SPANS)
        self.meters = {name: StageMeter(name, self._spans) for name in STAGES}
        self.transferred_bytes = 0
        self._occupancy = [0] * (ring_capacity + 1)
        self._steps: dict[str, tuple[array[float], array[float]]] = {}
        self._origin = time.perf_counter()
        self._step_began: float | None = None
        self._shape = ""
        self._delivered_any = False
        self._paused_s = 0.0
        self.mark()

    def mark(self) -> None:
        """Start counting anew from here, so that warm-up does not colour the totals."""
        self._marked_at = time.perf_counter()
        self._marked = {name: meter.snapshot() for name, meter in self.meters.items()}
        self._marked_bytes = self.transferred_bytes
        self._paused_s = 0.0
        self._steps.clear()
        self._occupancy = [0] * len(self._occupancy)

    def delivered(self, *, at: float, waited: float, shape: str, ready: int) -> None:
        """Record that the model got a batch: the step before it ended here."""
        self.found_ready(at=at, ready=ready)
        self.step_ended(at=at, waited=waited)
        self._step_began, self._shape = at, shape

    def found_ready(self, *, at: float, ready: int) -> None:
        """Record how many batches were ready when the model asked."""
        if not self._delivered_any:
            self._marked_at = at  # the first batch starts the clock of the rate
        self._delivered_any = True
        self._occupancy[min(ready, len(self._occupancy) - 1)] += 1

    def step_ended(self, *, at: float, waited: float) -> None:
        """Record the time from one delivered batch to the next, and how much of it was waiting."""
        if self._step_began is not None:
            self.record_step(self._shape, taken=at - self._step_began, waited=waited)
            self._step_began = None

    def record_step(self, shape: str, *, taken: float, waited: float) -> None:
        """Record how long a step took, waiting for its batch included."""
        if shape not in self._steps:
            self._steps[shape] = (array("f"), array("f"))
        times, waits = self._steps[shape]
        times.append(taken)
        waits.append(waited)

    def paused(self, seconds: float) -> None:
        """Leave out time in which the model was not meant to train."""
        self._paused_s += seconds

    def stats(self) -> PipelineStats:
        """Everything since the last mark."""
        stages = {
            name: meter.snapshot().minus(self._marked[name]) for name, meter in self.meters.items()
        }
        steps = [
            _step_stats(shape, times[WARM_UP_STEPS:], waits[WARM_UP_STEPS:])
            for shape, (times, waits) in self._steps.items()
        ]
        if not any(steps) and len(self._steps) > WARM_UP_STEPS:  # every batch has its own shape
            times, waits = array("f"), array("f")
            for some_times, some_waits in self._steps.values():
                times.extend(some_times)
                waits.extend(some_waits)
            steps = [_step_stats(MANY_SHAPES, times, waits)]
        return PipelineStats(
            batches=stages[TRAIN].batches,
            wall_s=max(0.0, self._train_clock() - self._marked_at - self._paused_s),
            stages=stages,
            steps=tuple(step for step in steps if step is not None),
            ring_occupancy=tuple(self._occupancy),
            transferred_bytes=self.transferred_bytes - self._marked_bytes,
        )

    def _train_clock(self) -> float:
        """Now, or the moment the last step ended."""
        train = self.meters[TRAIN]
        return train.since if train.state == IDLE else time.perf_counter()

    def spans(self) -> list[tuple[str, str, int, float, float]]:
        """The newest stretches: stage, state, batch, and seconds from and to, since the start."""
        return [
            (stage, state, batch, start - self._origin, end - self._origin)
            for stage, state, batch, start, end in tuple(self._spans)
        ]


def busiest(shares: Mapping[str, float], alone_s: Mapping[str, float] | None = None) -> str:
    """The stage that works most of its time; of equals the slowest alone, where that is known."""
    most = max(shares.values())
    rivals = [stage for stage in shares if alone_s and shares[stage] >= most - EQUALLY_BUSY]
    return max(rivals or shares, key=lambda stage: (alone_s or shares)[stage])


def step_variation(steps: Sequence[StepStats]) -> float | None:
    """Coefficient of variation of the step time within each shape; None without steps."""
    counted = sum(step.steps for step in steps)
    return sum(step.variation * step.steps for step in steps) / counted if counted else None


def _step_stats(shape: str, times: array[float], waits: array[float]) -> StepStats | None:
    if len(times) < 2:
        return None
    taken, waited = (np.frombuffer(a, np.float32).astype(np.float64) for a in (times, waits))
    mean, variance = float(taken.mean()), float(taken.var())
    # Waiting and working add up to the step, so their covariances with it split its variance.
    shared = float(((taken - mean) * waited).mean())
    return StepStats(
        shape=shape,
        steps=len(times),
        mean_s=mean,
        variation=variance**0.5 / mean if mean else 0.0,
        waiting_share_of_variance=min(1.0, max(0.0, shared / variance)) if variance else 0.0,
    )
