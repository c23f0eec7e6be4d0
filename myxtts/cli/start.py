"""What a training would start from, for the command that trains and those that foretell it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from myxtts.cli.output import make_console

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig

log = logging.getLogger(__name__)


def settle_start(settings: XTTSConfig, given: set[str], *, has_gpu: bool | None = None) -> None:
    """From the base voice or from nothing, by how much was recorded; a run that goes on has it.

    Whether there is a GPU is asked of the machine, unless it is planned for another.
    """
    if settings.data.train_data is None:
        return
    from rich.progress import Progress

    from myxtts.config.config import XTTSConfig
    from myxtts.data.prepare import what_is_recorded
    from myxtts.pipeline.hardware import HARDWARE
    from myxtts.training.recipe import Recorded, choose_start, keep_choices

    def measure() -> Recorded:
        with Progress(console=make_console(stderr=True), transient=True) as progress:
            bar = progress.add_task("Reading clips", total=None)
            found = what_is_recorded(
                settings.data,
                on_list=lambda clips: progress.update(bar, total=clips),
                on_clip=lambda: progress.advance(bar),
            )
        return Recorded(*found)

    training = settings.training
    begun = training.checkpoint_dir / "config.yaml"
    if (training.checkpoint_dir / "checkpoints").is_dir() and training.resume != "reset":
        if not begun.is_file():
            return
        first = XTTSConfig.from_yaml(begun)
        said = keep_choices(settings, first, given=given, measure=measure)
    else:
        if has_gpu is None:
            has_gpu = not settings.data.simulate and bool(HARDWARE.cards())
        said = choose_start(settings, given=given, measure=measure, has_gpu=has_gpu)
    for line in said:
        log.info("%s", line)
