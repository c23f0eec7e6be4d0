"""What is told of a run: messages that either language can speak, and numbers as written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

UNKNOWN = "-:--:--"


@dataclass(frozen=True)
class Message:
    """Words, and the values they hold: shares, stages, flags, or a message's part."""

    english: str
    values: tuple[str | Message, ...] = ()

    def __str__(self) -> str:
        return self.english.format(*self.values)


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{share:.0%}"


def short(value: float) -> str:
    """A loss in few characters, whatever its size."""
    plain = value == 0 or 1e-3 <= abs(value) < 1e4 or not math.isfinite(value)
    return f"{value:.4f}" if plain else f"{value:.2e}"


def clock(seconds: float | None) -> str:
    """Hours, minutes and seconds."""
    return UNKNOWN if seconds is None else str(timedelta(seconds=round(seconds)))
