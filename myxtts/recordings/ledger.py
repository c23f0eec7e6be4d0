"""What earlier runs of an import did, so that it goes on where it was stopped.

The list of clips is written anew now and then; what was made since stands in a journal, a line for
each recording. So a run that is killed loses the recording it was at, and no more.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from myxtts.documents import read_json
from myxtts.errors import DataError
from myxtts.recordings.folder import (
    LIST_NAME,
    ImportedClip,
    clip_from_row,
    read_clips,
    write_clips,
    write_whole,
)
from myxtts.recordings.report import Refused

FORMAT = 1
SOURCES_FILE = "source.json"
MAX_STATE_BYTES = 1 << 30
PUBLISH_S = 20.0  # between two writings of the list


@dataclass
class Done:
    """A recording that was dealt with, as it was then."""

    stamp: str
    refused: list[Refused] = field(default_factory=list)


@contextmanager
def open_ledger(folder: Path) -> Iterator[Ledger]:
    """The memory of a folder, for one import at a time: two would undo each other's work."""
    home = folder / ".myxtts"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "import.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DataError(
                f"Another import into {folder} is under way.", "wait for it, or stop it"
            ) from error
        yield Ledger(folder)


class Ledger:
    """The memory of a folder that is imported into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._done_file, self._journal_file = (
            folder / ".myxtts" / name for name in ("imported.json", "importing.jsonl")
        )
        self._done = self._read_done()
        self._fresh: dict[str, list[ImportedClip]] = {}
        self._published = time.monotonic()
        self._recover()

    def known(self, key: str, stamp: str) -> Done | None:
        """What was done with a recording, if it has not changed since."""
        done = self._done.get(key)
        return done if done is not None and done.stamp == stamp else None

    def note(self, key: str, done: Done, clips: list[ImportedClip]) -> None:
        """Remember what became of a recording, should this process be killed too."""
        line = {"key": key, **asdict(done), "clips": [json.loads(c.to_json()) for c in clips]}
        with self._journal_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._done[key] = done
        self._fresh[key] = clips
        if time.monotonic() - self._published > PUBLISH_S:
            self.publish()

    def publish(self) -> list[ImportedClip]:
        """Bring the list up to date; what people changed in it since stays as they left it."""
        clips = self.clips()
        if self._fresh:
            remade = set(self._fresh)
            clips = [clip for clip in clips if self.key(clip) not in remade]
            clips += [clip for made in self._fresh.values() for clip in made]
            clips.sort(key=lambda clip: (clip.origin.source, clip.origin.file, clip.origin.start))
            write_clips(self.folder, clips)
        state = {"format": FORMAT, "done": {key: asdict(done) for key, done in self._done.items()}}
        write_whole(self._done_file, json.dumps(state, ensure_ascii=False))
        self._journal_file.unlink(missing_ok=True)
        self._fresh.clear()
        self._published = time.monotonic()
        return clips

    def clips(self) -> list[ImportedClip]:
        """The list as it is now."""
        return read_clips(self.folder) if (self.folder / LIST_NAME).is_file() else []

    @staticmethod
    def key(clip: ImportedClip) -> str:
        """Of the recording that a clip comes from."""
        return f"{clip.origin.source}:{clip.origin.file}"

    def _recover(self) -> None:
        """Bring in what a killed run had noted; its last line may be cut off."""
        if not self._journal_file.is_file():
            return
        for line in self._journal_file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
                clips = [clip_from_row(clip) for clip in row["clips"]]
                self._done[row["key"]] = _done_from(row)
            except (ValueError, KeyError, TypeError, AttributeError):
                break
            self._fresh[row["key"]] = clips
        self.publish()

    def _read_done(self) -> dict[str, Done]:
        try:
            state = read_json(self._done_file, max_bytes=MAX_STATE_BYTES)
            if state["format"] == FORMAT:
                return {key: _done_from(done) for key, done in state["done"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
        raise DataError(
            f"{self._done_file} cannot be read.", "remove it: everything is then imported anew"
        )


def _done_from(row: dict[str, Any]) -> Done:
    return Done(str(row["stamp"]), [Refused(**refused) for refused in row["refused"]])


def note_source(folder: Path, source: Path, facts: dict[str, str]) -> tuple[int, str]:
    """Write down where recordings are from; their number among the sources, and their link."""
    file = folder / SOURCES_FILE
    known: list[dict[str, Any]] = []
    if file.is_file():
        try:
            known = list(read_json(file)["sources"])
            paths = [entry["path"] for entry in known]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{file} is none that an import wrote: {error}", "remove it") from error
    else:
        paths = []
    path = os.path.realpath(source)
    place = paths.index(path) if path in paths else len(paths)
    link = "originals" if place == 0 else f"originals-{place + 1}"
    entry = {"path": path, "link": link, **facts}
    known[place : place + 1] = [entry]
    write_whole(file, json.dumps({"sources": known}, ensure_ascii=False, indent=1) + "\n")
    return place + 1, link
