"""Recordings played faster or slower, which moves pitch and formants: of one voice, many.

Speeds and lengths are the host's, which plans every batch; the data device plays. Shapes: B batch,
S samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

AS_RECORDED = 0.25  # of the clips: what is to be learnt is the voice itself

Floats = npt.NDArray[np.float32]


def draw_speeds(random: np.random.Generator, rows: int, *, most: float) -> Floats | None:
    """How fast to play each wave [B]: up to so much faster or slower; nothing where that is 0."""
    if not most:
        return None
    far, varied = random.random((2, rows))
    speeds = (1.0 + most) ** (2.0 * far - 1.0)
    return np.where(varied < AS_RECORDED, 1.0, speeds).astype(np.float32)


def at_speeds(batch: dict[str, Any], speeds: Floats | None) -> dict[str, Any]:
    """A host batch to be played like that: its lengths are those that it has then.

    None is played so slowly that it would outgrow its room; references are cut off there.
    """
    if speeds is None:
        return batch
    room = batch["waves"].shape[1]
    lengths = np.asarray(batch["wave_lengths"])
    speeds = np.maximum(speeds, lengths / room).astype(np.float32)
    references = np.ceil(np.asarray(batch["reference_lengths"]) / speeds)
    return {
        **batch,
        "speeds": speeds,
        "wave_lengths": np.minimum(np.ceil(lengths / speeds), room).astype(np.int32),
        "reference_lengths": np.minimum(references, batch["references"].shape[1]).astype(np.int32),
    }


def play(waves: tf.Tensor, lengths: tf.Tensor, speeds: tf.Tensor) -> tf.Tensor:
    """Waves [B, S] at these speeds [B]; `lengths` are those they have then.

    Four samples at a time make a curve (Catmull and Rom's). It leaves a wave as it is at the speed
    1. Of hiss above 6 kHz it leaves a mirror image further down, 14 dB softer or more, and 7 to
    8 kHz come out up to 3 dB softer: clip and reference alike, so that it is the played voice's.
    """
    size = waves.shape[1]
    # Far into a clip float32 would miss the place by a hundredth of a sample, which is a hiss.
    count = tf.range(float(size), dtype=tf.float64)
    places = count * tf.cast(speeds, tf.float64)[:, None]
    real = count < tf.cast(lengths, tf.float64)[:, None]
    before = tf.cast(tf.where(real, tf.minimum(places, size - 1.0), 0.0), tf.int64)
    x = tf.cast(places - tf.cast(before, tf.float64), tf.float32)
    wide = tf.pad(waves, [[0, 0], [1, 2]])
    a, b, c, d = (tf.gather(wide, before + i, batch_dims=1) for i in range(4))
    bend = 2.0 * a - 5.0 * b + 4.0 * c - d + x * (3.0 * (b - c) + d - a)
    return tf.where(real, b + 0.5 * x * (c - a + x * bend), 0.0)
