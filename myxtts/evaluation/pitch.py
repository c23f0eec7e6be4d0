"""The pitch of recordings as numbers: contours, a voice's median, and how far two lie apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.features import mels
from myxtts.features.audio import SAMPLE_RATE, num_frames
from myxtts.features.pitch import pitch as find_pitch

Floats = npt.NDArray[np.float32]

PIECE = SAMPLE_RATE  # waves are padded to whole seconds, so that few shapes are traced


class Sound(NamedTuple):
    """What is measured of a wave: F frames of log-mels [F, M], and pitch [F] (0: unvoiced)."""

    mel: Floats
    pitch: Floats  # Hz


def analyse(wave: npt.ArrayLike) -> Sound:
    """Log-mels and pitch of a mono float wave at our rate."""
    samples = np.asarray(wave, np.float32)
    assert samples.ndim == 1
    padded = np.pad(samples, [0, max(PIECE, -(-len(samples) // PIECE) * PIECE) - len(samples)])
    with tf.device("/CPU:0"):
        mel, pitch = _analyse(padded[None], np.array([len(samples)], np.int32))
    frames = num_frames(len(samples)) if len(samples) else 0
    return Sound(mel.numpy()[0, :frames], pitch.numpy()[0, :frames])


@tf.function(autograph=False)  # type: ignore[untyped-decorator]
def _analyse(waves: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    pitch, _ = find_pitch(waves, lengths)
    return mels.log_mel(waves, lengths), pitch


def median_log_pitch(pitch: Floats) -> float:
    """The natural log of the median pitch over voiced frames; NaN where there is none."""
    voiced = pitch[pitch > 0]
    return float(np.median(np.log(voiced))) if len(voiced) else float("nan")


def pitch_error(sound: Sound, original: Sound) -> float:
    """How far the median pitches lie apart, as a share of the original's; NaN if there is none.

    Medians need no alignment in time, and an octave error of the tracker in a few frames does not
    move them.
    """
    off = median_log_pitch(sound.pitch) - median_log_pitch(original.pitch)
    return float(np.abs(np.expm1(off)))
