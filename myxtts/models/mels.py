"""Log-mels as the model sees them: near zero mean and unit deviation, by two fixed numbers."""

from __future__ import annotations

from typing import Any

# Over LJ Speech and the built-in corpus. Fixed, so that a model fits any data it is given later.
MEAN, DEVIATION = -5.5, 2.2


def normalize(mels: Any) -> Any:
    """From natural-log mels."""
    return (mels - MEAN) / DEVIATION


def denormalize(mels: Any) -> Any:
    """Back to natural-log mels."""
    return mels * DEVIATION + MEAN
