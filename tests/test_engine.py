"""The engine when things go wrong, end early, or run for long; on two real logical devices."""

from __future__ import annotations

import dataclasses
import gc
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import psutil
import pytest
import tensorflow as tf

from myxtts.errors import ConfigError, MemoryBudgetError, StageStalledError
from myxtts.pipeline import ProducerConsumerPipeline, engine
from myxtts.pipeline.devices import DevicePlan, Mode
from tests.support import ROOT, pipeline_threads


def numbers(count: int):
    for i in range(count):
        yield {"value": np.full([4], i, np.float32)}


def values(batches) -> list[float]:
    return [float(batch["value"][0]) for batch in batches]


def fail_at(count: int):
    seen = iter(range(count + 1))

    def work(batch):
        if next(seen) == count:
            raise ZeroDivisionError("division by zero")
        return batch

    return work


def failing_source(count: int):
    yield from numbers(count)
    raise ZeroDivisionError("division by zero")


@pytest.fixture
def stages(monkeypatch):
    """What makes the pipeline do this work in that stage, as its arguments."""

    def stages(where, work):
        if where != "transfer":
            return {"process": work} if where == "process" else {}
        copy = engine.copy_to_model_device
        monkeypatch.setattr(engine, "copy_to_model_device", lambda b, plan: copy(work(b), plan))
        return {}

    return stages


@pytest.mark.parametrize("where", ["source", "process", "transfer"])
@pytest.mark.parametrize("good_batches", [0, 5])
def test_failure_in_a_stage_reaches_the_consumer_with_its_own_traceback(
    plan, where, good_batches, stages
):
    source = failing_source(good_batches) if where == "source" else numbers(50)
    stages = stages(where, fail_at(good_batches))
    with ProducerConsumerPipeline(source, plan=plan, model_start_delay=0, **stages) as batches:
        with pytest.raises(ZeroDivisionError, match="by zero") as failure:
            values(batches)
        with pytest.raises(ZeroDivisionError):  # and again: it does not turn into a quiet end
            next(batches)
    functions = [entry.name for entry in failure.traceback]
    assert ("failing_source" if where == "source" else "work") in functions
    if sys.version_info >= (3, 11):
        stage = "read" if where == "source" else where
        assert f"in pipeline stage '{stage}', batch {good_batches}" in failure.value.__notes__
    assert pipeline_threads() == []


def test_a_failure_surfaces_at_once_though_batches_are_still_waiting(plan):
    with ProducerConsumerPipeline(failing_source(3), plan=plan) as batches:
        time.sleep(0.5)  # three batches could be ready by now
        with pytest.raises(ZeroDivisionError):
            next(batches)


def test_failure_in_the_consumer_ends_every_thread(plan):
    def consume() -> None:
        with ProducerConsumerPipeline(numbers(1000), plan=plan) as batches:
            next(batches)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        consume()
    assert pipeline_threads() == []


def test_stop_iteration_in_process_is_a_failure_and_no_quiet_end(plan):
    def stop(batch):
        raise StopIteration

    with (
        ProducerConsumerPipeline(numbers(5), plan=plan, process=stop) as batches,
        pytest.raises(RuntimeError, match="StopIteration"),
    ):
        values(batches)


def test_consumer_that_leaves_early_ends_everything_within_two_seconds(plan):
    threads_before = threading.active_count()
    endless = ({"value": np.zeros([4], np.float32)} for _ in iter(int, 1))
    with ProducerConsumerPipeline(endless, plan=plan) as batches:
        for batch in batches:
            assert batch["value"].shape == [4]
            break
        left = time.monotonic()
    assert time.monotonic() - left < 2
    assert pipeline_threads() == []
    assert threading.active_count() == threads_before


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 9])
@pytest.mark.parametrize("depth", [1, 3])
def test_every_batch_arrives_once_and_in_order_also_from_a_short_source(plan, count, depth):
    with ProducerConsumerPipeline(numbers(count), plan=plan, depth=depth) as batches:
        assert values(batches) == list(range(count))
        assert values(batches) == []  # and stays ended
    assert pipeline_threads() == []


def test_a_tf_data_source_is_read_like_any_other(plan):
    source = tf.data.Dataset.range(6).map(lambda i: {"value": tf.cast(i, tf.float32)[None]})
    with ProducerConsumerPipeline(source, plan=plan) as batches:
        assert values(batches) == list(range(6))


