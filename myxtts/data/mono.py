"""Several channels as one. Their mean is right unless they cancel each other out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

CANCELLED = 0.25  # of the level that the mean of unrelated channels would have

Samples = npt.NDArray[np.floating[Any]]  # [S, channels]


def channels_cancel(samples: Samples) -> bool:
    """Whether the mean loses what the channels hold: one is (nearly) the other upside down."""
    if samples.shape[1] < 2 or not len(samples):
        return False
    expected = np.sqrt(np.square(samples).mean(axis=0).sum()) / samples.shape[1]
    return bool(np.sqrt(np.square(samples.mean(axis=1)).mean()) < CANCELLED * expected)


def to_mono(samples: Samples) -> Samples:
    """The mean of the channels, or the loudest of them where they cancel each other out."""
    if channels_cancel(samples):
        loudest = int(np.square(samples).mean(axis=0).argmax())
        return samples[:, loudest]
    mono: Samples = samples.mean(axis=1)
    return mono
