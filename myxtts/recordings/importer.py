"""`myxtts data import`: recordings as people have them become a data folder of ours."""

from __future__ import annotations

from pathlib import Path

from myxtts.recordings.report import ImportReport, OnProgress


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
    `speaker`). `transcribe` is the folder of a faster-whisper model, for recordings without text;
    without it their clips are listed with an empty text, to be written. `licence` is noted in
    `out/source.json`. Clips that need no cutting are used where they are, through a link to their
    folder; `copy` copies them. Run again it goes on where it was stopped, imports what is new or
    changed, and keeps every text corrected and every clip dropped by hand. `progress` is called
    on this thread, before and after each recording and now and then in between; what it raises
    ends the import, which a later run then continues.
    """
    raise NotImplementedError
