"""A folder that was imported: its clips with their origins, and the two things people change."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from myxtts.data.list_lines import read_lines
from myxtts.errors import DataError

LIST_NAME = "metadata.jsonl"
DROPPED_NAME = "dropped.jsonl"  # what people took out, to be able to take it in again


@dataclass(frozen=True)
class Origin:
    """Where a clip was cut from. `end` is None if it is the whole file."""

    file: str  # relative to the source, which `source.json` names
    start: float = 0.0  # seconds
    end: float | None = None
    source: int = 1  # which of the sources of `source.json`, from 1


@dataclass(frozen=True)
class ImportedClip:
    """A line of `metadata.jsonl`."""

    audio: str  # relative to the folder
    text: str
    speaker: str
    language: str
    origin: Origin
    seconds: float = 0.0
    confidence: float | None = None  # of a transcription, from 0 to 1

    def to_json(self) -> str:
        """As a line of the list; what is not known is left out."""
        row = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(row, ensure_ascii=False)


def clip_from_row(row: dict[str, Any]) -> ImportedClip:
    """A clip of a line that `to_json` made."""
    origin = row["origin"]
    return ImportedClip(
        audio=str(row["audio"]),
        text=str(row["text"]),
        speaker=str(row["speaker"]),
        language=str(row["language"]),
        origin=Origin(
            str(origin["file"]), float(origin["start"]), origin.get("end"), int(origin["source"])
        ),
        seconds=float(row.get("seconds", 0.0)),
        confidence=row.get("confidence"),
    )


def read_clips(folder: Path) -> list[ImportedClip]:
    """Every clip of an imported folder, in order."""
    return _read(folder / LIST_NAME)


def read_dropped(folder: Path) -> list[ImportedClip]:
    """Every clip that was taken out by hand."""
    path = folder / DROPPED_NAME
    return _read(path) if path.is_file() else []


def _read(path: Path) -> list[ImportedClip]:
    clips = []
    for line in read_lines(path):
        try:
            clips.append(clip_from_row(json.loads(line.text)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(
                f"Line {line.number} of {path} is none that an import wrote: {error}",
                "mend or remove the line",
            ) from error
    return clips


def write_clips(folder: Path, clips: Iterable[ImportedClip], name: str = LIST_NAME) -> None:
    """Write the list anew, whole or not at all."""
    write_whole(folder / name, "".join(f"{clip.to_json()}\n" for clip in clips))


def change_text(folder: Path, audio: str, text: str) -> None:
    """Write what is said in a clip; a later import leaves it as it is."""
    one_line = " ".join(text.split())
    clips = read_clips(folder)
    _must_know(folder, audio, clips)
    write_clips(folder, [replace(c, text=one_line) if c.audio == audio else c for c in clips])


def drop_clip(folder: Path, audio: str) -> None:
    """Take a clip out of the list; its file stays, and a later import does not bring it back."""
    clips = read_clips(folder)
    _must_know(folder, audio, clips)
    dropped = [clip for clip in read_dropped(folder) if clip.audio != audio]
    dropped += [clip for clip in clips if clip.audio == audio]
    write_clips(folder, dropped, DROPPED_NAME)  # first: a clip may be in both, never in none
    write_clips(folder, [clip for clip in clips if clip.audio != audio])


def keep_clip(folder: Path, audio: str) -> None:
    """Take a clip in again that was taken out."""
    dropped, clips = read_dropped(folder), read_clips(folder)
    _must_know(folder, audio, dropped)
    if not any(clip.audio == audio for clip in clips):
        write_clips(folder, [*clips, *(clip for clip in dropped if clip.audio == audio)])
    write_clips(folder, [clip for clip in dropped if clip.audio != audio], DROPPED_NAME)


def _must_know(folder: Path, audio: str, clips: Iterable[ImportedClip]) -> None:
    if not any(clip.audio == audio for clip in clips):
        raise DataError(f"{folder} lists no clip {audio}.", "a clip that `read_clips` names")


def write_whole(path: Path, text: str) -> None:
    """Replace a file at once: whoever reads it sees the old one or the new one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
