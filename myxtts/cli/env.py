"""`myxtts env`: what to paste into a bug report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from myxtts.cli.output import Debug, echo, load_tensorflow


def env(
    run: Annotated[
        Path | None,
        typer.Option(metavar="RUN_DIR", help="Add the settings of this run that are not defaults."),
    ] = None,
    tensorflow: Annotated[
        bool,
        typer.Option(
            "--tensorflow/--no-tensorflow",
            help="Ask TensorFlow which GPUs it sees; takes a few seconds.",
        ),
    ] = True,
    debug: Debug = False,
) -> None:
    """Print versions, devices and settings as Markdown, ready to be pasted into an issue.

    The home folder is written as ~, and only variables that concern GPUs or MyXTTS are shown.
    """
    from myxtts.checks.environment import as_markdown, describe_environment

    ask = _gpus_of_tensorflow if tensorflow else lambda: "not asked"
    echo(as_markdown(describe_environment(ask, run=run)))


def _gpus_of_tensorflow() -> str:
    try:
        load_tensorflow()
        import tensorflow as tf

        from myxtts.pipeline.hardware import HARDWARE

        cuda = tf.sysconfig.get_build_info().get("cuda_version")
        built = f"built for CUDA {cuda}" if cuda else "built without CUDA"
        return f"{HARDWARE.tensorflow_gpus()} ({built})"
    except Exception as error:  # a broken installation is what such reports are about
        return f"TensorFlow does not load ({type(error).__name__}: {error})"
