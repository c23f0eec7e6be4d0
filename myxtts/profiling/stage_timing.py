"""Every stage with the machine to itself: what the whole pipeline is compared with."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import tensorflow as tf

from myxtts.pipeline.budget import batch_bytes
from myxtts.pipeline.devices import DevicePlan
from myxtts.pipeline.hardware import MB
from myxtts.pipeline.telemetry import PROCESS, TRAIN, TRANSFER
from myxtts.pipeline.transfer import copy_to_model_device, put_on_device, wait_for_gpu
from myxtts.profiling.measurements import READ_CACHED, StageTimes
from myxtts.profiling.simulator import shared
from myxtts.profiling.subject import Subject
from myxtts.profiling.what_if import READ_AHEAD

READ_BATCHES = 4  # at a sitting
LITTLE = 0.1  # of a step's time
# How often each phase is told of: (what it is, batches done, batches in all).
OnProgress = Callable[[str, int, int], None]


@dataclass
class _Clock:
    """Collects wall and CPU time of calls."""

    seconds: list[float] = field(default_factory=list)
    cpu_s: float = 0.0

    def time(self, call: Callable[[], Any], *, count: bool = True) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        if count:
            self.seconds.append(time.perf_counter() - wall)
            self.cpu_s += time.process_time() - cpu
        return result

    def times(self) -> StageTimes:
        return StageTimes(tuple(self.seconds), self.cpu_s / max(1, len(self.seconds)))


class StageTimer:
    """Times every stage of a run by itself, in as many sittings as one likes."""

    def __init__(self, subject: Subject, on_progress: OnProgress) -> None:
        self._subject, self._on_progress = subject, on_progress
        self._clocks = {stage: _Clock() for stage in (*subject.readers, PROCESS, TRANSFER, TRAIN)}
        self._seen: set[str] = set()  # shapes
        self._beside = _Clock()  # steps while a batch is processed at the same time
        self.batch_mb = 0.0

    def times(self) -> dict[str, StageTimes]:
        """What was measured so far."""
        return {stage: clock.times() for stage, clock in self._clocks.items()}

    def measure(self, rounds: int) -> None:
        """Some batches from every reader, then `rounds` batches through every stage in turn."""
        for number, name in enumerate(self._subject.readers):
            self._on_progress("reading", number, len(self._subject.readers))
            self._time_reader(name)
        with closing(self._subject.source()) as source:
            for number in range(rounds):
                host = next(source)
                self._time_stages(host, number, rounds)
        if self._subject.plan.model_device.startswith("/CPU"):
            self._time_side_by_side(host, rounds)

    def crowding(self, cores: int) -> float:
        """Times as long as sharing the cores explains: caches and clock are shared as well."""
        times = self.times()
        process, train = (times[stage] for stage in (PROCESS, TRAIN))
        if process.mean_s < LITTLE * train.mean_s:
            return 1.0  # it is hardly ever at work, and too short to be measured like this
        demands = [stage.cpu_s / stage.mean_s for stage in (process, train)]
        explained = shared(demands[1], demands[:1], cores) * train.median_s
        return max(1.0, self._beside.times().median_s / explained)

    def _time_reader(self, name: str) -> None:
        open_reader = self._subject.readers[name]
        batches_read = READ_AHEAD + 1 + READ_BATCHES
        if name == READ_CACHED:  # the same batches a second time are what a cache holds
            with closing(open_reader()) as batches:
                for _ in itertools.islice(batches, batches_read):
                    pass
        with closing(open_reader()) as batches:
            for number in range(batches_read):  # what is read ahead comes at once
                self._clocks[name].time(partial(next, batches), count=number > READ_AHEAD)

    def _time_stages(self, host: Any, number: int, rounds: int) -> None:
        subject, clocks, shape = self._subject, self._clocks, _shape_of(host)
        new = shape not in self._seen
        self._on_progress("compiling" if new else "each stage alone", number, rounds)
        # The first batch of a shape compiles, the second fills caches: neither counts.
        for count in (False, False, True) if new else (True,):
            ready = clocks[PROCESS].time(partial(_process, subject, host), count=count)
            moved = clocks[TRANSFER].time(partial(_transfer, subject.plan, ready), count=count)
            clocks[TRAIN].time(partial(_train, subject, moved), count=count)
        self._seen.add(shape)
        self.batch_mb = max(self.batch_mb, batch_bytes(tf.nest.flatten(ready)) / MB)

    def _time_side_by_side(self, host: Any, rounds: int) -> None:
        subject, done = self._subject, threading.Event()
        ready = _transfer(subject.plan, _process(subject, host))

        def process() -> None:
            while not done.is_set():
                _process(subject, host)

        thread = threading.Thread(target=process, name="profile-process", daemon=True)
        thread.start()
        try:
            for _ in range(rounds):
                self._beside.time(partial(_train, subject, ready))
        finally:
            done.set()
            thread.join()


def _process(subject: Subject, host: Any) -> Any:
    """What the engine's process stage does with a batch."""
    device = subject.plan.data_device
    batch, _ = put_on_device(host, device)
    with tf.device(device):
        result = subject.process(batch)
    ready, tensors = put_on_device(result, device)
    wait_for_gpu(tensors, device)
    return ready


def _transfer(plan: DevicePlan, ready: Any) -> Any:
    one_device = plan.data_device == plan.model_device
    return ready if one_device else copy_to_model_device(ready, plan)


def _train(subject: Subject, batch: Any) -> None:
    wait_for_gpu([subject.train(batch)], subject.plan.model_device)


def _shape_of(batch: Any) -> str:
    return " ".join(str(getattr(leaf, "shape", "")) for leaf in tf.nest.flatten(batch))
