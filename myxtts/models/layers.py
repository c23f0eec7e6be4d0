"""The few layers every part of the voice model is made of.

Shapes: B batch, L length (tokens or frames), C channels, D voice. Masks are floats [B, L, 1],
1 where a position is real; every layer keeps padding at zero, so that it never leaks into speech.
Positions and lengths are compared as floats: on a GPU the host computes whole numbers of 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

Drop = Callable[[tf.Tensor], tf.Tensor] | None  # leaves out numbers [B, L, C] while it is trained


class Composite(keras.layers.Layer):
    """A layer made of others, which make their weights when they are first called.

    Left to itself, Keras traces `call` beforehand at every level: a second or two for a model.
    """

    def build(self, _shape: Any) -> None:
        """Nothing of its own to make."""


class Dense(keras.layers.Dense):
    """Keras's own for [..., C], without its arithmetic on shapes, part of which a GPU would do."""

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """[..., C] to [..., units]."""
        del training  # it is the same either way
        flat = tf.reshape(x, [-1, x.shape[-1]]) if x.shape.rank != 2 else x
        y = tf.matmul(flat, self.kernel)
        if self.use_bias:
            y += self.bias
        y = self.activation(y)
        if x.shape.rank == 2:
            return y
        return tf.reshape(y, [*(size_of(x, axis) for axis in range(x.shape.rank - 1)), self.units])


class Lookup(keras.layers.Embedding):
    """Keras's own, without a look for negative ids, which the host would have to do."""

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """Ids [...] to vectors [..., C]."""
        return tf.cast(tf.gather(self.embeddings, ids), self.compute_dtype)


class Conv(keras.layers.Layer):
    """A convolution over length with zeros beyond both ends.

    TensorFlow has no gradient for dilated ones on a CPU without XLA. So every `dilation`-th
    position is put into a row of its own, where the taps lie side by side, and sorted back.
    """

    def __init__(
        self, filters: int, kernel_size: int = 5, *, dilation: int = 1, **layer: Any
    ) -> None:
        super().__init__(**layer)
        self.filters, self.kernel_size, self.dilation = filters, kernel_size, dilation
        self.is_direct = False  # dilated as it is written: for a graph that nobody trains

    def build(self, shape: Any) -> None:
        """Make the weights."""
        self.kernel = self.add_weight(
            name="kernel",
            shape=[self.kernel_size, shape[-1], self.filters],
            initializer="glorot_uniform",
        )
        self.bias = self.add_weight(name="bias", shape=[self.filters], initializer="zeros")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[B, L, C] to [B, L, filters]."""
        length = size_of(x, 1)
        if self.is_direct:
            reach = self.kernel_size // 2 * self.dilation
            wide = tf.pad(x, [[0, 0], [reach, reach], [0, 0]])[:, None]
            y = tf.nn.conv2d(
                wide, self.kernel[None], 1, padding="VALID", dilations=[1, self.dilation]
            )
            return y[:, 0] + self.bias
        if self.dilation > 1:
            x = tf.pad(x, [[0, 0], [0, -length % self.dilation], [0, 0]])
            x = _swap_positions(x, self.dilation)
        y = tf.nn.conv1d(x, self.kernel, stride=1, padding="SAME") + self.bias
        if self.dilation > 1:
            y = _swap_positions(y, -self.dilation)[:, :length]
        return y


def _swap_positions(x: tf.Tensor, dilation: int) -> tf.Tensor:
    """[B, L, C] to [B * dilation, L / dilation, C], or back where the dilation is negative."""
    rows, length, width = tf.shape(x)[0], size_of(x, 1), x.shape[2]
    if dilation > 0:
        part = length // dilation
        shape, result = [rows, part, dilation, width], [-1, part, width]
    else:
        dilation = -dilation
        shape, result = [rows // dilation, dilation, length, width], [-1, length * dilation, width]
    return tf.reshape(tf.transpose(tf.reshape(x, shape), [0, 2, 1, 3]), result)


class FilmBlock(Composite):
    """A pre-norm residual convolution whose input is scaled and shifted by the voice (FiLM)."""

    def __init__(self, width: int, *, dilation: int = 1, **layer: Any) -> None:
        super().__init__(**layer)
        self.norm = keras.layers.LayerNormalization(
            epsilon=1e-5, center=False, scale=False, name="norm"
        )
        # Starts as no modulation at all, so that the text is learned first.
        self.film = Dense(2 * width, kernel_initializer="zeros", name="film")
        self.conv = Conv(width, dilation=dilation, name="conv")

    def call(self, x: tf.Tensor, voice: tf.Tensor, mask: tf.Tensor, drop: Drop = None) -> tf.Tensor:
        """[B, L, C] with the voice [B, D]; the same shape."""
        scale, shift = tf.split(self.film(voice)[:, None, :], 2, axis=-1)
        modulated = (self.norm(x) * (1.0 + scale) + shift) * tf.cast(mask, x.dtype)
        added = tf.nn.silu(self.conv(modulated))
        return x + (added if drop is None else drop(added))


class SelfAttention(Composite):
    """Pre-norm residual attention over real positions only."""

    def __init__(self, width: int, *, heads: int = 2, **layer: Any) -> None:
        super().__init__(**layer)
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5, name="norm")
        self.attention = keras.layers.MultiHeadAttention(heads, width // heads, name="heads")

    def call(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """[B, L, C] to the same; masked positions are not looked at."""
        normed = self.norm(x)
        seen = tf.cast(mask, tf.bool)[:, None, :, 0]  # [B, 1, L]
        return x + self.attention(normed, normed, attention_mask=seen)


def size_of(x: tf.Tensor, axis: int) -> int | tf.Tensor:
    """A plain number where the shape is fixed, as it is in training."""
    return x.shape[axis] or tf.shape(x)[axis]


def counted(size: int | tf.Tensor) -> tf.Tensor:
    """0, 1, 2 and so on as floats [size], exact below 2**24."""
    if isinstance(size, int):
        return tf.range(float(size))
    # A range of a size known only when it runs is made by the host.
    return tf.cumsum(tf.ones([size])) - 1.0


def length_mask(lengths: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """1 for the real positions of each row: floats [B, size, 1]."""
    real = counted(size)[None, :] < tf.cast(lengths, tf.float32)[:, None]
    return tf.cast(real, tf.float32)[..., None]


def masked_mean(values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Mean over the length [B, C] of [B, L, C]; 0 for a row without a real position."""
    return tf.reduce_sum(values * mask, axis=1) / tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
