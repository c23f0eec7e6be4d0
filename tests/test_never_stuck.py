"""Whatever dies or hangs behind a pipeline, its consumer is told, and its end is bounded."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import DataConfig
from myxtts.data.training_data import prepare_training
from myxtts.errors import StageLostError
from myxtts.pipeline import ProducerConsumerPipeline
from myxtts.pipeline.iterators import iterate
from tests import runs
from tests.support import pipeline_threads

AGE_S = 4.0  # of an iterator: its autotuning thread then sleeps for seconds at a time
AT_ONCE = 8  # iterators; TensorFlow alone is slow to end about every other one


def numbers(count: int):
    for i in range(count):
        yield {"value": np.full([4], i, np.float32)}


def seconds_to_close(iterators: list) -> float:
    """The longest of several, all as old as it takes for the fault to show."""
    for iterator in iterators:
        next(iterator)
    time.sleep(AGE_S)
    took = []
    while iterators:
        began = time.monotonic()
        iterators.pop().close()
        took.append(time.monotonic() - began)
    return max(took)


def test_the_end_of_an_autotuned_data_set_is_not_waited_for():
    dataset = tf.data.Dataset.range(10**9).map(lambda x: x + 1, num_parallel_calls=2).prefetch(2)
    assert seconds_to_close([iterate(dataset) for _ in range(AT_ONCE)]) < 1.0


def test_our_own_reading_ends_at_once(tmp_path):
    config = DataConfig(train_data=runs.make_clips(tmp_path, 4), tokenizer="characters")
    data = prepare_training(config, seed=0)
    # Without `iterate`: there is nothing to wait for.
    assert seconds_to_close([data.batches() for _ in range(AT_ONCE)]) < 1.0


def test_a_source_that_does_not_close_holds_nobody_up(plan):
    released = threading.Event()

    def source():
        try:
            yield from numbers(1000)
        finally:
            assert released.wait(60)

    stop = []
    with ProducerConsumerPipeline(source(), plan=plan, stop_when=lambda: bool(stop)) as batches:
        next(batches)
        stop.append(True)
        began = time.monotonic()
    assert time.monotonic() - began < 6
    released.set()


def test_an_exception_that_refuses_a_note_still_reaches_the_consumer(plan):
    class Stubborn(Exception):
        def add_note(self, note):
            raise TypeError("no notes, please")

    def fail(batch):
        raise Stubborn("the real reason")

    with (
        ProducerConsumerPipeline(numbers(3), plan=plan, process=fail) as batches,
        pytest.raises(Stubborn, match="the real reason"),
    ):
        next(batches)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_a_thread_that_dies_without_a_word_is_noticed(plan, stage):
    def fail(item):
        raise OSError("nobody hears this")

    def fail_to_tell(meter, error):  # as any fault in telling would
        raise MemoryError("nor this")

    pipeline = ProducerConsumerPipeline(numbers(1000), plan=plan, model_start_delay=0)
    lost = pipeline._stages[stage]
    lost._work, lost._on_failure = fail, fail_to_tell
    with pipeline as batches:
        began = time.monotonic()
        with pytest.raises(StageLostError, match=f"stage '{lost.meter.name}' died"):
            next(batches)
        assert time.monotonic() - began < 5
    assert not pipeline_threads()


def test_a_forked_child_is_refused_and_leaves_its_parents_pipeline_alone(plan):
    with ProducerConsumerPipeline(numbers(50), plan=plan) as batches:
        next(batches)
        if (child := os.fork()) == 0:
            signal.alarm(20)  # should it wait for ever after all
            code = 1
            try:
                next(batches)
            except StageLostError as error:
                code = 0 if "forked child" in error.problem and batches.close() == [] else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert sum(1 for _ in batches) == 49
