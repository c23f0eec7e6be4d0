"""The learning rate over a run: up in a straight line, then down along a cosine."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

MAX_WARM_UP_SHARE = 0.1  # of the run: a short run must not end before it has warmed up
FINAL_SHARE = 0.01  # of the peak


class WarmUpCosine(keras.optimizers.schedules.LearningRateSchedule):
    """The run's length is a variable, so that it can change without compiling the step anew."""

    def __init__(self, peak: float, *, warm_up_steps: int, total_steps: int) -> None:
        self.peak = peak
        self.warm_up_steps = warm_up_steps
        self.total_steps = tf.Variable(total_steps, trainable=False, dtype=tf.int64)

    def __call__(self, step: Any) -> tf.Tensor:
        """The rate of the update that follows `step` updates."""
        done = tf.cast(step, tf.float32)
        total = tf.cast(self.total_steps, tf.float32)
        warm_up = tf.maximum(1.0, tf.minimum(float(self.warm_up_steps), MAX_WARM_UP_SHARE * total))
        rising = (done + 1.0) / warm_up
        progress = tf.clip_by_value((done - warm_up) / tf.maximum(1.0, total - warm_up), 0.0, 1.0)
        falling = FINAL_SHARE + (1.0 - FINAL_SHARE) * 0.5 * (1.0 + tf.cos(math.pi * progress))
        return self.peak * tf.minimum(rising, falling)
