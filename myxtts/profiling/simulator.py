"""A small discrete-event simulation of the pipeline, to answer what-if without running it.

It follows the engine (`myxtts.pipeline`): a stage first reserves room in its output buffer, then
takes its input, then works. Stages that compete for the same cores or the same card share them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from myxtts.pipeline.telemetry import (
    BUSY,
    PROCESS,
    READ,
    STAGES,
    TRAIN,
    TRANSFER,
    WAITING_INPUT,
    WAITING_ROOM,
    busiest,
)

CPU = "cpu"  # the resource that stages on simulated devices share
STEPS, FILLING_STEPS = 160, 40
_EPSILON = 1e-12


@dataclass(frozen=True)
class StageModel:
    """How long a stage takes alone, and what it needs while it works."""

    seconds: Sequence[float]  # of one batch after another, over and over
    resource: str = ""  # what it shares with others; nothing if empty
    demand: float = 1.0  # units of the resource in use while it works: 2.0 is two whole cores


@dataclass(frozen=True)
class PipelineModel:
    """A pipeline as the simulator sees it."""

    stages: Mapping[str, StageModel]
    depth: int = 3
    prefetch_buffer_size: int = 4
    buffer_size: int = 50
    num_workers: int = 1  # batches read side by side
    read_ahead: int = 0  # batches the workers read before they are asked for
    capacity: Mapping[str, float] = field(default_factory=dict)  # units of each resource
    crowding: Mapping[str, float] = field(default_factory=dict)  # times as long beside other work


@dataclass(frozen=True)
class Prediction:
    """What the pipeline would do once its buffers are full."""

    rate: float  # steps a second
    busy_share: Mapping[str, float]  # of each stage, from 0 to 1
    stall_share: float  # of the model's time
    variation: float  # of the step time

    @property
    def bottleneck(self) -> str:
        """The stage that works most of its time."""
        return busiest(self.busy_share)


def simulate(
    model: PipelineModel, *, steps: int = STEPS, filling_steps: int = FILLING_STEPS
) -> Prediction:
    """Run the pipeline in imagination for so many steps, after it has filled."""
    return _Run(model).until(filling_steps, filling_steps + steps)


@dataclass
class _Job:
    """A piece of work under way: what is left of it, in seconds alone."""

    left: float
    stage: StageModel


class _Run:
    """The state of a simulated pipeline. A reader is `worker` number n; a stage has one job."""

    def __init__(self, model: PipelineModel) -> None:
        self.model = model
        self.count = dict.fromkeys(STAGES, 0)
        self.now = 0.0
        self.jobs: dict[str, _Job] = {}  # by stage, or by worker
        self.state = dict.fromkeys(STAGES, WAITING_ROOM)
        self.state[TRAIN] = WAITING_INPUT
        self.seconds = {stage: dict.fromkeys((BUSY, *self._waits), 0.0) for stage in STAGES}
        self.waiting = {READ: 0, PROCESS: 0, TRANSFER: 0}  # finished batches behind each stage
        self.reserved = dict.fromkeys(self.waiting, 0)
        self.room = {
            READ: model.buffer_size,
            PROCESS: model.prefetch_buffer_size,
            TRANSFER: model.depth,
        }
        self.begun = self.asked = self.taken = 0  # batches the workers began; the reader wants; got
        self.read: set[int] = set()  # by the workers, not yet taken: the order is kept
        self.delivered: list[float] = []

    _waits = (WAITING_INPUT, WAITING_ROOM)

    def until(self, first: int, last: int) -> Prediction:
        """Go on until the model got this many batches; what came before `first` is left out."""
        started = 0.0
        while len(self.delivered) <= last:
            while self._move():
                pass
            if len(self.delivered) > first and not started:
                started = self.delivered[first]
                for shares in self.seconds.values():
                    shares.update(dict.fromkeys(shares, 0.0))
            self._advance()
        gaps = np.diff(self.delivered[first : last + 1])
        train = self.seconds[TRAIN]
        return Prediction(
            rate=len(gaps) / float(gaps.sum()),
            busy_share={
                stage: spent[BUSY] / max(sum(spent.values()), _EPSILON)
                for stage, spent in self.seconds.items()
            },
            stall_share=train[WAITING_INPUT] / max(sum(train.values()), _EPSILON),
            variation=float(gaps.std() / gaps.mean()),
        )

    # -- what happens at once --

    def _move(self) -> bool:
        """Do one thing that is possible now; False if there is none."""
        return self._start_worker() or any(self._move_stage(stage) for stage in STAGES)

    def _start_worker(self) -> bool:
        busy = sum(name.startswith("worker") for name in self.jobs)
        wanted = self.asked + self.model.read_ahead
        if busy >= self.model.num_workers or self.begun >= wanted:
            return False
        name = f"worker {self.begun}"
        self._work(name, READ)
        self.begun += 1
        # Else all workers would go on in step for ever, and batches come in bursts.
        self.jobs[name].left *= min(1.0, self.begun / self.model.num_workers)
        return True

    def _move_stage(self, stage: str) -> bool:
        state = self.state[stage]
        if state == WAITING_ROOM and self.waiting[stage] + self.reserved[stage] < self.room[stage]:
            self.reserved[stage] += 1
            self.state[stage] = WAITING_INPUT
            return True
        if state == WAITING_INPUT:
            return self._take_input(stage)
        return stage == READ and state == BUSY and self._take_read()

    def _take_input(self, stage: str) -> bool:
        if stage == READ:
            self.asked += 1
            self.state[READ] = BUSY
            return True
        source = STAGES[STAGES.index(stage) - 1]
        if not self.waiting[source]:
            return False
        self.waiting[source] -= 1
        self.state[stage] = BUSY
        self._work(stage, stage)
        if stage == TRAIN:
            self.delivered.append(self.now)
        return True

    def _take_read(self) -> bool:
        """The reader got the batch it asked for, if the workers have it."""
        if self.taken not in self.read:
            return False
        self.read.remove(self.taken)
        self.taken += 1
        self._put(READ)
        return True

    def _put(self, stage: str) -> None:
        self.reserved[stage] -= 1
        self.waiting[stage] += 1
        self.state[stage] = WAITING_ROOM

    def _work(self, name: str, stage: str) -> None:
        number, self.count[stage] = self.count[stage], self.count[stage] + 1
        model = self.model.stages[stage]
        self.jobs[name] = _Job(float(model.seconds[number % len(model.seconds)]), model)

    # -- time --

    def _advance(self) -> None:
        """Let time pass until the next piece of work is done."""
        speed = self._speeds()
        passing = min(job.left / speed[name] for name, job in self.jobs.items())
        self.now += passing
        for stage, state in self.state.items():
            self.seconds[stage][state] += passing
        for name, job in list(self.jobs.items()):
            job.left -= passing * speed[name]
            if job.left <= _EPSILON:
                del self.jobs[name]
                self._finish(name)

    def _finish(self, name: str) -> None:
        if name.startswith("worker"):
            self.read.add(int(name.split()[1]))
        elif name == TRAIN:
            self.state[TRAIN] = WAITING_INPUT
        else:
            self._put(name)

    def _speeds(self) -> dict[str, float]:
        """How fast each piece of work goes on, 1 being as if alone."""
        speeds = dict.fromkeys(self.jobs, 1.0)
        for resource, units in self.model.capacity.items():
            demands = {
                name: job.stage.demand
                for name, job in self.jobs.items()
                if job.stage.resource == resource
            }
            stretch = _stretch(tuple(sorted(demands.values())), units)
            crowding, together = self.model.crowding.get(resource, 1.0), sum(demands.values())
            for name, demand in demands.items():
                crowd = min(1.0, together - demand)  # the others' part, in units
                slower = 1.0 + (crowding - 1.0) * crowd
                speeds[name] = 1.0 / _stretched(demand, stretch * slower)
        return speeds


def shared(demand: float, others: Sequence[float], units: float) -> float:
    """How much longer work takes beside others, if units of a resource are all they share."""
    return _stretched(demand, _stretch(tuple(sorted((demand, *others))), units))


def _stretched(demand: float, stretch: float) -> float:
    """Time for a second's work whose share on the resource takes `stretch` times as long."""
    share = min(1.0, demand)  # the rest of the time it waits for a disk, or sleeps
    return 1.0 - share + share * stretch


@lru_cache(maxsize=256)  # the same few stages meet again and again
def _stretch(demands: tuple[float, ...], units: float) -> float:
    """How much longer work on a resource takes, such that all together just use it up."""
    if sum(demands) <= units:
        return 1.0
    low, high = 1.0, sum(demands) / units * 2.0 + 1.0
    while sum(d / _stretched(d, high) for d in demands) > units:
        high *= 2.0
    for _ in range(40):
        middle = (low + high) / 2.0
        used = sum(d / _stretched(d, middle) for d in demands)
        low, high = (middle, high) if used > units else (low, middle)
    return high
