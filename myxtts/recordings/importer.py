"""`myxtts data import`: recordings as people have them become a data folder of ours."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import soundfile

from myxtts.data.clips import EXTENSIONS
from myxtts.data.list_forms import DEFAULT_SPEAKER
from myxtts.data.verdicts import MIN_SECONDS, REMEDIES
from myxtts.data.waves import decode, stamp_of
from myxtts.errors import DataError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.recordings.audio import read_recording
from myxtts.recordings.clipping import Clipper, Clippings, EspeakMissing, NewClip
from myxtts.recordings.folder import ImportedClip, Origin, write_clips
from myxtts.recordings.kinds import recognise_kind
from myxtts.recordings.layouts import list_recordings
from myxtts.recordings.ledger import PUBLISH_S, Done, Ledger, note_source, open_ledger
from myxtts.recordings.report import ImportProgress, ImportReport, OnProgress, Refused
from myxtts.recordings.sources import Recording
from myxtts.recordings.transcriber import Transcriber, Transcript
from myxtts.text.languages import check_language

WAVES = "wavs"
# As the corpora themselves are published; what looks like one may be another.
LICENCES = {
    "common-voice": "CC0-1.0, if it is Mozilla's Common Voice",
    "vctk": "CC BY 4.0, if it is CSTR's VCTK",
    "libritts": "CC BY 4.0, if it is LibriTTS",
}


def import_recordings(
    source: Path,
    out: Path,
    *,
    kind: str | None = None,
    language: str,
    speaker: str | None = None,
    transcribe: Path | None = None,
    licence: str = "",
    copy: bool = False,
    progress: OnProgress | None = None,
) -> ImportReport:
    """Make a data folder `out` of whatever is in `source`, which is never written to.

    `kind` is one of `kinds.KINDS`; by default it is recognised. `language` is for recordings that
    name none, `speaker` for those without one (default: the folder a recording lies in, or
    `speaker`). `transcribe` is the folder of a faster-whisper model, which writes the text of every
    clip that has none; without it such clips are listed with an empty text, to be written.
    `licence` is noted in `out/source.json`. Clips that need no cutting are used where they are,
    through a link to their folder; `copy` copies them. Run again it goes on where it was stopped,
    imports what is new or changed, and keeps every text corrected and every clip dropped by hand.
    `progress` is called on this thread, before and after each recording and now and then in
    between; what it raises ends the import, which a later run then continues.
    """
    tag = check_language(language)
    found, why = recognise_kind(source, kind)
    if Path(os.path.realpath(out)).is_relative_to(os.path.realpath(source)):
        raise DataError(f"{out} is inside of what is imported.", "a folder beside it")
    transcriber = Transcriber(transcribe) if transcribe is not None else None
    recordings = list(list_recordings(source, found, tag))
    report = ImportReport(out, found, why, recordings=len(recordings))
    with open_ledger(out) as ledger:
        facts = {
            "kind": found,
            "recognised_by": why,
            "licence": licence or LICENCES.get(found, "not said"),
            "language": tag,
            "imported": date.today().isoformat(),
        }
        number, link = note_source(out, _home(source), facts)
        work = _Import(ledger, _home(source), number, link, speaker, copy, report)
        work.run(recordings, progress or (lambda state: None))
        if transcriber is not None:
            work.write_down(transcriber, progress or (lambda state: None))
        clips = ledger.clips()
    report.clips = len(clips)
    report.seconds = sum(clip.seconds for clip in clips)
    report.without_text = sum(not clip.text for clip in clips)
    return report


def _home(source: Path) -> Path:
    return source if source.is_dir() else source.parent


@dataclass
class _Import:
    ledger: Ledger
    home: Path
    number: int  # of the source
    link: str
    speaker: str | None
    copy: bool
    report: ImportReport

    def run(self, recordings: list[Recording], progress: OnProgress) -> None:
        sizes = [_size(recording.path) for recording in recordings]
        state = ImportProgress("", 0, len(recordings), 0, sum(sizes), 0.0, 0.0)
        began, clipper = time.monotonic(), Clipper()
        try:
            for recording, size in zip(recordings, sizes, strict=True):
                stamp = self._stamp(recording)
                key = f"{self.number}:{recording.name}"
                state = replace(state, file=recording.name, elapsed=time.monotonic() - began)
                known = self.ledger.known(key, stamp)
                if known is not None:
                    self.report.unchanged += 1
                    self.report.refused += known.refused
                    state = replace(state, skipped_bytes=state.skipped_bytes + size)
                else:
                    progress(state)
                    state = replace(
                        state,
                        seconds=state.seconds
                        + self._import(
                            recording, key, stamp, clipper, state, size, began, progress
                        ),
                    )
                state = replace(
                    state,
                    done=state.done + 1,
                    done_bytes=state.done_bytes + size,
                    elapsed=time.monotonic() - began,
                )
            progress(state)
        finally:
            self.ledger.publish()

    def _import(
        self,
        recording: Recording,
        key: str,
        stamp: str,
        clipper: Clipper,
        state: ImportProgress,
        size: int,
        began: float,
        progress: OnProgress,
    ) -> float:
        """Import one recording; the seconds it lasts."""

        def on_share(share: float, seconds: float) -> None:
            progress(
                replace(
                    state,
                    done_bytes=state.done_bytes + int(share * size),
                    seconds=state.seconds + share * seconds,
                    elapsed=time.monotonic() - began,
                )
            )

        refused: list[Refused] = []
        clips: list[ImportedClip] = []
        made = Clippings(0.0)
        try:
            if recording.problem:
                raise DataError(recording.problem, recording.remedy)
            recording = replace(recording, language=check_language(recording.language))
            made = clipper.clip(recording, on_share=on_share)
            short = [clip for clip in made.clips if clip.seconds < MIN_SECONDS]
            if short and len(short) == len(made.clips):
                raise DataError("too short", REMEDIES["too short"])
            clips = [
                self._write(recording, i, c) for i, c in enumerate(made.clips) if c not in short
            ]
        except EspeakMissing:
            raise
        except DataError as error:
            refused.append(Refused(recording.name, error.problem, error.remedy))
        refused += [
            Refused(f"{recording.name} ({start:.1f} to {end:.1f} s)", reason, remedy)
            for start, end, reason, remedy in made.left_out
        ]
        self.ledger.note(key, Done(stamp, refused), clips)
        self.report.refused += refused
        self.report.new_clips += len(clips)
        return made.seconds

    def _write(self, recording: Recording, index: int, clip: NewClip) -> ImportedClip:
        audio = self._place(recording, index, clip)
        return ImportedClip(
            audio=audio,
            text=clip.text,
            speaker=clip.speaker or recording.speaker or self.speaker or DEFAULT_SPEAKER,
            language=recording.language,
            origin=Origin(recording.name, clip.start, clip.end, self.number),
            seconds=round(clip.seconds, 3),
        )

    def _place(self, recording: Recording, index: int, clip: NewClip) -> str:
        """Where a clip's audio is, relative to the folder: linked, copied, or written."""
        folder, path = self.ledger.folder, recording.path
        usable = path.suffix.lower() in EXTENSIONS
        name = f"{WAVES}/{_slug(recording.name, self.number)}"
        if clip.wave is None and usable and not self.copy:
            folder_of, home = map(os.path.realpath, (path.parent, self.home))
            inside = os.path.relpath(folder_of, home)
            # A file that is a link to elsewhere would be dropped as one that nobody meant.
            own = os.path.dirname(os.path.realpath(path)) == folder_of
            if own and not inside.startswith(".."):
                self._make_link()
                return os.path.normpath(f"{self.link}/{inside}/{path.name}")
        (folder / WAVES).mkdir(exist_ok=True)
        if clip.wave is None and usable:
            target = f"{name}{path.suffix.lower()}"
            shutil.copyfile(path, folder / target)
            return target
        wave = read_recording(path) if clip.wave is None else clip.wave
        target = f"{name}.wav" if clip.wave is None else f"{name}-{index + 1:04d}.wav"
        partial = folder / f"{target}.tmp"
        soundfile.write(partial, wave, SAMPLE_RATE, "PCM_16", format="WAV")
        partial.replace(folder / target)
        return target

    def _make_link(self) -> None:
        link = self.ledger.folder / self.link
        if not link.is_symlink():
            link.symlink_to(os.path.realpath(self.home), target_is_directory=True)

    def _stamp(self, recording: Recording) -> str:
        """What changes when a recording, or what is known of it, does."""
        files = [stamp_of(path) for path in (recording.path, *recording.beside)]
        said = repr(
            (
                recording.text,
                recording.cues,
                recording.speaker or self.speaker,
                recording.language,
                recording.problem,
                self.copy,
            )
        )
        return hashlib.sha256("\0".join([*files, said]).encode(errors="replace")).hexdigest()[:24]

    def write_down(self, transcriber: Transcriber, progress: OnProgress) -> None:
        """Write the text of every clip that has none; what a person wrote is never replaced."""
        empty = [clip for clip in self.ledger.clips() if not clip.text]
        began = written = time.monotonic()
        state = ImportProgress("", 0, len(empty), 0, len(empty), 0.0, 0.0)
        heard: dict[str, Transcript] = {}
        try:
            for done, clip in enumerate(empty):
                now = time.monotonic()
                state = replace(
                    state, file=clip.audio, done=done, done_bytes=done, elapsed=now - began
                )
                progress(state)
                wave = decode(self.ledger.folder / clip.audio)
                heard[clip.audio] = transcriber.write_down(wave, clip.language)
                state = replace(state, seconds=state.seconds + clip.seconds)
                if now - written > PUBLISH_S:
                    self._fill(heard)
                    written = now
        finally:
            self._fill(heard)

    def _fill(self, heard: dict[str, Transcript]) -> None:
        """Put what was heard into the list as it is now: somebody may have written meanwhile."""
        clips = self.ledger.clips()
        for i, clip in enumerate(clips):
            if not clip.text and clip.audio in heard:
                text, sure = heard[clip.audio]
                clips[i] = replace(clip, text=text, confidence=sure)
        write_clips(self.ledger.folder, clips)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _slug(name: str, number: int) -> str:
    """A file name of ours for a recording: no two have the same."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(name).stem).strip("-")[:40]
    digest = hashlib.sha256(f"{number}\0{name}".encode(errors="replace")).hexdigest()[:8]
    return f"{plain}-{digest}" if plain else digest
