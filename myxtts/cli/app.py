"""The `myxtts` command: a module per sub-command, none of which loads TensorFlow on import."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import NoReturn

import typer

from myxtts.cli import output
from myxtts.cli.commands import LazyGroup
from myxtts.errors import MyXTTSError, ReplicaLostError
from myxtts.pipeline import THREAD_PREFIX

SHOWN = 80  # characters of a name

app = typer.Typer(
    name="myxtts",
    cls=LazyGroup,
    help="Train an XTTS-style voice on one or two GPUs, and speak with it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help keeps every flag whole when piped through grep
)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Show the version.")) -> None:
    if version:
        from myxtts import __version__

        typer.echo(f"myxtts {__version__}")
        raise typer.Exit


def main(command: Sequence[str] = ()) -> None:
    """Run a command line; `command` comes before the words the user typed."""
    before = set(threading.enumerate())
    try:
        app(args=[*command, *sys.argv[1:]], prog_name="myxtts")
    except (MyXTTSError, OSError) as error:
        if output.debug_asked:
            traceback.print_exc()
        shown = error if isinstance(error, MyXTTSError) else _of_the_system(error)
        output.echo(f"error: {shown}", err=True)
        if isinstance(shown, ReplicaLostError):
            _leave_at_once(shown.exit_code)  # TensorFlow would wait for the lost one, for seconds
        sys.exit(2)
    finally:
        left = set(threading.enumerate()) - before
        if any(thread.name.startswith(THREAD_PREFIX) for thread in left):
            # It did not end in time, and sits in TensorFlow, out of which the interpreter's end
            # would tear it: that aborts the process, whatever its exit code was to be.
            _leave_at_once(_exit_code(sys.exc_info()[1]))


def _leave_at_once(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # nobody is left to tell
            stream.flush()
    os._exit(code)


def _exit_code(error: BaseException | None) -> int:
    """What Python would exit with."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return int(error is not None)


_SYSTEM_REMEDIES = {
    errno.ENAMETOOLONG: "a shorter name",
    errno.ENOSPC: "free some space there, or name another place",
    errno.EDQUOT: "free some space there, or name another place",
    errno.EACCES: "a place that you may read and write",
    errno.EROFS: "a place that can be written to",
}


def _of_the_system(error: OSError) -> MyXTTSError:
    """What the system refused: a full disk or a name it does not take is no bug of ours."""
    name = "standard output" if error.filename is None else str(error.filename)
    shown = name if len(name) <= SHOWN else f"{name[:SHOWN]}…"
    remedy = _SYSTEM_REMEDIES.get(error.errno or 0, "check it; --debug shows where it happened")
    return MyXTTSError(f"{shown}: {error.strerror or error}", remedy)