def test_a_short_source_does_not_wait_for_the_start_delay(plan):
    began = time.monotonic()
    with ProducerConsumerPipeline(numbers(2), plan=plan, model_start_delay=30) as batches:
        assert values(batches) == [0, 1]
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("where", ["read", "process", "transfer"])
def test_a_stuck_stage_is_named_by_the_watchdog_with_its_stack(plan, where, caplog, stages):
    release = threading.Event()

    def wait_for_ever(batch):
        release.wait(60)
        return batch

    source = map(wait_for_ever, numbers(3)) if where == "read" else numbers(3)
    stages = stages(where, wait_for_ever)
    pipeline = ProducerConsumerPipeline(
        source, plan=plan, model_start_delay=0, stall_timeout=0.4, **stages
    )
    pipeline.start()
    with pytest.raises(StageStalledError, match=f"stage '{where}' made no progress"):
        next(pipeline)
    assert "release.wait(60)" in caplog.text
    release.set()
    assert pipeline.close() == []


def test_a_step_that_takes_too_long_is_named_too(plan, caplog):
    with ProducerConsumerPipeline(numbers(2), plan=plan, stall_timeout=0.2) as batches:
        for _ in batches:
            time.sleep(0.6)
    warnings = [r for r in caplog.records if "Stage 'train' has worked on one batch" in r.message]
    assert len(warnings) == 2  # once a step
    assert "test_a_step_that_takes_too_long" in caplog.text


def test_a_thread_that_does_not_end_is_named(plan, monkeypatch):
    monkeypatch.setattr(engine, "CLOSE_DEADLINE_S", 1.0)
    release = threading.Event()

    def wait(batch):
        release.wait(60)
        return batch

    with (
        pytest.raises(StageStalledError, match=r"did not end within 1 s: process"),
        ProducerConsumerPipeline(numbers(3), plan=plan, process=wait),
    ):
        time.sleep(0.2)
    release.set()


def test_leaving_early_closes_the_source(plan):
    closed = []

    def source():
        try:
            yield from numbers(1000)
        finally:
            closed.append(True)

    pipeline = ProducerConsumerPipeline(source(), plan=plan)
    with pipeline as batches:
        next(batches)
    assert closed == [True]
    with pytest.raises(RuntimeError, match="closed"):
        next(pipeline)
    assert pipeline.close() == []  # once more does no harm


def test_a_failed_pipeline_lets_its_batches_go(plan):
    class Marked(dict):
        pass

    alive = []

    def source():
        batch = Marked(value=np.zeros([4], np.float32))
        alive.append(weakref.ref(batch))
        yield batch

    pipeline = ProducerConsumerPipeline(source(), plan=plan, process=fail_at(0))
    with pipeline as batches, pytest.raises(ZeroDivisionError):
        next(batches)
    del batches
    gc.collect()
    assert alive[0]() is None


def test_a_source_that_cannot_even_start_is_a_failure(plan):
    class Broken:
        def __iter__(self):
            raise OSError("no such disk")

    with (
        ProducerConsumerPipeline(Broken(), plan=plan) as batches,
        pytest.raises(OSError, match="no such disk"),
    ):
        next(batches)


@pytest.mark.parametrize(
    "wrong",
    [{"depth": 0}, {"buffer_size": 1.5}, {"model_start_delay": -1}, {"stall_timeout": None}],
)
def test_a_wrong_setting_is_refused_in_a_sentence(plan, wrong):
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
        ProducerConsumerPipeline([], plan=plan, **wrong)


def test_statistics_count_what_is_under_way(plan):
    release = threading.Event()

    def slow():
        release.wait(0.5)
        yield from numbers(1)

    with ProducerConsumerPipeline(slow(), plan=plan, model_start_delay=0) as batches:
        time.sleep(0.2)
        assert batches.stats().stages["read"].busy_s > 0.1
        release.set()
        assert len(list(batches)) == 1


