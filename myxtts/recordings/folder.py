"""A folder that was imported: its clips with their origins, and the two things people change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Origin:
    """Where a clip was cut from. `end` is None if it is the whole file."""

    file: str  # relative to the source, which `source.json` names
    start: float = 0.0  # seconds
    end: float | None = None


@dataclass(frozen=True)
class ImportedClip:
    """A line of `metadata.jsonl`."""

    audio: str  # relative to the folder
    text: str
    speaker: str
    language: str
    origin: Origin
    confidence: float | None = None  # of a transcription, from 0 to 1
    fit: float | None = None  # how well the text fits the audio, as the alignment saw it


def read_clips(folder: Path) -> list[ImportedClip]:
    """Every clip of an imported folder, in order."""
    raise NotImplementedError


def change_text(folder: Path, audio: str, text: str) -> None:
    """Write what is said in a clip; a later import leaves it as it is."""
    raise NotImplementedError


def drop_clip(folder: Path, audio: str) -> None:
    """Take a clip out of the list; its file stays, and a later import does not bring it back."""
    raise NotImplementedError
