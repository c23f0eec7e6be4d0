"""`myxtts studio`: the whole way from recordings to a voice, on one page of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from myxtts.cli.output import Debug, echo, start_logging
from myxtts.errors import MyXTTSError

PORT = 8091


def studio(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Where recordings, clips, run and voice are kept; made if need be."
        ),
    ] = Path("studio"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = PORT,
    lang: Annotated[
        Literal["en", "fa"], typer.Option(help="Of the page at first: English or Persian.")
    ] = "en",
    upload_mb: Annotated[
        int, typer.Option(min=1, max=65536, metavar="MB", help="Largest file the page takes.")
    ] = 1024,
    debug: Debug = False,
) -> None:
    """Serve a page on this machine only: record, cut, correct, train, listen, speak, export.

    It is reached with the token in the address that is printed. What it trains is a process of its
    own, which goes on when the page is closed or this command ends.
    """
    start_logging()
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MyXTTSError(
            f"The studio needs a package that is not installed: {error.name}.",
            'pip install "myxtts[studio]"',
        ) from error
    from myxtts.studio.server import serve_studio

    with serve_studio(folder, port=port, lang=lang, upload_mb=upload_mb) as server:
        echo(f"The studio of {folder} is open at {server.address}")
        echo("Only this machine reaches it. Ctrl-C ends it, but not a training that it started.")
        server.run()
