"""How far speech is from its original: cepstra, pitch and voicing of frames that belong together.

Mel cepstral distortion. A frame's cepstrum is the cosine transform of its 80 natural-log mel
amplitudes x_0 .. x_79, scaled so that x_n = c_0 + sum c_d cos(pi d (n + 1/2) / 80). Two frames are

    (10 / ln 10) sqrt(2 sum_(d = 1..13) (c_d - c'_d)^2)   decibels

apart, which is the root mean square difference of their smoothed spectra; c_0, the loudness, does
not count. Frames are paired by dynamic time warping with this distance (steps of one frame in
either or both), after the silence at both ends is cut off, and the distortion is the mean over the
pairs. Bands more than 60 dB below a clip's loudest are raised to that level first: nobody hears
them. Other programs use other cepstra (SPTK's, 24 of them): compare only within one program.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.evaluation.pitch import Sound, pitch_error
from myxtts.features.audio import NUM_MELS

NUM_CEPSTRA = 13
DECIBELS = 10.0 / np.log(10.0)
NATURAL = np.log(10.0) / 20.0  # of one decibel of amplitude
AUDIBLE_DB, SPOKEN_DB = 60.0, 40.0  # below a clip's loudest

Floats = npt.NDArray[np.float64]


class Distortion(NamedTuple):
    """How far a clip is from its original; NaN where there is no pitch to compare."""

    cepstral_db: float
    pitch_error: float  # of the clip's median pitch, as a share of the original's
    contour_error: float  # mean over frames voiced in both, as a share
    voicing_error: float  # share of frames voiced in one of the two only


def compare(sound: Sound, original: Sound) -> Distortion:
    """Measure a clip against its original, which says the same at its own pace."""
    clips = [_spoken(each) for each in (sound, original)]
    cost = _distances(*(cepstra(clip.mel) for clip in clips))
    rows, columns = warp(cost)
    pitch, wanted = clips[0].pitch[rows], clips[1].pitch[columns]
    both = (pitch > 0) & (wanted > 0)
    return Distortion(
        cepstral_db=float(cost[rows, columns].mean()),
        pitch_error=pitch_error(sound, original),
        contour_error=float(np.abs(pitch[both] / wanted[both] - 1.0).mean())
        if both.any()
        else float("nan"),
        voicing_error=float(np.mean((pitch > 0) != (wanted > 0))),
    )


def cepstra(mel: npt.NDArray[np.float32]) -> Floats:
    """Cepstra [F, 13] of log-mels [F, 80]; without the first, which is the loudness."""
    audible = np.maximum(mel, mel.max() - AUDIBLE_DB * NATURAL).astype(np.float64)
    return np.asarray(audible @ _cosines())


def warp(cost: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The cheapest way [P], [P] through a table of costs [A, B], from its first to its last cell.

    By diagonals, whose cells do not depend on each other: a few hundred steps of whole arrays.
    """
    height, width = cost.shape
    total = np.full([height + 1, width + 1], np.inf)
    total[0, 0] = 0.0
    for diagonal in range(2, height + width + 1):
        row = np.arange(max(1, diagonal - width), min(height, diagonal - 1) + 1)
        column = diagonal - row
        before = np.minimum(total[row - 1, column], total[row, column - 1])
        before = np.minimum(before, total[row - 1, column - 1])
        total[row, column] = cost[row - 1, column - 1] + before
    at = (height, width)
    way = [at]
    while at != (1, 1):
        row_, column_ = at
        # Of equal ways the diagonal one, which comes first.
        steps = ((row_ - 1, column_ - 1), (row_ - 1, column_), (row_, column_ - 1))
        at = min(steps, key=lambda step: float(total[step]))
        way.append(at)
    pairs = np.array(way[::-1], np.int64) - 1
    return pairs[:, 0], pairs[:, 1]


def _distances(first: Floats, second: Floats) -> Floats:
    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1) - 2.0 * first @ second.T
    return np.asarray(DECIBELS * np.sqrt(2.0 * np.maximum(squares, 0.0)))


def _spoken(sound: Sound) -> Sound:
    """Without the silence at both ends."""
    loudness = np.logaddexp.reduce(sound.mel, axis=1)
    heard = np.flatnonzero(loudness > loudness.max() - SPOKEN_DB * NATURAL)
    part = slice(int(heard[0]), int(heard[-1]) + 1)
    return Sound(sound.mel[part], sound.pitch[part])


@lru_cache(maxsize=1)
def _cosines() -> Floats:
    """The transform [80, 13] of log-mels into cepstra."""
    order = np.arange(1, NUM_CEPSTRA + 1)
    place = (np.arange(NUM_MELS)[:, None] + 0.5) * order
    return np.asarray(np.cos(np.pi / NUM_MELS * place) * (2.0 / NUM_MELS))
