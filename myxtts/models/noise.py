"""Random numbers that belong to a clip, wherever it stands in a batch and however it is padded.

TensorFlow's own depend on the shape that is drawn, so a batch worked on in halves, or padded to
another length, would be another batch. Shapes: B batch, T text.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from myxtts.models.layers import counted, size_of

DROPOUT_SALT = 16  # and those behind it, one for each layer


def clip_keys(
    seed: tf.Tensor, step: tf.Tensor, tokens: tf.Tensor, token_lengths: tf.Tensor
) -> tf.Tensor:
    """A number for each clip [B], from its text and from the batch's seed and the step."""
    place = counted(size_of(tokens, 1))[None, :]
    real = place < tf.cast(token_lengths, tf.float32)[:, None]
    place = _scramble(tf.cast(place, tf.uint32))
    symbols = tf.where(real, _scramble(tf.cast(tokens, tf.uint32) + place), 0)
    said = tf.cast(tf.reduce_sum(tf.cast(symbols, tf.int64), axis=1), tf.uint32)
    return _scramble(said + seed_key(seed) + _scramble(tf.cast(step, tf.uint32)))


def seed_key(seed: tf.Tensor) -> tf.Tensor:
    """One number for a seed of two."""
    both = tf.cast(seed, tf.uint32)
    return _scramble(both[0] + _scramble(both[1]))  # no GPU unstacks them


def uniform(keys: tf.Tensor, size: int | tf.Tensor, *, salt: int) -> tf.Tensor:
    """Numbers between 0 and 1 for each key: [B, size]; the first are the same for any size.

    Each use has a salt of its own, below 128.
    """
    place = _scramble(tf.cast(counted(size), tf.uint32) + np.uint32(salt << 24))
    bits = _scramble(place[None, :] + keys[:, None])
    return (tf.cast(_shift(bits, 8), tf.float32) + 0.5) * np.float32(2.0**-24)


def normal(keys: tf.Tensor, size: int | tf.Tensor, *, salt: int) -> tf.Tensor:
    """Normal numbers for each key: [B, size]; the first are the same for any size."""
    angle = uniform(keys, size, salt=salt) * np.float32(2.0 * np.pi)
    radius = tf.sqrt(-2.0 * tf.math.log(uniform(keys, size, salt=salt + 128)))
    return radius * tf.cos(angle)


class Dropout:
    """Leaves out a share of the numbers it is given, others in every call, and scales the rest.

    What a model must say without any of its numbers it does not learn by heart.
    """

    def __init__(self, keys: tf.Tensor, share: float) -> None:
        self._keys, self._share = keys, share
        self._salt = DROPOUT_SALT

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """[B, L, C] to the same."""
        length, width = size_of(x, 1), x.shape[2]
        assert self._salt < 128, "more layers than there are salts"
        drawn = uniform(self._keys, length * width, salt=self._salt)
        self._salt += 1  # counted while TensorFlow traces, so the same in every step
        kept = tf.reshape(drawn, [-1, length, width]) >= self._share
        return tf.where(kept, x * (1.0 / (1.0 - self._share)), 0.0)


def _scramble(x: tf.Tensor) -> tf.Tensor:
    """Every bit of the result depends on every bit of `x` (a mixer found by Chris Wellons)."""
    x = tf.bitwise.bitwise_xor(x, _shift(x, 16)) * np.uint32(0x7FEB352D)
    x = tf.bitwise.bitwise_xor(x, _shift(x, 15)) * np.uint32(0x846CA68B)
    return tf.bitwise.bitwise_xor(x, _shift(x, 16))


def _shift(x: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.right_shift(x, tf.constant(bits, tf.uint32))
