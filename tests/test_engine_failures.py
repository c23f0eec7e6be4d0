"""The engine when a stage fails, hangs, or cannot fit, and when the consumer leaves early."""

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
import pytest
import tensorflow as tf

from myxtts.errors import ConfigError, MemoryBudgetError, StageStalledError
from myxtts.pipeline import ProducerConsumerPipeline, engine
from myxtts.pipeline.devices import DevicePlan
from tests.support import ROOT, pipeline_threads
from tests.test_engine import numbers, values


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
