"""The `myxtts` command: a module per sub-command, none of which loads TensorFlow on import."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import typer

from myxtts.cli import output
from myxtts.cli.data import app as data_app
from myxtts.cli.demo import demo
from myxtts.cli.env import env
from myxtts.cli.evaluate import evaluate
from myxtts.cli.export import export
from myxtts.cli.monitor import monitor
from myxtts.cli.plan import plan
from myxtts.cli.profile import profile
from myxtts.cli.synthesize import synthesize
from myxtts.cli.train import train
from myxtts.cli.validate import validate
from myxtts.errors import MyXTTSError

app = typer.Typer(
    name="myxtts",
    help="Train an XTTS-style voice on one or two GPUs, and speak with it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help keeps every flag whole when piped through grep
)
app.command()(train)
app.command()(validate)
app.command()(demo)
app.command()(profile)
app.command()(plan)
app.command()(monitor)
app.command()(synthesize)
app.command()(export)
app.command()(evaluate)
app.command()(env)
app.add_typer(data_app, name="data")


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Show the version.")) -> None:
    if version:
        from myxtts import __version__

        typer.echo(f"myxtts {__version__}")
        raise typer.Exit


def main(command: Sequence[str] = ()) -> None:
    """Run a command line; `command` comes before the words the user typed."""
    try:
        app(args=[*command, *sys.argv[1:]], prog_name="myxtts")
    except MyXTTSError as error:
        if output.debug_asked:
            traceback.print_exc()
        output.echo(f"error: {error}", err=True)
        sys.exit(2)
