"""Reads subtitles: SubRip (.srt) and WebVTT (.vtt), as they are found and not as they should be."""

from __future__ import annotations

import html
import re
from pathlib import Path

from myxtts.data.list_lines import open_regular
from myxtts.errors import DataError
from myxtts.recordings.sources import Cue

MAX_BYTES = 16 << 20
_TIME = r"(?:(\d+):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
_ARROW = re.compile(rf"^\s*{_TIME}\s*-->\s*{_TIME}")
_VOICE = re.compile(r"<v(?:\.[^\s>]*)?\s+([^>]+)>")
_TAG = re.compile(r"<[^>]*>|\{\\[^}]*\}")
_SOUND = re.compile(r"\[[^\]]*\]|\([^)]*\)|[♪♫]+")  # [music], (laughs)
_DASH = re.compile(r"(?m)^\s*[-–—]\s*")


def read_subtitles(path: Path) -> tuple[Cue, ...]:
    """The cues in order of time; what is no speech (tags, [music]) is left out."""
    with open_regular(path, what="The subtitles") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise DataError(f"The subtitles {path} are larger than {MAX_BYTES >> 20} MB.", "split them")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"The subtitles {path} are not UTF-8.", "save them as UTF-8") from error
    cues: list[Cue] = []
    for block in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n").replace("\r", "\n")):
        lines = block.strip("\n").split("\n")
        at = next((i for i, line in enumerate(lines) if _ARROW.match(line)), None)
        if at is None:
            continue  # WEBVTT, NOTE, STYLE, or an empty end
        match = _ARROW.match(lines[at])
        assert match is not None
        start, end = _seconds(match.groups()[:4]), _seconds(match.groups()[4:])
        written = "\n".join(lines[at + 1 :])
        voice = _VOICE.search(written)
        said = clean_cue(written)
        if said and end > start:
            cues.append(Cue(start, end, said, voice[1].strip() if voice else ""))
    if not cues:
        raise DataError(f"The subtitles {path} hold no cue with a text.", "check the file")
    return tuple(sorted(cues, key=lambda cue: cue.start))


def clean_cue(written: str) -> str:
    """What of a cue is said, on one line."""
    plain = _DASH.sub("", _SOUND.sub(" ", html.unescape(_TAG.sub("", written))))
    return " ".join(plain.split())


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = parts
    whole = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return whole + float(f"0.{fraction}")
