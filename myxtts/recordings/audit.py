"""What a person would hear wrong with recordings, found before training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something to know about some clips (none: about all of them), and what to do about it."""

    what: str  # one of WHATS, for programs
    clips: tuple[str, ...]  # audio as the list names it
    detail: str  # for people
    remedy: str
