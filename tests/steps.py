"""One training step of a model so small that every update can be followed by hand."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from myxtts.training.snapshot import take_snapshot
from myxtts.training.step import TrainStep
from tests.voices import PLAN

DEVICE = PLAN.model_device


class Line(keras.Model):
    """Predicts one number from three: every update can be followed by hand."""

    def __init__(self) -> None:
        super().__init__(name="line")
        self.slope = keras.layers.Dense(2, name="slope", kernel_initializer="ones")
        self.sum = keras.layers.Dense(1, name="sum", kernel_initializer="ones")
        self.sum(self.slope(tf.zeros([1, 3])))
        self.built = True

    def compute_losses(self, batch, *, step, training):
        off = tf.cast(self.sum(self.slope(batch["x"])), tf.float32)[:, 0] - batch["y"]
        weight = tf.reduce_sum(batch["counts"])
        loss = tf.reduce_sum(tf.square(off) * batch["counts"]) / tf.maximum(weight, 1.0)
        return {"loss": loss, "weight": weight}


def make_rows(rows=8, *, seed=0, masked=()):
    random = np.random.default_rng(seed)
    counts = np.ones([rows], np.float32)
    counts[list(masked)] = 0.0
    with tf.device(DEVICE):
        return {
            "x": tf.constant(random.normal(size=[rows, 3]).astype(np.float32)),
            "y": tf.constant(random.normal(size=[rows]).astype(np.float32)),
            "counts": tf.constant(counts),
        }


def rows_of(batch, start, stop):
    with tf.device(DEVICE):
        return {name: tf.identity(value[start:stop]) for name, value in batch.items()}


def make_step(model=None, **options):
    if model is None:
        with tf.device(DEVICE):
            model = Line()
    step = TrainStep(
        model,
        device=DEVICE,
        **{"learning_rate": 0.05, "weight_decay": 0.01, "ema_decay": 0.9, **options},
    )
    step.build()
    return step


def flat_snapshot(step):
    groups = take_snapshot(step)
    return {
        f"{group}/{name}": np.array(value)
        for group, tensors in groups.items()
        for name, value in tensors.items()
    }


def assert_same(a, b, *, but=()):
    assert a.keys() == b.keys()
    for name in a.keys() - set(but):
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def assert_near(a, b, *, tolerance=1e-5):
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_allclose(value, b[name], atol=tolerance, err_msg=name)


def poisoned(batch):
    with tf.device(DEVICE):
        x = batch["x"].numpy()
        x[1, 1] = np.nan
        return {**batch, "x": tf.constant(x)}
