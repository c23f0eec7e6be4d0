"""`myxtts export`: a voice as a small folder to keep or to pass on."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from myxtts.cli.output import Debug, echo, load_tensorflow, start_logging
from myxtts.errors import ConfigError
from myxtts.messages import where_programs_are


class Format(str, Enum):
    """What a voice is written as."""

    safetensors = "safetensors"
    onnx = "onnx"


def export(
    run_dir: Annotated[
        Path,
        typer.Argument(metavar="RUN_DIR", help="Run folder, one of its checkpoints, or base."),
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder to make; an earlier export is replaced.")
    ],
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="safetensors to speak with MyXTTS and to train on; onnx to speak without "
            "TensorFlow (made in half a minute; needs the extra export).",
        ),
    ] = Format.safetensors,
    voice: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="With onnx: a recording of the speaker to keep inside, so that no reference is "
            "needed to speak; repeat it for several.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Write the newest averaged weights of a run with all that is needed to speak from them.

    Safetensors or ONNX graphs, JSON and a README; nothing is pickled. `synthesize --model` and
    `serve` take the folder, and `train --init-from` one of safetensors.
    """
    start_logging()
    if voice and form is not Format.onnx:
        raise ConfigError("Only an ONNX export keeps a voice inside.", "--format onnx with --voice")
    if form is Format.onnx:
        load_tensorflow()
        from myxtts.inference.onnx_export import export_onnx
        from myxtts.pipeline.hardware import HARDWARE

        HARDWARE.hide_gpus()
        folder = export_onnx(run_dir, out, references=voice or None)
    else:
        from myxtts.inference.export import export_voice  # late: --help must be quick

        folder = export_voice(run_dir, out)
    size_mb = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
    echo(f"Exported {size_mb:.1f} MB to {out}")
    quoted = shlex.quote(str(out))
    reference = "" if voice else "--reference FILE.wav "
    echo(
        f"Next: {where_programs_are()}myxtts synthesize --model {quoted} --text 'Hello.' "
        f"{reference}--output hello.wav"
    )
