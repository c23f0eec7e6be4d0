"""`myxtts data`: import recordings, look at them before training, or make the built-in ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from myxtts.cli.data_correct import correct
from myxtts.cli.data_findings import print_findings
from myxtts.cli.data_import import import_data
from myxtts.cli.data_script import script
from myxtts.cli.data_text import text
from myxtts.cli.output import Debug, echo, make_console, quiet_native_output, start_logging
from myxtts.errors import MyXTTSError
from myxtts.messages import harmless, where_programs_are

if TYPE_CHECKING:
    from myxtts.data.prepare import PreparedData
    from myxtts.data.summary import DataSummary
    from myxtts.recordings.audit import Finding

app = typer.Typer(
    help="Import recordings, look at training data, or make the built-in corpus.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

app.command("import")(import_data)
app.command()(script)
app.command()(text)
app.command()(correct)

NAME_LENGTH = 40
MOST_SPEAKERS = 8
MAX_GUESSED = 20  # words shown
DETAIL_LENGTH = 160
ReportLanguage = Literal["en", "fa"]


@app.command()
def check(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="Data folder, or a clip list.")],
    delimiter: Annotated[
        str | None, typer.Option(help="Of the clip list: | or tab or comma; default: found out.")
    ] = None,
    language: Annotated[str, typer.Option(help="Language of clips whose list names none.")] = "en",
    tokenizer: Annotated[
        str, typer.Option(metavar="auto|characters|phonemes", help="What reads the texts.")
    ] = "auto",
    lexicon: Annotated[
        Path | None, typer.Option(help="Pronunciations: word, tab or comma, how it is said.")
    ] = None,
    max_mel_frames: Annotated[
        int, typer.Option(min=1, help="Longest clip in mel frames (1024, about 12 s).")
    ] = 1024,
    max_text_length: Annotated[int, typer.Option(min=1, help="Longest text in tokens.")] = 256,
    verdicts: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Write every clip's verdict here.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Clips in a batch.")] = 16,
    listen: Annotated[
        bool,
        typer.Option(
            "--listen",
            help="Listen with the base voice too: wrong texts, several people, echo, copies.",
        ),
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write the same as a page, with plots.")
    ] = None,
    report_language: Annotated[
        ReportLanguage, typer.Option("--lang", help="Of the page: English or Persian.")
    ] = "en",
    debug: Debug = False,
) -> None:
    """Keep or drop every listed clip, say why, and sum up what is left.

    Exit code 0 if at least one clip can be trained on, 1 if none.
    """
    start_logging()
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from myxtts.config.config import load_config
    from myxtts.data.list_lines import DELIMITERS
    from myxtts.data.prepare import plan_batches, prepare_data
    from myxtts.data.summary import summarise, write_verdicts
    from myxtts.pages.data_report import write_report
    from myxtts.recordings.audit import audit_list
    from myxtts.text.tokenizers import CharacterTokenizer

    marks = {mark: name for name, mark in DELIMITERS.items()}
    settings = {
        "data.delimiter": None if delimiter is None else marks.get(delimiter, delimiter),
        "data.language": language,
        "data.tokenizer": tokenizer,
        "data.lexicon": lexicon,
        "data.max_mel_frames": max_mel_frames,
        "data.max_text_length": max_text_length,
        "data.batch_size": batch_size,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    config = load_config(None, given).data
    # Characters are read by the base inventory, so that what the data would add to it is shown.
    base = CharacterTokenizer(lexicon=_load(lexicon)) if config.tokenizer == "characters" else None
    console = make_console()
    columns = ("listening", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("listening", total=None)
        prepared = prepare_data(
            source,
            config,
            tokenizer=base,
            on_list=lambda clips: progress.update(bar, total=clips),
            on_clip=lambda: progress.advance(bar),
        )
    manifest, found, reader = prepared.manifest, prepared.verdicts, prepared.tokenizer
    summary = summarise(manifest, found, reader.unknown_counts, reader.guessed_counts)
    findings = audit_list(manifest, found, summary.speaker_minutes)
    if listen and summary.kept:
        findings += _listen(prepared, console)
    _print(summary, reader, console)
    print_findings(findings)
    if summary.kept:
        echo("\n" + plan_batches(prepared.table(), config).describe())
    if report is not None:
        write_report(
            report, summary, title=str(source), language=report_language, findings=findings
        )
        echo(f"Report: {report}")
    if verdicts is not None:
        try:
            write_verdicts(verdicts, manifest, found)
        except OSError as error:
            raise MyXTTSError(f"{verdicts} cannot be written: {error}", "check the path") from error
        echo(f"Every clip's verdict: {verdicts}")
    if not summary.kept:
        echo("Nothing is left to train on.")
        raise typer.Exit(1)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to put the corpus.")],
    voices: Annotated[int, typer.Option(min=1, max=4, help="Speakers.")] = 4,
    sentences: Annotated[int, typer.Option(help="Training clips in all.")] = 400,
    language: Annotated[str, typer.Option(metavar="en|fa", help="What is spoken.")] = "en",
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other sentences.")] = 0,
    debug: Debug = False,
) -> None:
    """Speak the built-in corpus with espeak-ng: a few hundred short clips, in seconds.

    `heldout/` holds new combinations of the trained words, and words never heard in training.
    """
    start_logging()
    from rich.progress import Progress

    from myxtts.corpora.demo import make_demo_corpus

    with Progress(transient=True) as progress:
        bar = progress.add_task("speaking", total=None)
        made = make_demo_corpus(
            folder,
            voices=voices,
            sentences=sentences,
            seed=seed,
            language=language,
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )
    echo(
        f"{'Found' if made.reused else 'Spoke'} {made.num_clips} clips "
        f"({made.seconds / 60:.1f} minutes, {len(made.speakers)} speakers) and "
        f"{made.num_held_out} held-out ones in {made.folder}"
    )
    echo(f"Next: {where_programs_are()}myxtts data check {made.folder}")


def _listen(prepared: PreparedData, console: Any) -> list[Finding]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    with quiet_native_output():
        from myxtts.recordings.listening import ClipListener
        from myxtts.recordings.sound_audit import audit_sound

        ears = ClipListener()
    kept = sum(verdict.kept for verdict in prepared.verdicts)
    columns = ("listening", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("listening", total=kept)
        return audit_sound(
            prepared.manifest,
            prepared.verdicts,
            on_clip=lambda: progress.advance(bar),
            listener=ears,
        )


def _load(lexicon: Path | None) -> Any:
    from myxtts.text.lexicon import Lexicon

    return None if lexicon is None else Lexicon.load(lexicon)


def _print(summary: DataSummary, reader: Any, console: Any) -> None:
    from rich.table import Table

    from myxtts.data.enough import enough_for

    dropped = summary.listed - summary.kept
    echo(f"{summary.listed} clips listed: {summary.kept} kept, {dropped} dropped")
    if dropped:
        table = Table("dropped because", "clips", "for example", "what to do")
        for reason, count, examples, remedy in summary.reasons():
            table.add_row(reason, str(count), harmless(examples), remedy)
        console.print(table)
    for detail in summary.bad_rows:
        echo(f"  {_short(detail, DETAIL_LENGTH)}")
    if not summary.kept:
        return
    echo(
        f"{summary.hours:.2f} hours; {_counted(summary.speakers, 'speaker')}; "
        f"{_counted(summary.languages, 'language')}"
    )
    most = max(count for _, _, count in summary.histogram)
    for low, high, count in summary.histogram:
        echo(f"  {low:5.1f} to {high:5.1f} s  {'█' * round(30 * count / most):30s} {count}")
    symbols = summary.unknown_symbols.most_common(20)
    if symbols:
        shown = ", ".join(f"{s!r} (U+{ord(s[0]):04X}) x {n}" for s, n in symbols)
        echo(f"Symbols the {reader.kind} tokenizer does not know: {shown}")
    if guessed := summary.guessed_words:
        shown = ", ".join(f"{_short(word)} x {n}" for word, n in guessed.most_common(MAX_GUESSED))
        echo(f"Words whose reading was guessed ({len(guessed)}), most frequent first: {shown}")
        echo("  try: give the wrong ones a pronunciation in a lexicon (--lexicon)")
    for ids, what in (
        (summary.mostly_silent, "are mostly silent"),
        (summary.cancelling, "have channels that cancel each other out (one of them is used)"),
    ):
        if ids:
            names = ", ".join(_short(name) for name in ids[:3])
            echo(f"Warning: {len(ids)} clips {what}, for example {names}")
    _print_minutes(summary.speaker_minutes)
    echo(" ".join(map(str, enough_for(summary.speaker_minutes))))


def _print_minutes(minutes: Mapping[str, float]) -> None:
    """How long each speaker is heard, the longest first: what a voice of theirs can be made of."""
    most = sorted(minutes, key=lambda name: -minutes[name])
    shown = ", ".join(f"{_short(name)} {minutes[name]:.1f}" for name in most[:MOST_SPEAKERS])
    rest = f" and {len(most) - MOST_SPEAKERS} more" if len(most) > MOST_SPEAKERS else ""
    echo(f"Minutes a speaker: {shown}{rest}")


def _short(name: str, longest: int = NAME_LENGTH) -> str:
    """A name on one line; those of Common Voice's speakers have 128 letters."""
    name = harmless(name)
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _counted(counts: Counter[str], what: str) -> str:
    names = ", ".join(f"{_short(name)} ({count})" for name, count in counts.most_common(5))
    more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
    return f"{len(counts)} {what}{'s' if len(counts) != 1 else ''}: {names}{more}"
