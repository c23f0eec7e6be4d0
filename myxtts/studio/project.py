"""The folder a voice is made in: what was recorded, the clips of it, the run, what it said."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.documents import read_json
from myxtts.errors import ConfigError, DataError, MyXTTSError
from myxtts.messages import Message
from myxtts.text.languages import check_language


class RefusedError(DataError):
    """What the studio itself refuses, in words that either language has."""

    def __init__(self, problem: Message, remedy: Message) -> None:
        super().__init__(str(problem), str(remedy))
        self.said = (problem, remedy)


def told_by(error: MyXTTSError) -> tuple[Message, Message]:
    """An error's problem and remedy as messages; those of commands are English."""
    if isinstance(error, RefusedError):
        return error.said
    return Message(error.problem), Message(error.remedy)


MOST_RECORDINGS = 2000
LONGEST_NAME = 120  # characters; file systems take 255 bytes, and Persian letters are two
_NAME = re.compile(r"[\w][\w .,()+&'\u200c-]*")


@dataclass(frozen=True)
class Recording:
    """A file that was put here."""

    name: str
    size: int
    seconds: float | None  # None: no sound, as the text beside one
    text: str = ""  # what was read, of a take from the microphone


class Project:
    """Where everything is; each folder is what a command takes or makes."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        self.recordings = self.path / "recordings"
        self.data = self.path / "data"
        self.run = self.path / "run"
        self.voice = self.path / "voice"
        self.spoken = self.path / "spoken"
        self.own = self.path / ".studio"
        self._heard: dict[tuple[str, int, int], float | None] = {}

    def open(self) -> None:
        """Make the folder, or see that it is one of ours."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path} is a file, not a folder.", "another folder")
        new = not self.path.exists() or not any(self.path.iterdir())
        if not new and not self.own.is_dir():
            raise ConfigError(
                f"{self.path} holds files, but none of a studio.",
                "a new or empty folder, or that of an earlier studio",
            )
        for folder in (self.path, self.own, self.recordings, self.spoken):
            folder.mkdir(parents=True, exist_ok=True)

    # -- settings --

    @property
    def language(self) -> str:
        """Of the recordings."""
        value = self._settings().get("language", "en")
        return value if isinstance(value, str) else "en"

    def set_language(self, language: str) -> None:
        """What is spoken in the recordings."""
        write_whole(
            self.own / "studio.json", json.dumps({"language": check_language(language)}).encode()
        )

    def _settings(self) -> dict[str, Any]:
        try:
            found = read_json(self.own / "studio.json")
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    # -- recordings --

    def list_recordings(self) -> list[Recording]:
        """What was put here, by name."""
        found = []
        for path in sorted(self.recordings.iterdir()):
            if path.name.startswith(".") or path.is_symlink() or not path.is_file():
                continue
            stat = path.stat()
            seconds = self._seconds(path, stat)
            text = ""
            if seconds is not None and (beside := path.with_suffix(".txt")).is_file():
                text = beside.read_text(encoding="utf-8", errors="replace")[:500].strip()
            found.append(Recording(path.name, stat.st_size, seconds, text))
        return found

    def find_recording(self, name: str) -> Path:
        """The file of that name."""
        path = self.recordings / check_name(name)
        if path.is_symlink() or not path.is_file():
            raise DataError(f"There is no recording named {name}.", "reload the page")
        return path

    def remove_recording(self, name: str) -> None:
        """Take a file out, and with a sound the text beside it."""
        path = self.find_recording(name)
        path.unlink()
        if path.suffix != ".txt":
            path.with_suffix(".txt").unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """Room on the disk."""
        return shutil.disk_usage(self.path).free

    def _seconds(self, path: Path, stat: os.stat_result) -> float | None:
        key = (path.name, stat.st_size, stat.st_mtime_ns)
        if key not in self._heard:
            if len(self._heard) > 2 * MOST_RECORDINGS:
                self._heard.clear()
            self._heard[key] = sound_seconds(path)
        return self._heard[key]


def sound_seconds(path: Path) -> float | None:
    """How long a sound file is; None if it is none that can be read."""
    import soundfile  # late: --help must be quick

    try:
        with soundfile.SoundFile(str(path)) as sound:
            return float(sound.frames / sound.samplerate) if sound.frames > 0 else None
    except (soundfile.SoundFileError, OSError, ValueError, RuntimeError):
        return None


def check_name(name: str) -> str:
    """A file's name as somebody else gave it: letters, digits and a few marks, no path."""
    tidy = unicodedata.normalize("NFC", name).strip()
    if len(tidy) > LONGEST_NAME:
        raise RefusedError(
            Message("The file's name is too long."),
            Message("at most {} characters", (str(LONGEST_NAME),)),
        )
    if not _NAME.fullmatch(tidy) or ".." in tidy:
        raise DataError(
            "The file's name holds characters that are not taken.",
            "letters, digits, spaces, dots, dashes and brackets",
        )
    return tidy


def write_whole(path: Path, content: bytes) -> None:
    """A file that is there whole or not at all."""
    draft = path.with_name(f".{secrets.token_hex(6)}.tmp")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
