"""The clips of a project as its page shows them: judged, in pages, each under a key of its own."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from myxtts.config.config import DataConfig
from myxtts.data.clips import check_clips
from myxtts.data.list_forms import Clip
from myxtts.data.manifests import Manifest
from myxtts.data.prepare import prepare_data
from myxtts.data.summary import CLIPPING_SHARE, SILENCE_SHARE
from myxtts.data.verdicts import REMEDIES, Verdict
from myxtts.errors import DataError, MyXTTSError
from myxtts.features.audio import HOP, SAMPLE_RATE
from myxtts.messages import Message
from myxtts.recordings.folder import (
    ImportedClip,
    change_text,
    drop_clip,
    keep_clip,
    read_clips,
    read_dropped,
)
from myxtts.studio.hearing import FINDINGS_FILE, read_findings
from myxtts.studio.project import Project, RefusedError

PER_PAGE = 12
LONGEST_TEXT = 2000  # characters
UNSURE = 0.6  # a transcription less sure of itself is to be looked at
LISTS = ("metadata.jsonl", "dropped.jsonl")
UNREAD = Verdict("empty text")  # where no text could be judged

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
    findings: Sequence[tuple[Message, str, Sequence[str]]] = ()  # remedies, sentences to record

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
        self._lock, self._writing = threading.Lock(), threading.Lock()
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
        audio = self.find(key).clip.audio
        with self._writing:
            change_text(self._project.data, audio, tidy)

    def drop(self, key: str, *, dropped: bool) -> None:
        """Leave a clip out, or take it in again."""
        row = self.find(key)
        if row.dropped == dropped:  # two windows had the same thought
            return
        with self._writing:
            (drop_clip if dropped else keep_clip)(self._project.data, row.clip.audio)

    def _now(self) -> object:
        heard = _stamp(self._project.own / FINDINGS_FILE)
        return heard, *(_stamp(self._project.data / name) for name in LISTS)

    def _judge(self) -> ClipList:
        folder = self._project.data
        if not (folder / LISTS[0]).is_file():
            return ClipList()
        try:
            listed = read_clips(folder)
            names = {clip.audio for clip in listed}  # one imported anew is in both lists
            dropped = [clip for clip in read_dropped(folder) if clip.audio not in names]
        except MyXTTSError as error:
            return ClipList(problem=error)
        sounds = _listen([*listed, *dropped], folder)
        findings, warned = read_findings(self._project)
        found, problem = {}, None
        try:
            if any(clip.text for clip in listed):
                prepared = prepare_data(folder, DataConfig(language=self._project.language))
                judged = zip(prepared.manifest, prepared.verdicts, strict=True)
                found = {clip.audio: verdict for clip, verdict in judged}
        except MyXTTSError as error:  # such as the wrong language for these letters
            problem = error
        rows = [
            _row(
                clip, found.get(clip.audio, Verdict() if clip.text else UNREAD), sounds[clip.audio]
            )
            for clip in listed
        ]
        rows += [_row(clip, None, sounds[clip.audio]) for clip in dropped]
        rows = [
            replace(row, warnings=(*row.warnings, *warned.get((row.clip.audio, row.clip.text), ())))
            for row in rows
        ]
        rows.sort(key=lambda row: (row.clip.origin.file, row.clip.origin.start, row.clip.audio))
        return ClipList(tuple(rows), problem, findings)


def _listen(clips: Sequence[ImportedClip], folder: Path) -> dict[str, Verdict]:
    """What is found of the sounds alone: whoever is to write a text must hear its clip."""
    manifest = Manifest(folder)
    for clip in clips:
        manifest.append((Clip(clip.audio, "sound", clip.speaker, clip.language), ""))
    verdicts = check_clips(manifest, max_seconds=DataConfig().max_mel_frames * HOP / SAMPLE_RATE)
    return {clip.audio: verdict for clip, verdict in zip(clips, verdicts, strict=True)}


def _row(clip: ImportedClip, verdict: Verdict | None, sound: Verdict) -> ClipRow:
    """A clip's row; one without a verdict was left out by hand."""
    key = hashlib.sha256(clip.audio.encode(errors="surrogatepass")).hexdigest()[:16]
    if verdict is None:
        return ClipRow(key, clip, sound, True)
    warnings = []
    if sound.clipped > CLIPPING_SHARE:
        warnings.append("Clipped (samples at the ceiling)")
    if sound.silence > SILENCE_SHARE:
        warnings.append("Mostly silent")
    if clip.confidence is not None and clip.confidence < UNSURE:
        warnings.append("The transcription is not sure")
    known = replace(sound, reason=verdict.reason, detail=verdict.detail)
    return ClipRow(key, clip, known, False, tuple(warnings))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
