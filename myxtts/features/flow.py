"""From noise to a mel spectrogram along the flow head's velocity, in TensorFlow or in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FLOW_STEPS = 16


def follow_flow(
    velocity: Callable[[Any, float], Any], mels: Any, *, steps: int = FLOW_STEPS
) -> Any:
    """A few steps of the midpoint rule; `velocity` takes mels and a time from 0 to 1."""
    width = 1.0 / steps
    for number in range(steps):
        time = number / steps
        half = mels + 0.5 * width * velocity(mels, time)
        mels = mels + width * velocity(half, time + 0.5 * width)
    return mels
