"""What Griffin-Lim knows beforehand, whichever library runs its rounds. Loads no TensorFlow.

Shapes: F frames, M mels, K bins.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from myxtts.errors import DataError
from myxtts.features.audio import FFT, HOP, NUM_MELS, SAMPLE_RATE
from myxtts.features.filters import mel_matrix

OVERLAP = FFT // HOP

# A mel knows nothing above 8 kHz, so the iterations run at three quarters of the rate, where all
# arrays are a quarter smaller; only the last inverse transform is made at the full rate.
INNER_FFT = FFT * 3 // 4
INNER_BINS = INNER_FFT // 2 + 1
INNER_HOP = INNER_FFT // OVERLAP
# Of lower voices a model's mel holds no more than a whisper, and the buzz has all the harmonics;
# higher ones, people's from 100 Hz on too, sound better with what their mel shows of them.
LOW_PITCH, HIGH_PITCH = 80.0, 100.0  # Hz
NARROW_BANDS = 34
# The share of the buzz in a voiced frame: nearly all of it up to 4 kHz, half of it from 8 kHz on.
BREATH_BINS = ((4000 * FFT // SAMPLE_RATE, 8000 * FFT // SAMPLE_RATE), (0.95, 0.5))

ROUNDS = 24  # more are no better by PESQ or DNSMOS on human speech: 24 3.47, 32 3.48, 16 3.42
INVERSION_ROUNDS = 10  # of mel to linear; 20 are better by less than 0.03 dB
CLIMBS = 3  # doublings: a bin finds a peak up to 8 bins away; 32 bins gain nothing
GAIN_LIMITS = (0.5, 2.0)  # of the level correction; a mel nobody can utter asks for any gain
GAIN_POWER = 0.2  # 0.35 oscillates, because momentum doubles what is corrected
LOUDEST = 12.0  # natural log; a full-scale tone stays below 3

FIRST_RUNG = 64  # frames
RUNGS_PER_OCTAVE = 4
FRAMES_PER_RUN = 8192  # bounds the memory of a batch to some hundred megabytes


def rung(frames: int) -> int:
    """The padded length of a mel: four rungs an octave, so that few shapes are ever seen."""
    octave = 1 << (frames - 1).bit_length()  # ends here, and began at half of it
    step = max(FIRST_RUNG, octave // 2 // RUNGS_PER_OCTAVE)
    return -(-frames // step) * step


def pulse_train(contour: np.ndarray) -> np.ndarray:
    """A pulse for each period of a pitch contour [F] in Hz, as hops [F + 3, N / 4]."""
    voiced = np.flatnonzero(contour)
    # Between voiced stretches the pitch glides on, so that each begins somewhere in its period.
    middles = np.arange(len(contour)) + OVERLAP / 2  # of the frames, in hops
    times = np.arange((len(contour) + OVERLAP - 1) * INNER_HOP) / INNER_HOP
    pitch = np.interp(times, middles[voiced], contour[voiced])
    periods = np.cumsum(pitch / (SAMPLE_RATE * INNER_FFT / FFT))
    ends = np.flatnonzero(np.diff(np.floor(periods)) > 0)
    # A pulse falls between two samples, and is shared between them.
    late = (np.ceil(periods[ends]) - periods[ends]) / (periods[ends + 1] - periods[ends])
    train = np.zeros(len(times), np.float32)
    train[ends] += 1.0 - late
    train[ends + 1] += late
    return train.reshape(-1, INNER_HOP)


@lru_cache(maxsize=1)
def band_smoother() -> np.ndarray:
    """What takes a low voice's harmonics out of a mel [M, M]: they lie two or three bands apart.

    Only in the narrow bands up to 1.5 kHz; the wider ones above hold several harmonics each.
    """
    smoother = np.eye(NUM_MELS, dtype=np.float32)
    for band in range(NARROW_BANDS):
        places = np.clip(np.arange(band - 2, band + 3), 0, NUM_MELS - 1)
        smoother[:, band] = 0.0
        np.add.at(smoother[:, band], places, np.array([1, 2, 3, 2, 1], np.float32) / 9)
    return smoother


@lru_cache(maxsize=1)
def mel_filters() -> np.ndarray:
    """Mel filters [K, M] over the inner bins, which lie where the outer ones do."""
    return mel_matrix()[:INNER_BINS]


@lru_cache(maxsize=1)
def mel_shares() -> np.ndarray:
    """How much each band has to say on a bin [M, K]; the shares of a bin sum to one, or none."""
    filters = mel_filters()
    total = filters.sum(axis=1, keepdims=True)
    return np.ascontiguousarray((filters / np.where(total > 0, total, 1.0)).T)


def checked(log_mel: Any, *, index: int) -> np.ndarray:
    """A mel that a vocoder can take, or an error that says what is wrong with it."""
    mel = np.asarray(log_mel)
    if mel.ndim != 2 or mel.shape[1] != NUM_MELS:
        raise DataError(
            f"Mel {index} has the shape {list(mel.shape)}; the vocoder takes [frames, {NUM_MELS}].",
            "one array for each clip, frames first (`mel.T` turns one around)",
        )
    mel = mel.astype(np.float32)
    if not np.isfinite(mel).all():
        frame = int(np.argmin(np.isfinite(mel).all(axis=1)))
        raise DataError(
            f"Mel {index} holds values that are not finite, first in frame {frame}.",
            "look for NaN in the model's output or weights; silence is log(1e-5), not log(0)",
        )
    if mel.size and mel.max() > LOUDEST:
        raise DataError(
            f"Mel {index} reaches {mel.max():.1f}, louder than any audio.",
            "natural-log mels of waves within ±1, not decibels, powers or normalised values",
        )
    return mel
