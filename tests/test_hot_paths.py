"""Every traced function of the hot paths, read and lowered for a GPU that is not there."""

from __future__ import annotations

import itertools

import pytest
import tensorflow as tf

from myxtts.checks.gpu_lowering import lower
from myxtts.checks.gpu_readiness import Readiness
from myxtts.checks.hot_paths import (
    HotPath,
    Variant,
    bytes_read,
    data_paths,
    model_paths,
    vocoder_path,
)
from myxtts.checks.readiness_bars import Reading, read_path, shortcomings
from myxtts.config.presets import MODEL_SIZES
from myxtts.pipeline.budget import spec_bytes
from tests.voices import PLAN

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
HEADS = ("regression", "flow")
ALL = [Variant(*each) for each in itertools.product(MODEL_SIZES, HEADS, POLICIES)]


@pytest.fixture(scope="module")
def batch():
    paths, batch = data_paths()
    for path in (*paths, vocoder_path()):
        assert not list(shortcomings(read_path(path))), path.name
    return batch


def check(variant, batch):
    names = []
    for path in model_paths(variant, batch):
        reading = read_path(path)
        assert not list(shortcomings(reading)), (path.name, path.compiled)
        names.append((path.name, path.compiled))
        if path.name == "gradients":
            assert bytes_read(path.concrete, batch) == spec_bytes(batch)
            assert reading.found.launches > 1000
            assert len(reading.found.inputs) <= 2 * len(batch)
    assert len(names) == len(set(names)) == 7


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("variant", ALL, ids=str)
def test_every_model_is_ready_for_a_gpu(variant, batch):
    check(variant, batch)


def concrete(function, *specs, **options):
    return tf.function(function, **options).get_concrete_function(*specs)


FLOATS = tf.TensorSpec([4, 4], tf.float32)


def test_a_function_that_reads_variables_is_lowered_for_the_gpu_itself():
    with tf.device(PLAN.data_device):
        weights = tf.Variable(tf.ones([4, 4]))
    lowered = lower(concrete(lambda x: x @ weights + 1.0, FLOATS, jit_compile=True))
    assert lowered.is_ready, lowered
    assert lowered.platform == "GPU"
    assert lowered.instructions > 3


def test_a_function_that_writes_variables_is_lowered_and_each_operation_looked_up():
    with tf.device(PLAN.data_device):
        weights = tf.Variable(tf.ones([4, 4]))

    def write(x):
        tf.cond(x[0, 0] > 0, lambda: weights.assign(x), lambda: weights.assign_add(x))

    lowered = lower(concrete(write, FLOATS, jit_compile=True))
    assert lowered.is_ready, lowered
    assert lowered.platform == "CPU"
    assert lowered.branches == 1
    reading = Reading("update", Readiness(), lowered)
    assert list(shortcomings(reading)) == ["1 branches, each decided by the host"]


def test_what_xla_cannot_take_is_told():
    lowered = lower(concrete(lambda x: tf.where(x > 0), FLOATS, jit_compile=True))
    reading = read_path(HotPath("x", concrete(lambda x: tf.strings.as_string(x), FLOATS), True))
    assert "XLA does not take it" in next(shortcomings(reading))
    assert lowered.is_ready  # of a size that only its values tell, yet XLA bounds it


def test_a_step_that_goes_round_frame_by_frame_is_told():
    def step(x):
        return tf.scan(lambda a, b: a + b, x @ x)

    traced = concrete(step, tf.TensorSpec([800, 800], tf.float32), jit_compile=True)
    reading = read_path(HotPath("gradients", traced, True))
    assert reading.found.loops[0][1] == 800
    (lacking,) = shortcomings(reading)
    assert "of the step, at most 10 %" in lacking


def test_what_is_not_read_is_not_counted():
    spec = {"a": tf.TensorSpec([3], tf.float32), "b": tf.TensorSpec([5], tf.int32)}
    traced = concrete(lambda batch: batch["a"] * 2.0, spec)
    assert spec_bytes(spec) == 32
    assert bytes_read(traced, spec) == 12
