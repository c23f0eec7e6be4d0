"""The consumer's time on a device that queues: a fake device that is done when the test says so."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import numpy as np
import pytest

from myxtts.pipeline import ProducerConsumerPipeline, engine, telemetry
from myxtts.pipeline.buffers import BufferClosed
from myxtts.pipeline.consumer_clock import QueueClock
from myxtts.pipeline.telemetry import PROCESS, TRAIN, WARM_UP_STEPS, StageMeter, Telemetry


class Device:
    """Finishes what it was given one by one, at times of its own clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self._done = 0.0, SimpleQueue()
        self.failures: list[BaseException] = []
        monkeypatch.setattr(telemetry.time, "perf_counter", lambda: self.now)
        self.telemetry = Telemetry(ring_capacity=3)
        self.clock = QueueClock(
            self.telemetry,
            name="pipeline-test-train",
            on_failure=lambda _, error: self.failures.append(error),
            wait=self._wait,
        )
        self.clock.thread.start()

    def _wait(self, tensor: object) -> None:
        answer = self._done.get(timeout=30)
        if isinstance(answer, BaseException):
            raise answer

    def begin(self, at: float, asked: float) -> None:
        self.now = asked
        self.clock.ask()
        self.now = at
        self.clock.take("4x80", ready=1)

    def finish(self, at: float, answer: object = None) -> None:
        before, self.now = self.telemetry.meters[TRAIN].batches, at
        self._done.put(answer)
        wait_until(lambda: self.telemetry.meters[TRAIN].batches > before or bool(self.failures))


def wait_until(condition) -> None:
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came")


@pytest.fixture
def device(monkeypatch):
    made = Device(monkeypatch)
    yield made
    made.clock.close()
    made._done.put(None)
    made.clock.thread.join(5)


def test_a_device_that_always_has_work_queued_is_always_busy(device):
    device.begin(at=1.0, asked=0.0)
    device.clock.finish_with("first")
    for number in range(1, 20):  # the next is queued long before the one before it is done
        device.begin(at=number + 0.1, asked=number + 0.1)
        device.clock.finish_with("next")
        device.finish(at=number + 1.0)
    stats = device.telemetry.stats()
    assert stats.stages[TRAIN].busy_share == pytest.approx(19.0 / 20.0)  # all but the start
    assert stats.steps[0].mean_s == pytest.approx(1.0)
    assert stats.steps[0].variation == pytest.approx(0.0, abs=1e-6)


def test_waiting_is_what_the_device_idles_and_not_what_the_consumer_waits(device):
    for number in range(20):  # a batch each second, worked on for 0.4 s: idle for the rest
        device.begin(at=float(number), asked=number - 0.95)
        device.clock.finish_with("one")
        device.finish(at=number + 0.4)
    device.now = 20.0
    device.clock.ask()
    stats = device.telemetry.stats()
    assert stats.stages[TRAIN].busy_s == pytest.approx(8.0)
    assert stats.stages[TRAIN].waiting_input_s == pytest.approx(12.0, abs=1.0)
    assert stats.steps[0].steps == 20 - WARM_UP_STEPS
    assert stats.steps[0].mean_s == pytest.approx(1.0)


def test_one_step_may_be_queued_behind_the_running_one_and_no_more(device):
    returned = []

    def train() -> None:
        for number in range(3):
            device.clock.ask()
            device.clock.take("4x80", ready=1)
            device.clock.finish_with(number)
            returned.append(number)

    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    wait_until(lambda: len(returned) == 2)
    thread.join(0.3)
    assert returned == [0, 1]  # the third waits for the first
    device.finish(at=1.0)
    wait_until(lambda: len(returned) == 3)
    device.finish(at=2.0)
    device.finish(at=3.0)
    thread.join(5)


def test_a_pause_waits_until_the_device_is_through(device):
    device.begin(at=0.0, asked=0.0)
    device.clock.finish_with("one")
    paused = threading.Thread(target=device.clock.pause, daemon=True)
    paused.start()
    paused.join(0.2)
    assert paused.is_alive()
    device.finish(at=1.0)
    paused.join(5)
    assert not paused.is_alive()
    assert device.telemetry.stats().stages[TRAIN].busy_s == pytest.approx(1.0)


def test_a_batch_without_a_named_tensor_is_done_when_the_next_is_asked_for(device):
    for number in range(5):
        device.begin(at=float(number), asked=float(number))
    assert device.telemetry.meters[TRAIN].batches == 4


def test_a_failure_of_the_device_reaches_the_consumer(device):
    device.begin(at=0.0, asked=0.0)
    device.clock.finish_with("one")
    device.finish(at=1.0, answer=RuntimeError("the card fell off the bus"))
    wait_until(lambda: bool(device.failures))
    device.clock.take("4x80", ready=0)
    with pytest.raises(BufferClosed):
        device.clock.finish_with("another")


# -- in the engine --


@pytest.fixture
def queueing(monkeypatch):
    """The engine takes the model device for one that queues."""
    monkeypatch.setattr(engine, "runs_ahead", lambda device: True)
    monkeypatch.setattr("myxtts.pipeline.alone.runs_ahead", lambda device: True)


def test_a_run_on_a_device_that_queues_counts_every_batch(plan, queueing):
    source = ({"x": np.full([4, 8], n, np.float32)} for n in range(30))
    seen = []
    with ProducerConsumerPipeline(source, plan=plan, process=lambda b: b) as batches:
        for batch in batches:
            seen.append(float(batch["x"][0, 0]))
            batches.finish_with(batch["x"])
        with batches.paused():
            pass
        stats = batches.stats()
    assert seen == list(map(float, range(30)))
    assert stats.batches == 30
    assert not [t.name for t in threading.enumerate() if t.name.startswith("pipeline-")]


def test_the_crossing_is_timed_alone_now_and_then(plan, queueing, monkeypatch):
    drained = []
    monkeypatch.setattr("myxtts.pipeline.alone.drain", drained.append)
    source = ({"x": np.zeros([4, 8], np.float32)} for _ in range(70))
    with ProducerConsumerPipeline(source, plan=plan) as batches:
        for batch in batches:
            batches.finish_with(batch["x"])
    assert drained == [plan.model_device] * 2  # of 70, one in fifty


def test_time_in_a_queue_is_not_work(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(telemetry.time, "perf_counter", lambda: now[0])
    meter = StageMeter(PROCESS, telemetry.deque())
    meter.timed_alone(0.1)
    for _ in range(10):
        meter.enter(telemetry.BUSY)
        now[0] += 0.5
        meter.finish_batch(telemetry.IDLE)
    stats = meter.snapshot()
    assert stats.busy_s == pytest.approx(1.0)
    assert stats.queued_s == pytest.approx(4.0)
    assert stats.busy_share == pytest.approx(0.2)
