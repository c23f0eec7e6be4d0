"""`myxtts data script`: sentences to record, so that every sound of a language is among them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myxtts.cli.output import Debug, echo, start_logging
from myxtts.errors import DataError


def script(
    language: Annotated[str, typer.Option(help="Of the sentences.")] = "en",
    minutes: Annotated[float, typer.Option(min=0.1, max=600, help="Of reading aloud.")] = 15.0,
    text: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Choose from this text, not from our own.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Print sentences to read aloud, a line each, phonetically balanced: the rare sounds first."""
    start_logging()
    from myxtts.recordings.script import recording_script, script_minutes, sentences_in

    texts = None
    if text is not None:
        try:
            texts = sentences_in(text.read_text(encoding="utf-8-sig"), language)
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"The text {text} cannot be read: {error}", "a UTF-8 file") from error
    lines = recording_script(language, minutes, texts=texts)
    for line in lines:
        echo(line)
    found = script_minutes(lines, language)
    if found < 0.9 * minutes:
        echo(
            f"There are sentences for about {found:.1f} minutes only.\n  try: --text FILE with a "
            "text of your own to choose more from",
            err=True,
        )
