"""What commands print through: one console, one log format, one way to show an error."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from myxtts.errors import MyXTTSError
from myxtts.messages import harmless
from myxtts.utils.commons import setup_logging

if TYPE_CHECKING:
    from rich.console import Console

debug_asked = False


def _remember_debug(value: bool) -> bool:
    global debug_asked
    debug_asked = debug_asked or value
    return value


Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        callback=_remember_debug,
        is_eager=True,
        help="Show tracebacks and TensorFlow's own messages.",
    ),
]


def echo(text: object = "", *, err: bool = False) -> None:
    """Print a message; names and texts from elsewhere in it cannot steer the terminal."""
    typer.echo(harmless(text, lines=True), err=err)


def write_text(path: Path, text: str) -> None:
    """Write a file, or say why it cannot be."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        problem = f"{path} cannot be written: {error}"
        raise MyXTTSError(problem, "give a file in a folder that exists") from error


def make_console(*, stderr: bool = False) -> Console:
    """A console to which `[bold]` and `:smile:` are text: file names may hold either."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def start_logging() -> None:
    """Log lines as people grep for them: whole, on standard error, never wrapped."""
    setup_logging(logging.DEBUG if debug_asked else logging.INFO)


@contextlib.contextmanager
def quiet_native_output() -> Iterator[None]:
    """Hold back what TensorFlow's C++ side prints while it loads; shown if loading fails.

    Its first lines come before it reads any setting, so nothing else silences them.
    """
    if debug_asked:
        yield
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(saved, 2)
            held.seek(0)
            sys.stderr.write(held.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)


def load_tensorflow() -> None:
    """Import TensorFlow once, quietly; devices are configured afterwards, by the plan.

    With real GPUs call it after `configure_devices` has ordered them: CUDA reads the order once,
    but only when TensorFlow first lists its devices, which importing does not do.
    """
    with quiet_native_output():
        import tensorflow  # noqa: F401
    if not debug_asked:
        logging.getLogger("tensorflow").addFilter(_is_no_guess_at_retracing)


def _is_no_guess_at_retracing(record: logging.LogRecord) -> bool:
    """TensorFlow takes several planned shapes, each traced once, for a fault; `profile` counts."""
    return "retracing" not in record.getMessage()
