"""Who speaks: a few seconds of reference become the voice that modulates every block.

Shapes: B batch, R reference frames, M mels, D voice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from myxtts.models.harmonics import REFERENCE_PITCH
from myxtts.models.layers import Composite, Conv, Dense, length_mask, masked_mean, size_of
from myxtts.models.noise import normal, uniform

SPECTRUM_NOISE, PITCH_NOISE, LATENT_DROPOUT = 0.05, 0.02, 0.25
PITCH_SPREAD = 0.35  # about how far apart voices lie, in natural-log pitch


class Voice(NamedTuple):
    """What is known of a speaker: a vector for the blocks, and the pitch to move around."""

    vector: tf.Tensor  # [B, D]
    log_pitch: tf.Tensor  # [B], the median in natural-log Hz


class ReferenceEncoder(Composite):
    """Average spectrum, pitch statistics and learned latents of a reference, mixed by two layers.

    Measured statistics carry over to voices never heard; latents alone do not, so they are dropped
    now and then, and the rest has to do without.
    """

    def __init__(self, width: int, *, latents: int = 32, **layer: Any) -> None:
        super().__init__(autocast=False, **layer)  # pitch needs all its bits
        self.latent_conv = Conv(2 * latents, 3, name="latent_conv")
        self.latent_score = Dense(1, name="latent_score")
        self.latent_out = Dense(latents, name="latents")
        self.hidden = Dense(2 * width, activation="silu", name="hidden")
        self.out = Dense(width, activation="tanh", name="out")

    def call(
        self, mels: tf.Tensor, lengths: tf.Tensor, pitch: tf.Tensor, keys: tf.Tensor | None
    ) -> Voice:
        """Normalised mels [B, R, M] and pitch in Hz [B, R]; keys [B] add training's noise."""
        mask = length_mask(lengths, size_of(mels, 1))
        spectrum = masked_mean(mels, mask)
        log_pitch, deviation = _pitch_statistics(pitch * mask[..., 0])
        latents = self._latents(mels, mask)
        noised = log_pitch
        if keys is not None:
            spectrum += SPECTRUM_NOISE * normal(keys, spectrum.shape[1], salt=0)
            noised += PITCH_NOISE * normal(keys, 1, salt=1)[:, 0]
            kept = uniform(keys, 1, salt=2) > LATENT_DROPOUT
            latents *= tf.cast(kept, latents.dtype)
        numbers = tf.stack(
            [(noised - np.log(REFERENCE_PITCH)) / PITCH_SPREAD, deviation / PITCH_SPREAD], axis=1
        )
        known = tf.concat([spectrum, numbers, tf.cast(latents, tf.float32)], axis=1)
        return Voice(self.out(self.hidden(known)), log_pitch)

    def _latents(self, mels: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        frames = tf.nn.silu(self.latent_conv(mels * mask))
        scores = tf.cast(self.latent_score(frames), tf.float32)
        weights = tf.nn.softmax(scores - 1e9 * (1.0 - mask), axis=1)
        return self.latent_out(tf.reduce_sum(tf.cast(frames, tf.float32) * weights, axis=1))


def _pitch_statistics(pitch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Median and deviation [B] of log pitch over voiced frames; a common voice's where none is."""
    voiced = tf.cast(pitch > 0, tf.float32)
    count = tf.reduce_sum(voiced, axis=1)
    logs = tf.math.log(tf.maximum(pitch, 1.0))
    ordered = tf.sort(tf.where(pitch > 0, logs, 1e9), axis=1)  # unvoiced frames come last
    middle = tf.cast(tf.maximum(count - 1.0, 0.0) / 2.0, tf.int64)
    median = tf.gather(ordered, middle, axis=1, batch_dims=1)
    median = tf.where(count > 0, median, np.float32(np.log(REFERENCE_PITCH)))
    # Around the median and bounded, so that an octave error of the tracker does not count for much.
    off = tf.clip_by_value(logs - median[:, None], -0.5, 0.5)
    variance = tf.reduce_sum(tf.square(off) * voiced, axis=1) / tf.maximum(count, 1.0)
    return median, tf.sqrt(variance + 1e-8)
