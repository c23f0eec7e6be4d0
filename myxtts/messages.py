"""What people are told: messages that either language can speak, numbers, commands, and foreign
text.
"""

from __future__ import annotations

import math
import os
import re
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

UNKNOWN = "-:--:--"
# What a terminal obeys instead of showing it: control characters, line separators, what turns the
# direction of the text around it, and halves of characters. Persian's half-space is none of them.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\ud800-\udfff]")
_OBEYED_IN_LINES = re.compile(_OBEYED.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


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


def rates(steps_per_second: float | None, clips_per_second: float | None) -> list[str]:
    """How fast a run is, as far as it is known."""
    steps = [] if steps_per_second is None else [f"{steps_per_second:.2f} steps/s"]
    return steps + ([] if clips_per_second is None else [f"{clips_per_second:.1f} clips/s"])


def harmless(text: object, *, lines: bool = False) -> str:
    """Text from elsewhere, fit to be printed: what a terminal would obey is spelt out.

    A name is one line. `lines` is for whole messages, whose line breaks and tabs are their own.
    """
    pattern = _OBEYED_IN_LINES if lines else _OBEYED
    return pattern.sub(_spell_out, str(text))


def _spell_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def where_programs_are() -> str:
    """What to type before a program's name: nothing, or the folder of this environment."""
    folder = Path(sys.executable).parent  # not resolved: that of the environment, not of its base
    on_path = str(folder) in os.environ.get("PATH", "").split(os.pathsep)
    return "" if on_path else f"{seen_from_here(folder)}/"


def seen_from_here(path: Path) -> Path:
    """A path to type: from where one stands, if it is below."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
