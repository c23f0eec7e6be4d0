"""A recording as a source lists it, before it is read: where it is, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cue:
    """What subtitles say is said when."""

    start: float  # seconds
    end: float
    text: str
    speaker: str = ""


@dataclass(frozen=True)
class Recording:
    """A file with its whole text, with timed texts, or with neither."""

    path: Path
    name: str  # relative to the source, or as the list names it
    text: str = ""
    cues: tuple[Cue, ...] = ()
    speaker: str = ""
    language: str = ""
    problem: str = ""  # why it cannot be imported
    remedy: str = ""
    beside: tuple[Path, ...] = ()  # files whose change makes it another recording
