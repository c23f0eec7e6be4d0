"""Which token each frame says: the monotonic path of greatest likelihood, and what follows from it.

Shapes: B batch, T text, F frames, M mels.
"""

from __future__ import annotations

import tensorflow as tf

from myxtts.models.alignment_blocks import IMPOSSIBLE, search_in_blocks
from myxtts.models.layers import counted, size_of


def log_likelihood(means: tf.Tensor, mels: tf.Tensor) -> tf.Tensor:
    """How well each token's mean spectrum [B, T, M] explains each frame [B, F, M]: [B, T, F].

    A Gaussian of unit variance, without the terms that are the same for every token.
    """
    return tf.matmul(means, mels, transpose_b=True) - 0.5 * tf.reduce_sum(
        tf.square(means), axis=-1, keepdims=True
    )


def diagonal_prior(
    frames: int | tf.Tensor,
    tokens: int | tf.Tensor,
    mel_lengths: tf.Tensor,
    token_lengths: tf.Tensor,
) -> tf.Tensor:
    """Log-prior [B, T, F] for even speed: at first the means know nothing, and this is all."""
    token = (counted(tokens) + 0.5)[None, :, None] / _float(token_lengths)
    frame = (counted(frames) + 0.5)[None, None, :] / _float(mel_lengths)
    return -tf.square(token - frame)


def search_alignment(
    likelihood: tf.Tensor,
    token_lengths: tf.Tensor,
    mel_lengths: tf.Tensor,
    *,
    in_blocks: bool = False,
) -> tf.Tensor:
    """The best path through [B, T, F] as zeros and ones, [B, T, F].

    It begins at the first token, ends at the last, and never skips one; a row with fewer frames
    than tokens has no such path, and what it gets must not be used. In blocks of frames, for a GPU,
    it is the same path; a CPU finds it more quickly frame by frame.
    """
    tokens, frames = size_of(likelihood, 1), size_of(likelihood, 2)
    if in_blocks and isinstance(tokens, int) and isinstance(frames, int) and frames > 1:
        return tf.stop_gradient(search_in_blocks(likelihood, token_lengths, mel_lengths))
    steps = tf.transpose(likelihood, [2, 0, 1])  # [F, B, T]
    start = tf.concat(
        [steps[0][:, :1], tf.fill([tf.shape(steps)[1], tokens - 1], IMPOSSIBLE)], axis=1
    )

    def forward(carry: tuple[tf.Tensor, tf.Tensor], here: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        stay = carry[0]
        move = tf.pad(stay[:, :-1], [[0, 0], [1, 0]], constant_values=IMPOSSIBLE)
        return tf.maximum(stay, move) + here, move > stay

    _, moved = tf.scan(forward, steps[1:], (start, tf.zeros_like(start, tf.bool)))
    within = tf.range(1, frames)[:, None] < mel_lengths[None, :]  # padding never moves the path
    moved = tf.logical_and(moved, within[..., None])

    def backward(at: tf.Tensor, came: tf.Tensor) -> tf.Tensor:
        step_back = tf.reduce_any(tf.logical_and(at > 0, came), axis=1, keepdims=True)
        return tf.where(step_back, tf.pad(at[:, 1:], [[0, 0], [0, 1]]), at)

    last = tf.one_hot(token_lengths - 1, tokens)  # [B, T]
    path = tf.concat([tf.scan(backward, moved, last, reverse=True), last[None]], axis=0)
    real = tf.cast(tf.range(frames)[:, None] < mel_lengths[None, :], tf.float32)
    return tf.stop_gradient(tf.transpose(path * real[..., None], [1, 2, 0]))


def alignment_from_durations(durations: tf.Tensor, frames: int | tf.Tensor) -> tf.Tensor:
    """Whole durations [B, T] laid out one after another: [B, T, F]."""
    durations = tf.cast(durations, tf.float32)
    ends = tf.cumsum(durations, axis=1)
    frame = counted(frames)[None, None, :]
    inside = (frame < ends[..., None]) & (frame >= (ends - durations)[..., None])
    return tf.cast(inside, tf.float32)


def spread(values: tf.Tensor, alignment: tf.Tensor) -> tf.Tensor:
    """Give each frame its token's values: [B, T, C] to [B, F, C]."""
    return tf.matmul(tf.cast(alignment, values.dtype), values, transpose_a=True)


def places_in_tokens(alignment: tf.Tensor) -> tf.Tensor:
    """Where in its token each frame is, and how long the token lasts: [B, F, 4]."""
    durations = tf.reduce_sum(alignment, axis=2)  # [B, T]
    starts = tf.cumsum(durations, axis=1, exclusive=True)
    start, duration = tf.unstack(spread(tf.stack([starts, durations], -1), alignment), axis=-1)
    frame = counted(size_of(alignment, 2))[None, :] + 0.5
    real = tf.cast(duration > 0, tf.float32)
    place = (frame - start) / tf.maximum(duration, 1.0)
    lasting = tf.math.log(1.0 + duration) / 4.0  # ONNX has no log1p
    features = [place, place * place, tf.sin(3.14159265 * place), lasting]
    return tf.stack(features, axis=-1) * real[..., None]


def _float(lengths: tf.Tensor) -> tf.Tensor:
    return tf.maximum(tf.cast(lengths, tf.float32), 1.0)[:, None, None]
