"""Reading a script aloud, a sentence at a time: each take is a sound with its text beside it."""

from __future__ import annotations

import threading
from functools import lru_cache

from myxtts.errors import DataError
from myxtts.recordings.script import recording_script
from myxtts.studio.project import Project, write_whole

MINUTES = 15.0


class Takes:
    """The script of a project's language, and what of it was read."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._lock = threading.Lock()

    def sentences(self) -> list[dict[str, object]]:
        """Every sentence, and whether it was read."""
        language = self._project.language
        with self._lock:  # the first of two that ask at once computes it
            script = _script(language)
        return [
            {"text": text, "done": self._is_done(_name(language, number), text)}
            for number, text in enumerate(script, start=1)
        ]

    def name_and_text(self, number: str) -> tuple[str, str]:
        """The file for a sentence, and the sentence; refused if there is none of that number."""
        language = self._project.language
        with self._lock:
            script = _script(language)
        if not number.isdecimal() or len(number) > 6 or not 1 <= int(number) <= len(script):
            raise DataError("There is no such sentence in the script.", "reload the page")
        return _name(language, int(number)), script[int(number) - 1]

    def note(self, name: str, text: str) -> None:
        """What was read in a take."""
        beside = (self._project.recordings / name).with_suffix(".txt")
        write_whole(beside, f"{text}\n".encode())

    def _is_done(self, name: str, text: str) -> bool:
        sound = self._project.recordings / name
        try:
            beside = sound.with_suffix(".txt").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return sound.is_file() and beside.strip() == text


def _name(language: str, number: int) -> str:
    return f"read-{language}-{number:04d}.wav"


@lru_cache(maxsize=4)
def _script(language: str) -> tuple[str, ...]:
    return tuple(recording_script(language, MINUTES))
