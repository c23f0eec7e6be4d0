"""`myxtts data correct`: write what is said in a clip, leave it out, or take it in again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myxtts.cli.output import Debug, echo, start_logging
from myxtts.errors import ConfigError


def correct(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that `myxtts data import` made.")
    ],
    clip: Annotated[str, typer.Argument(metavar="CLIP", help="Its audio, as the list names it.")],
    text: Annotated[str | None, typer.Option(help="What is said in it.")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Leave it out; its file stays.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Take it in again.")] = False,
    debug: Debug = False,
) -> None:
    """Correct one clip of an imported folder; a later import leaves it as it is then.

    The same as in the studio. The list is metadata.jsonl, a clip a line; what was left out is in
    dropped.jsonl.
    """
    start_logging()
    from myxtts.recordings.folder import change_text, drop_clip, keep_clip

    if (text is not None) + drop + keep != 1:
        raise ConfigError("It is not clear what to correct.", "one of --text, --drop and --keep")
    if text is not None:
        change_text(folder, clip, text)
        echo(f"{clip}: its text is written")
    elif drop:
        drop_clip(folder, clip)
        echo(f"{clip} is left out; --keep takes it in again")
    else:
        keep_clip(folder, clip)
        echo(f"{clip} is taken in again")
