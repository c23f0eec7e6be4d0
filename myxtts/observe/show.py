"""How numbers of a run are written, in a log line as in a panel or on a page."""

from __future__ import annotations

import math
from datetime import timedelta

UNKNOWN = "-:--:--"


def short(value: float) -> str:
    """A loss in few characters, whatever its size."""
    plain = value == 0 or 1e-3 <= abs(value) < 1e4 or not math.isfinite(value)
    return f"{value:.4f}" if plain else f"{value:.2e}"


def clock(seconds: float | None) -> str:
    """Hours, minutes and seconds."""
    return UNKNOWN if seconds is None else str(timedelta(seconds=round(seconds)))
