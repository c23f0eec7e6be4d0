"""The clips of a project as its page shows them: judged, in pages, each under a key of its own."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from myxtts.config.config import DataConfig
from myxtts.data.prepare import prepare_data
from myxtts.data.summary import CLIPPING_SHARE, SILENCE_SHARE
from myxtts.data.verdicts import REMEDIES, Verdict
from myxtts.errors import DataError, MyXTTSError
from myxtts.messages import Message
from myxtts.recordings.folder import (
    ImportedClip,
    change_text,
    drop_clip,
    keep_clip,
    read_clips,
    read_dropped,
)
from myxtts.studio.project import Project, RefusedError

PER_PAGE = 12
LONGEST_TEXT = 2000  # characters
UNSURE = 0.6  # a transcription less sure of itself is to be looked at
LISTS = ("metadata.jsonl", "dropped.jsonl")

Show = Literal["all", "look", "dropped"]


@dataclass(frozen=True)
class ClipRow:
    """A clip with all that is known of it."""

    key: str
    clip: ImportedClip
    verdict: Verdict
    dropped: bool  # by hand
    warnings: tuple[str, ...] = ()

    @property
    def state(self) -> Literal["good", "look", "dropped"]:
        """In one word."""
        if self.dropped:
            return "dropped"
        return "look" if self.verdict.reason or self.warnings else "good"

    @property
    def remedy(self) -> str:
        """What to do about its verdict."""
        return REMEDIES.get(self.verdict.reason, "")


@dataclass(frozen=True)
class ClipList:
    """All clips, as of one moment."""

    rows: tuple[ClipRow, ...] = ()
    problem: MyXTTSError | None = None

    def shown(self, show: Show) -> tuple[ClipRow, ...]:
        """Those of one kind."""
        return tuple(row for row in self.rows if show == "all" or row.state == show)

    @property
    def usable(self) -> tuple[ClipRow, ...]:
        """Those a training would take."""
        return tuple(row for row in self.rows if not row.dropped and row.verdict.kept)

    @property
    def minutes(self) -> float:
        """Of those a training would take."""
        return sum(row.verdict.seconds for row in self.usable) / 60


class Clips:
    """Reads the clips of a project anew when their list has changed."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._lock = threading.Lock()
        self._stamp: object = None
        self._list = ClipList()

    def read(self) -> ClipList:
        """The clips as they are."""
        with self._lock:
            stamp = self._now()
            if stamp != self._stamp:
                self._list, self._stamp = self._judge(), stamp
            return self._list

    def find(self, key: str) -> ClipRow:
        """The clip of that key."""
        for row in self.read().rows:
            if row.key == key:
                return row
        raise DataError("There is no such clip any more.", "reload the page")

    def sound(self, row: ClipRow) -> Path:
        """Its file, as training would find it; the list may have been written by anybody."""
        if not row.verdict.path:
            raise DataError("The clip has no file that can be read.", "import it again")
        return self._project.data / row.verdict.path

    def write(self, key: str, text: str) -> None:
        """Correct what is said in a clip."""
        tidy = " ".join(text.split())
        if len(tidy) > LONGEST_TEXT:
            raise RefusedError(
                Message("The text is longer than {} characters.", (str(LONGEST_TEXT),)),
                Message("what this clip says"),
            )
        change_text(self._project.data, self.find(key).clip.audio, tidy)

    def drop(self, key: str, *, dropped: bool) -> None:
        """Leave a clip out, or take it in again."""
        (drop_clip if dropped else keep_clip)(self._project.data, self.find(key).clip.audio)

    def _now(self) -> object:
        return tuple(_stamp(self._project.data / name) for name in LISTS)

    def _judge(self) -> ClipList:
        folder = self._project.data
        if not (folder / LISTS[0]).is_file():
            return ClipList()
        try:
            listed, dropped = read_clips(folder), read_dropped(folder)
        except MyXTTSError as error:
            return ClipList(problem=error)
        try:
            prepared = prepare_data(folder, DataConfig(language=self._project.language))
            found = {
                clip.audio: verdict
                for clip, verdict in zip(prepared.manifest, prepared.verdicts, strict=True)
            }
            problem = None
        except MyXTTSError as error:  # such as the wrong language for these letters
            found, problem = {}, error
        rows = [_row(clip, found.get(clip.audio), dropped=False) for clip in listed]
        rows += [_row(clip, None, dropped=True) for clip in dropped]
        rows.sort(key=lambda row: (row.clip.origin.file, row.clip.origin.start, row.clip.audio))
        return ClipList(tuple(rows), problem)


def _row(clip: ImportedClip, verdict: Verdict | None, *, dropped: bool) -> ClipRow:
    key = hashlib.sha256(clip.audio.encode(errors="surrogatepass")).hexdigest()[:16]
    if verdict is None:
        return ClipRow(key, clip, Verdict(), dropped)
    warnings = []
    if verdict.clipped > CLIPPING_SHARE:
        warnings.append("Clipped (samples at the ceiling)")
    if verdict.silence > SILENCE_SHARE:
        warnings.append("Mostly silent")
    if clip.confidence is not None and clip.confidence < UNSURE:
        warnings.append("The transcription is not sure")
    return ClipRow(key, clip, verdict, dropped, tuple(warnings))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
