"""What the data device's work would do on a GPU, read off TensorFlow's kernel registry."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import tensorflow as tf

from myxtts.checks.gpu_readiness import read_function
from myxtts.checks.hot_paths import SHAPE
from myxtts.data.loader import batch_spec
from myxtts.features import mels
from myxtts.features.device_stage import make_device_stage
from myxtts.features.pitch import Heard, pitches

MOST_LAUNCHES = 400  # for a batch of 16 clips of 800 frames


def test_the_data_stage_is_ready_for_a_gpu():
    found = read_function(
        make_device_stage(on_gpu=True).get_concrete_function(batch_spec(**asdict(SHAPE)))
    )
    assert found.is_ready, (found.missing, found.on_host, found.to_host)
    assert found.loops == []
    assert 100 < found.launches <= MOST_LAUNCHES


def test_the_form_for_a_cpu_is_seen_to_be_none_for_a_gpu():
    spec = batch_spec(2, frames=60, tokens=120)
    found = read_function(make_device_stage().get_concrete_function(spec))
    assert not found.is_ready
    assert ("scan/while", 60) in found.loops
    assert any(line.startswith("Less") for line in found.on_host)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda x: tf.unstack(tf.cast(x, tf.uint32))[0] + tf.constant(1, tf.uint32), "missing"),
        (lambda x: tf.cast(x, tf.int32) < 3, "on_host"),
        (lambda x: tf.reduce_sum(tf.cast(x, tf.int32)), "to_host"),
        (lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: -x), "to_host"),
        (lambda x: tf.scan(lambda a, b: a + b, x), "from_host"),  # it joins two answers a round
        (lambda x: tf.pad(x, [[1, 1]], constant_values=2.0), "to_host"),
        (
            lambda x: x + tf.cast(tf.shape(x)[0] * tf.argmin(x, output_type=tf.int32), tf.float32),
            "from_host",
        ),
    ],
)
def test_each_kind_of_trouble_is_found(function, kind):
    traced = tf.function(function).get_concrete_function(tf.TensorSpec([2000], tf.float32))
    assert getattr(read_function(traced), kind)


def test_what_is_constant_is_computed_once_and_costs_nothing():
    def function(x):
        return x + tf.cast(tf.range(2000) * 2, tf.float32)

    found = read_function(tf.function(function).get_concrete_function(tf.TensorSpec([2000])))
    assert found.is_ready
    assert found.launches == 1


def test_trips_of_the_input_are_told_apart():
    def function(lengths, x):
        return x * tf.cast(lengths, tf.float32) + tf.cast(lengths, tf.float32)

    specs = tf.TensorSpec([4], tf.int32), tf.TensorSpec([4])
    found = read_function(tf.function(function).get_concrete_function(*specs))
    assert found.is_ready
    assert len(found.inputs) == 1  # one tensor crosses once


def test_rounds_of_a_loop_are_counted_with_their_launches():
    def function(x):
        return tf.while_loop(lambda at, *_: at < 7, lambda at, x: (at + 1, x * 2.0), (0, x))[1]

    found = read_function(tf.function(function).get_concrete_function(tf.TensorSpec([2000])))
    assert [rounds for _, rounds in found.loops] == [7]
    assert found.launches == found.in_loops == 7


def test_the_form_for_a_gpu_gives_the_features_of_the_form_for_a_cpu():
    rng = np.random.default_rng(1)
    voice = sum(np.sin(2 * np.pi * 130 * k * np.arange(9000) / 22_050) / k for k in range(1, 9))
    waves = np.zeros([3, 9000], np.float32)
    waves[0], waves[1, :5000] = 0.2 * voice, 0.1 * rng.normal(size=5000)
    lengths = tf.constant([9000, 5000, 0])
    for precise in (True, False):
        one, other = (
            mels.log_mel(tf.constant(waves), lengths, precise=precise, by_row=by_row).numpy()
            for by_row in (True, False)
        )
        np.testing.assert_allclose(one, other, atol=1e-4 if precise else 5e-3)
    asked = [Heard(tf.constant(waves), lengths), Heard(tf.constant(waves), lengths, every=2)]
    for one, other in zip(pitches(asked), pitches(asked, by_row=False), strict=True):
        np.testing.assert_array_equal(one[1], other[1])
        np.testing.assert_allclose(one[0], other[0], rtol=1e-4)
