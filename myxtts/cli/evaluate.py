"""`myxtts evaluate`: how a voice sounds, in numbers, beside the recordings it should sound like."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from myxtts.cli.output import (
    Debug,
    echo,
    load_tensorflow,
    make_console,
    quiet_native_output,
    start_logging,
    write_text,
)
from myxtts.errors import ConfigError
from myxtts.messages import harmless

if TYPE_CHECKING:
    from myxtts.evaluation.held_out import HeldOut
    from myxtts.evaluation.results import Evaluation, Measure


def evaluate(
    model: Annotated[
        Path,
        typer.Argument(metavar="RUN_OR_EXPORT", help="Run folder, one checkpoint, or export."),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Recordings it was not trained on: a folder with metadata.csv, or a clip list. "
            "Default: what the run itself held out.",
        ),
    ] = None,
    clips: Annotated[int, typer.Option(min=1, help="How many to speak and judge, at most.")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="Of the choice of clips and of the speech.")] = 0,
    report: Annotated[
        Path, typer.Option(metavar="FILE.html", help="The page, with pictures and audio.")
    ] = Path("evaluation.html"),
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write every number here too, clip by clip."),
    ] = None,
    language: Annotated[
        Literal["en", "fa"], typer.Option("--lang", help="Of the page: English or Persian.")
    ] = "en",
    debug: Debug = False,
) -> None:
    """Speak held-out sentences in cloned voices and measure them, on the CPU.

    The same numbers are given for the original recordings, and for copies of them that went through
    the vocoder: what is lost on the way from them to the synthesis is the model's doing.
    """
    start_logging()
    for path in (report, json_file):
        _check_output(path)
    from myxtts.evaluation.held_out import NUM_REFERENCES, find_held_out  # late: --help is quick
    from myxtts.inference.voice_files import load_voice

    console = make_console()
    voice = load_voice(model)
    with _progress("looking at clips", console) as (set_total, advance), quiet_native_output():
        held_out = find_held_out(
            model,
            voice,
            data=data,
            num_clips=clips,
            seed=seed,
            on_list=set_total,
            on_clip=advance,
        )
    _say_what_is_judged(held_out, given=data is not None)
    load_tensorflow()
    from myxtts.evaluation.judge import evaluate as judge
    from myxtts.inference.synthesizer import Synthesizer
    from myxtts.pages.evaluation import Heading, write_evaluation
    from myxtts.pipeline.hardware import HARDWARE

    HARDWARE.hide_gpus()  # as in synthesize, whose speed is measured
    # Clips of every length are analysed, one trace a second of length: meant, and no news to users.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    with _progress("speaking and judging", console) as (set_total, advance):
        set_total(len(held_out.references) + len(held_out.clips))
        evaluation = judge(Synthesizer(voice), held_out, seed=seed, on_clip=advance)
    _print(evaluation, console)
    heading = Heading(
        model=str(model),
        step=voice.step,
        source=held_out.source,
        num_references=NUM_REFERENCES,
        seed=seed,
        num_cores=len(os.sched_getaffinity(0)),
    )
    write_evaluation(report, evaluation, heading, language=language)
    echo(f"Page: {report}")
    if json_file is not None:
        found = {"model": str(model), "step": voice.step, "seed": seed, **evaluation.to_dict()}
        found["source"] = str(held_out.source)
        write_text(json_file, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        echo(f"Numbers: {json_file}")


def _check_output(path: Path | None) -> None:
    if path is None:
        return
    if path.is_dir():
        raise ConfigError(f"{path} is a folder, not a file.", "the name of a file")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise ConfigError(
            f"The folder {path.parent} does not exist or cannot be written to.",
            f"mkdir -p {path.parent}, or another folder",
        )


@contextmanager
def _progress(what: str, console: Any) -> Iterator[tuple[Any, Any]]:
    """A bar on a terminal; hands over how to set its total and how to advance it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (what, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        bar = progress.add_task(what, total=None)
        yield (
            lambda total: progress.update(bar, total=total, completed=0),
            lambda: progress.advance(bar),
        )


def _say_what_is_judged(held_out: HeldOut, *, given: bool) -> None:
    voices = _counted({clip.speaker for clip in held_out.clips}, "voice")
    echo(
        f"{len(held_out.clips)} of {held_out.num_listed} held-out clips, {voices}: "
        f"{held_out.source}"
    )
    if given:
        echo("Whether it was trained on them, nobody checked: --data takes your word for it.")
    for reason, count in held_out.skipped.most_common():
        echo(f"  left out: {count} × {reason}")


def _print(evaluation: Evaluation, console: Any) -> None:
    from rich.table import Table

    from myxtts.evaluation.results import SYNTHESIS, format_value

    def show(title: str, rows: Sequence[tuple[Measure, Mapping[Any, float | None]]]) -> None:
        table = Table(title=title)
        for head in ("", *rows[0][1]):
            table.add_column(harmless(head), justify="right" if head else "left")
        for measure, values in rows:
            cells = (format_value(value, measure.unit) for value in values.values())
            table.add_row(measure.name, *cells)
        console.print(table)

    spoken = {clip.clip.speaker for clip in evaluation.clips}
    title = f"{_counted(evaluation.clips, 'clip')} of {_counted(spoken, 'voice')}"
    if len(evaluation.voices) > 1:
        title += f", matched among {_counted(evaluation.voices, 'voice')}"
    show(title, evaluation.rows())
    groups = evaluation.groups(lambda clip: clip.clip.source)
    if len(groups) > 1:
        rows = [
            (measure, {name: measure.of(some, SYNTHESIS) for name, some in groups.items()})
            for measure, _ in evaluation.rows()
            if measure.unit not in ("factor", "s")
        ]
        show("The synthesis by list", rows)
    echo(evaluation.verdict())
    for note in evaluation.notes:
        echo(note.text + (f"\n  try: {note.remedy}" if note.remedy else ""))


def _counted(things: Sized, what: str) -> str:
    return f"{len(things)} {what}{'s' if len(things) != 1 else ''}"
