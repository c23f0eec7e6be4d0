"""`myxtts export`: a voice as a small folder to keep or to pass on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from myxtts.cli.output import Debug, echo, start_logging
from myxtts.config.commands import where_programs_are


def export(
    run_dir: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="Run folder, or one of its checkpoints.")
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder to make; an earlier export is replaced.")
    ],
    debug: Debug = False,
) -> None:
    """Write the newest averaged weights of a run with all that is needed to speak from them.

    Safetensors, JSON and a README; nothing is pickled. `synthesize --model` and `train --init-from`
    take the folder.
    """
    start_logging()
    from myxtts.inference.export import export_voice  # late: --help must be quick

    folder = export_voice(run_dir, out)
    size_mb = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
    echo(f"Exported {size_mb:.1f} MB to {out}")
    quoted = shlex.quote(str(out))
    echo(
        f"Next: {where_programs_are()}myxtts synthesize --model {quoted} --text 'Hello.' "
        "--reference FILE.wav --output hello.wav"
    )