def test_concurrent_pipelines_do_not_mix(plan):
    results: dict[int, list[float]] = {}

    def consume(offset: int) -> None:
        source = ({"value": np.full([4], offset + i, np.float32)} for i in range(50))
        with ProducerConsumerPipeline(source, plan=plan) as batches:
            results[offset] = values(batches)

    threads = [threading.Thread(target=consume, args=(1000 * i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {1000 * i: [1000 * i + k for k in range(50)] for i in range(3)}
    assert pipeline_threads() == []


def test_no_stage_runs_further_ahead_than_its_buffer(plan):
    made, processed = [], []

    def source():
        for i in range(200):
            made.append(i)
            yield {"value": np.full([4], i, np.float32)}

    def note(batch):
        processed.append(1)
        return batch

    with ProducerConsumerPipeline(
        source(), plan=plan, process=note, depth=2, prefetch_buffer_size=3, buffer_size=5
    ) as batches:
        next(batches)
        time.sleep(0.5)
        # Taken by the consumer 1, ring 2, prefetched 3; the host holds 5 more, and one generator
        # step may be under way.
        assert len(processed) == 1 + 2 + 3
        assert len(made) == 1 + 2 + 3 + 5


def test_one_device_serves_both_roles_without_a_copy(monkeypatch):
    single = DevicePlan(Mode.SINGLE, "/CPU:0", "/CPU:0")
    monkeypatch.setattr(engine, "copy_to_model_device", None)  # calling it would raise
    with ProducerConsumerPipeline(numbers(7), plan=single) as batches:
        assert values(batches) == list(range(7))
        assert batches.stats().transferred_bytes == 0


class Counting:
    """A source that tells how far it is."""

    def __init__(self, count):
        self.given, self.count = 0, count

    def __iter__(self):
        return self

    def __next__(self):
        if self.given == self.count:
            raise StopIteration
        self.given += 1
        return np.full([4], self.given, np.float32)

    def get_state(self):
        return {"given": self.given}


def test_the_state_of_the_source_travels_with_each_batch(plan):
    with ProducerConsumerPipeline(Counting(9), plan=plan, buffer_size=4) as batches:
        assert batches.state is None
        for number, batch in enumerate(batches, start=1):
            assert batches.state == {"given": number}  # however far it was read ahead
            assert batch.numpy()[0] == number


def test_a_source_that_tells_no_state_has_none(plan):
    with ProducerConsumerPipeline(numbers(3), plan=plan) as batches:
        next(batches)
        assert batches.state is None


def limited(plan: DevicePlan, data_mb: int, model_mb: int) -> DevicePlan:
    return dataclasses.replace(plan, data_limit_mb=data_mb, model_limit_mb=model_mb)


@pytest.mark.parametrize(
    ("data_mb", "model_mb", "role", "held"),
    [(40, 4000, "data", "44.0"), (4000, 39, "model", "40.0")],
)
def test_batches_that_cannot_fit_are_refused_before_the_run_starts(
    plan, data_mb, model_mb, role, held
):
    spec = tf.TensorSpec([1024, 1024], tf.float32)  # 4 MB; processed it is 8 MB

    @tf.function
    def double(batch):
        return tf.concat([batch, batch], axis=0)

    def never():
        raise AssertionError("nothing may be read")
        yield

    with pytest.raises(MemoryBudgetError, match=rf"{role} device would hold {held} MB") as refusal:
        ProducerConsumerPipeline(
            never(),
            plan=limited(plan, data_mb, model_mb),
            process=double,
            prefetch_buffer_size=4,
            depth=3,
            batch_spec=spec,
        )
    assert "8.0 MB each" in refusal.value.problem
    assert f"its limit is {min(data_mb, model_mb)} MB" in refusal.value.problem


def test_batches_just_inside_the_limits_run(plan):
    spec = tf.TensorSpec([1024, 1024], tf.float32)
    with ProducerConsumerPipeline(
        (np.zeros([1024, 1024], np.float32) for _ in range(3)),
        plan=limited(plan, 24, 20),  # (4 + 1) x 4 + 4 and (3 + 2) x 4
        batch_spec=spec,
    ) as batches:
        assert len(list(batches)) == 3


def test_a_larger_batch_later_on_is_refused_when_it_comes(plan):
    source = [np.zeros([1024, 256], np.float32), np.zeros([1024, 2048], np.float32)]
    with (
        ProducerConsumerPipeline(source, plan=limited(plan, 4000, 8)) as batches,
        pytest.raises(MemoryBudgetError, match="model device would hold 40.0 MB"),
    ):
        list(batches)


CONSUME_FOR_EVER = """
import numpy as np
from myxtts.pipeline import ProducerConsumerPipeline, configure_devices
plan = configure_devices(simulate=True)
endless = (np.zeros([4], np.float32) for _ in iter(int, 1))
with ProducerConsumerPipeline(endless, plan=plan) as batches:
    for number, batch in enumerate(batches):
        if number == 100:
            print("running", flush=True)
"""
WAIT_FOR_EVER = CONSUME_FOR_EVER.replace(
    "(np.zeros([4], np.float32) for _ in iter(int, 1))",
    "(print('running', flush=True) or __import__('time').sleep(1) for _ in iter(int, 1))",
)


@pytest.mark.parametrize("program", [CONSUME_FOR_EVER, WAIT_FOR_EVER])
def test_ctrl_c_ends_the_process_within_seconds(program):
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline().strip() == "running"
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - sent < 6
    assert "KeyboardInterrupt" in errors
    assert process.returncode in (-signal.SIGINT, 130, 1)


def test_twenty_thousand_batches_leave_memory_and_threads_as_they_were(plan):
    process = psutil.Process()
    threads_before = threading.active_count()
    batch = {"value": np.zeros([256], np.float32)}
    with ProducerConsumerPipeline((batch for _ in range(20_000)), plan=plan) as batches:
        for number, _ in enumerate(batches):
            if number == 2_000:  # the allocator's pools have settled
                gc.collect()
                rss_before = process.memory_info().rss
        gc.collect()
        growth_mb = (process.memory_info().rss - rss_before) / 2**20
        assert batches.stats().stages["train"].batches == 20_000
    assert growth_mb < 20
    assert threading.active_count() == threads_before
    assert pipeline_threads() == []
