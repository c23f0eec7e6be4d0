"""What a pitch looks like in mel bands: shown to the decoder, so that it need not imagine it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import tensorflow as tf

from myxtts.features.audio import FFT, NUM_MELS, SAMPLE_RATE
from myxtts.features.filters import PITCH_FMAX, PITCH_FMIN, mel_matrix

STEPS_PER_OCTAVE = 48
LOWEST = PITCH_FMIN / 1.5  # room for voices shifted below or above what is measured
HIGHEST = PITCH_FMAX * 1.5
REFERENCE_PITCH = 180.0  # of a voice whose own is unknown


def harmonic_template(pitch: tf.Tensor) -> tf.Tensor:
    """Log-mels [B, F, M] of a buzz at each frame's pitch in Hz [B, F]; zeros where it is 0."""
    table = tf.constant(_templates())
    octaves = tf.math.log(tf.maximum(pitch, LOWEST) / LOWEST) / np.float32(np.log(2.0))
    place = tf.clip_by_value(octaves * STEPS_PER_OCTAVE, 0.0, len(_templates()) - 1.001)
    below = tf.cast(place, tf.int64)  # whole numbers of 32 bits are added by the host
    share = (place - tf.cast(below, tf.float32))[..., None]
    template = tf.gather(table, below) * (1.0 - share) + tf.gather(table, below + 1) * share
    return tf.where(pitch[..., None] > 0, template, 0.0)


@lru_cache(maxsize=1)
def _templates() -> np.ndarray:
    """A row for each pitch step: harmonics of equal strength as a Hann window blurs them."""
    steps = int(np.ceil(np.log2(HIGHEST / LOWEST) * STEPS_PER_OCTAVE)) + 1
    pitches = LOWEST * 2.0 ** (np.arange(steps) / STEPS_PER_OCTAVE)
    bins = np.arange(FFT // 2 + 1) * SAMPLE_RATE / FFT
    rows = []
    for pitch in pitches:
        # A harmonic's distance from each bin, in bins; the lobe is two bins wide on each side.
        nearest = np.maximum(1.0, np.round(bins / pitch)) * pitch
        distance = np.abs(bins - nearest) / (SAMPLE_RATE / FFT)
        lobe = np.where(distance < 2.0, 0.5 + 0.5 * np.cos(np.pi * distance / 2.0), 0.0)
        rows.append(np.log(lobe @ mel_matrix() + 1e-4))
    table = np.array(rows, np.float32)
    assert table.shape[1] == NUM_MELS
    return np.asarray((table - table.mean()) / table.std(), np.float32)
