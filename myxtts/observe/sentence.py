"""A sentence that either language can speak."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sentence:
    """Words, and the values they hold: shares, stages, flags, or a sentence's part."""

    english: str
    values: tuple[str | Sentence, ...] = ()

    def __str__(self) -> str:
        return self.english.format(*self.values)


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{share:.0%}"
