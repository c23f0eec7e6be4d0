"""`myxtts data import`: from recordings as people have them to a folder that can be trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from myxtts.cli.output import Debug, echo, load_tensorflow, make_console, start_logging
from myxtts.messages import clock, harmless, where_programs_are

if TYPE_CHECKING:
    from myxtts.recordings.report import ImportProgress, ImportReport

MOST_REFUSED = 20  # shown
ALIGNED = ("subtitles", "texts")  # kinds whose texts are nearly always aligned, which takes a model


def import_data(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Folder of recordings, one file, or a list.")
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Data folder to make.")],
    kind: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="KIND",
            help="common-voice, vctk, libritts, audiofolder, piper, coqui, ljspeech, subtitles, "
            "texts or recordings; default: recognised.",
        ),
    ] = None,
    language: Annotated[str, typer.Option(help="Of recordings that name none.")] = "en",
    speaker: Annotated[
        str | None, typer.Option(help="Of recordings that name none; default: their folder.")
    ] = None,
    transcribe: Annotated[
        Path | None,
        typer.Option(metavar="MODEL_DIR", help="Write missing texts with this Whisper model."),
    ] = None,
    licence: Annotated[str, typer.Option(help="Of the recordings; noted in source.json.")] = "",
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy clips that need no cutting, instead of a link.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Make a data folder of recordings: recognised, cut at pauses, with their texts.

    The originals are never changed. Run again it goes on where it was stopped, and imports what is
    new. Exit code 0 if there is a clip to train on, 1 if none.
    """
    start_logging()
    from myxtts.recordings.importer import import_recordings
    from myxtts.recordings.kinds import recognise_kind

    found, why = recognise_kind(source, kind)
    echo(f"{source} is read as {found}: {why}")
    if found in ALIGNED:
        load_tensorflow()
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=make_console(stderr=True), transient=True) as shown:
        bar = shown.add_task("", total=1.0)

        def tell(state: ImportProgress) -> None:
            said = f"{state.done} of {state.total}, {state.rate:.0f}x, {clock(state.eta)} left"
            shown.update(bar, completed=state.share, description=f"{said}: {harmless(state.file)}")

        report = import_recordings(
            source,
            folder,
            kind=kind,
            language=language,
            speaker=speaker,
            transcribe=transcribe,
            licence=licence,
            copy=copy,
            progress=tell,
        )
    _print(report)
    if report.clips == report.without_text:
        raise typer.Exit(1)


def _print(report: ImportReport) -> None:
    if report.refused:
        echo(f"Left out ({len(report.refused)}):")
        for refused in report.refused[:MOST_REFUSED]:
            echo(f"  {refused.file}: {refused.reason}\n    try: {refused.remedy}")
        if len(report.refused) > MOST_REFUSED:
            echo(f"  and {len(report.refused) - MOST_REFUSED} more")
    echo(
        f"{report.recordings} recordings ({report.unchanged} as before): {report.new_clips} new "
        f"clips, {report.clips} in all, {report.seconds / 60:.1f} minutes, in {report.folder}"
    )
    if report.without_text:
        echo(
            f"{report.without_text} clips have no text yet.\n  try: --transcribe MODEL_DIR, or "
            f"write what is said into {report.folder}/metadata.jsonl"
        )
    if report.clips > report.without_text:
        echo(f"Next: {where_programs_are()}myxtts data check {report.folder}")
