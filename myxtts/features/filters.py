"""The fixed numbers of our features: mel filters, windows, and how pitch is looked for.

Loads no TensorFlow: the back ends that compute features share them.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from myxtts.features.audio import FFT, HOP, NUM_MELS, SAMPLE_RATE

MEL_FMAX = 8000.0
MEL_BINS = int(MEL_FMAX * FFT / SAMPLE_RATE) + 1  # no mel filter looks at the bins above
LOG_FLOOR = 1e-5

# Pitch is found at half the rate, where the lags of a voice are few.
PITCH_DECIMATION = 2
PITCH_RATE = SAMPLE_RATE // PITCH_DECIMATION
PITCH_HOP = HOP // PITCH_DECIMATION
PITCH_FMIN, PITCH_FMAX = 60.0, 500.0
PITCH_WINDOW = 384  # 35 ms: two periods of the lowest voice
MIN_LAG, MAX_LAG = int(PITCH_RATE / PITCH_FMAX), int(PITCH_RATE / PITCH_FMIN) + 1
PITCH_FFT = 576  # holds window + largest lag
YIN_VOICED = 0.35  # aperiodicity under which a frame counts as voiced

GRAIN = 2.0**-12  # sums up to 4096 are exact in float32: over a minute of frames
JUMP_COST = 0.6  # price of one octave between two frames
NO_OPINION = 0.6  # an aperiodic frame has none: its cost must not drag the path along
LAG_PREFERENCE = 0.02  # a slight pull to short lags: a period's double is as periodic as itself
CELL = 4  # so many neighbouring lags are one place on the path: far cheaper, hardly coarser
NUM_CELLS = (MAX_LAG - MIN_LAG) // CELL
OCTAVES = np.log2(np.arange(NUM_CELLS * CELL, dtype=np.float32) / MIN_LAG + 1.0)
PLACES = np.round(JUMP_COST * OCTAVES[CELL // 2 :: CELL] / GRAIN) * np.float32(GRAIN)
STRETCH = 64  # samples whose rate is halved by one product with a matrix


@lru_cache(maxsize=1)
def hann() -> np.ndarray:
    """The window of a frame, periodic."""
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)


@lru_cache(maxsize=1)
def mel_matrix() -> np.ndarray:
    """Slaney's mel filters [FFT/2 + 1, M], each of unit area, as librosa builds them."""

    def to_hz(mel: np.ndarray) -> np.ndarray:
        linear = mel * (200.0 / 3.0)
        return np.where(mel < 15.0, linear, 1000.0 * np.exp((mel - 15.0) * np.log(6.4) / 27.0))

    top_mel = 15.0 + 27.0 * np.log(MEL_FMAX / 1000.0) / np.log(6.4)
    edges = to_hz(np.linspace(0.0, top_mel, NUM_MELS + 2))
    bins = np.linspace(0.0, SAMPLE_RATE / 2.0, FFT // 2 + 1)[:, None]
    rising = (bins - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - bins) / np.diff(edges)[1:]
    filters = np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (edges[2:] - edges[:-2]))
    return np.asarray(filters, np.float32)


@lru_cache(maxsize=1)
def half_band() -> np.ndarray:
    """A short low-pass filter per second sample: pitch needs no more than the first kilohertz."""
    n = np.arange(-8, 9, dtype=np.float64)
    taps = np.sinc(n * 0.25) * np.hanning(19)[1:-1]
    matrix = np.zeros([STRETCH + len(n) - 1, STRETCH // PITCH_DECIMATION], np.float32)
    for place, column in enumerate(matrix.T):
        column[place * PITCH_DECIMATION :][: len(n)] = taps / taps.sum()
    return matrix
