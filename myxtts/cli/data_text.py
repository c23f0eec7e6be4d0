"""`myxtts data text`: what will be said of a text, before a voice is trained or asked to say it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from myxtts.cli.output import Debug, echo, make_console, start_logging
from myxtts.errors import DataError
from myxtts.messages import harmless


def text(
    words: Annotated[str, typer.Argument(metavar="TEXT", help="What to read; - reads stdin.")],
    language: Annotated[str, typer.Option(help="Of the text.")] = "en",
    lexicon: Annotated[
        Path | None, typer.Option(help="Pronunciations: word, tab or comma, how it is said.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A list of word, ezafe, phonemes and source.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Show what the phonemes tokenizer will say: each word, its sounds, and where they came from.

    The source is user (your lexicon), lexicon, rules, tagger, guess or espeak-ng.
    """
    start_logging()
    from rich.table import Table

    from myxtts.text import espeak
    from myxtts.text.languages import check_language
    from myxtts.text.lexicon import Lexicon
    from myxtts.text.scripts import check_script
    from myxtts.text.tokenizers import read_words

    tag = check_language(language)
    if not espeak.is_available():
        raise DataError("Phonemes need espeak-ng, which is not installed.", espeak.INSTALL_REMEDY)
    written = sys.stdin.read() if words == "-" else words
    check_script([written], tag)
    read = read_words(written, tag, None if lexicon is None else Lexicon.load(lexicon))
    spoken = [word for word in read if not word.is_mark]
    if as_json:
        rows = [
            {"word": w.text, "ezafe": w.ezafe, "phonemes": w.phonemes, "source": w.source}
            for w in spoken
        ]
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    if not spoken:
        echo("Nothing in it is said.")
        return
    console = make_console()
    persian = ("reading",) if tag == "fa" else ()
    table = Table("word", *persian, "phonemes", "source")
    for word in spoken:
        shown = (word.reading or "-",) if persian else ()
        table.add_row(harmless(word.text), *shown, harmless(word.phonemes), word.source)
    console.print(table)
    doubtful = list(dict.fromkeys((word.text, word.doubt) for word in spoken if word.doubt))
    if doubtful:
        doubts = Table("uncertain", "why")
        for name, why in doubtful:
            doubts.add_row(harmless(name), harmless(why))
        console.print(doubts)
        echo("A word that is read wrong can be set right in a lexicon: --lexicon FILE.")
