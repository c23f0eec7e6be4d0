"""Recordings played faster or slower, which moves pitch and formants: of one voice, many.

Shapes: B batch, S samples.
"""

from __future__ import annotations

import tensorflow as tf

AS_RECORDED = 0.25  # of the clips: what is to be learnt is the voice itself


def draw_speeds(lengths: tf.Tensor, size: int, seed: tf.Tensor, *, most: float) -> tf.Tensor:
    """How fast to play each wave [B]: up to so much faster or slower, and it still fits `size`."""
    far = tf.math.log(1.0 + most)
    drawn = tf.random.stateless_uniform([lengths.shape[0], 2], seed)
    speeds = tf.exp((2.0 * drawn[:, 0] - 1.0) * far)
    speeds = tf.where(drawn[:, 1] < AS_RECORDED, 1.0, speeds)
    return tf.maximum(speeds, tf.cast(lengths, tf.float32) / size)


def play(waves: tf.Tensor, lengths: tf.Tensor, speeds: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Waves [B, S] at these speeds [B], with their new lengths; what S has no room for is cut off.

    Four samples at a time make a curve (Catmull and Rom's). It leaves a wave as it is at the speed
    1, and what it folds or mirrors lies above 8 kHz, where our mels end.
    """
    # Far into a clip float32 would miss the place by a hundredth of a sample, which is a hiss.
    places = tf.range(float(waves.shape[1]), dtype=tf.float64) * tf.cast(
        speeds[:, None], tf.float64
    )
    real = places < tf.cast(lengths[:, None], tf.float64)
    before = tf.where(real, tf.cast(places, tf.int64), tf.zeros([], tf.int64))
    x = tf.cast(places - tf.cast(before, tf.float64), tf.float32)
    wide = tf.pad(waves, [[0, 0], [1, 2]])
    a, b, c, d = (tf.gather(wide, before + i, batch_dims=1) for i in range(4))
    bend = 2.0 * a - 5.0 * b + 4.0 * c - d + x * (3.0 * (b - c) + d - a)
    played = tf.where(real, b + 0.5 * x * (c - a + x * bend), 0.0)
    return played, tf.cast(tf.reduce_sum(tf.cast(real, tf.float32), axis=1), tf.int32)
