"""Log-mels as the model sees them: near zero mean and unit deviation, by two fixed numbers."""

from __future__ import annotations

from typing import Any

from myxtts.features.audio import MEL_DEVIATION, MEL_MEAN


def normalize(mels: Any) -> Any:
    """From natural-log mels."""
    return (mels - MEL_MEAN) / MEL_DEVIATION


def denormalize(mels: Any) -> Any:
    """Back to natural-log mels."""
    return mels * MEL_DEVIATION + MEL_MEAN
