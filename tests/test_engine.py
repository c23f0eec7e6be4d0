"""The engine delivers every batch once and in order, no further ahead than asked, and for long."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import psutil
import pytest
import tensorflow as tf

from myxtts.pipeline import ProducerConsumerPipeline, engine
from myxtts.pipeline.devices import DevicePlan, Mode
from tests.support import pipeline_threads


def numbers(count: int):
    for i in range(count):
        yield {"value": np.full([4], i, np.float32)}


def values(batches) -> list[float]:
    return [float(batch["value"][0]) for batch in batches]


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


def test_thousands_of_batches_leave_memory_and_threads_as_they_were(plan):
    process = psutil.Process()
    threads_before = threading.active_count()
    batch = {"value": np.zeros([256], np.float32)}
    with ProducerConsumerPipeline((batch for _ in range(6_000)), plan=plan) as batches:
        for number, _ in enumerate(batches):
            if number == 2_000:  # the allocator's pools have settled
                gc.collect()
                rss_before = process.memory_info().rss
        gc.collect()
        growth_mb = (process.memory_info().rss - rss_before) / 2**20
        assert batches.stats().stages["train"].batches == 6_000
    assert growth_mb < 20
    assert threading.active_count() == threads_before
    assert pipeline_threads() == []
