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
    from rich.progress import Progress

    from myxtts.config.config import XTTSConfig
    from myxtts.data.prepare import what_is_recorded
    from myxtts.pipeline.hardware import HARDWARE
    from myxtts.training.recipe import Recorded, choose_start, keep_choices

    training = settings.training
    goes_on = (training.checkpoint_dir / "checkpoints").is_dir() and training.resume != "reset"
    begun = training.checkpoint_dir / "config.yaml"
    if goes_on and begun.is_file():
        keep_choices(settings, XTTSConfig.from_yaml(begun), given=given)
    if goes_on or settings.data.train_data is None:
        return

    def measure() -> Recorded:
        with Progress(console=make_console(stderr=True), transient=True) as progress:
            bar = progress.add_task("Reading clips", total=None)
            found = what_is_recorded(
                settings.data,
                on_list=lambda clips: progress.update(bar, total=clips),
                on_clip=lambda: progress.advance(bar),
            )
        return Recorded(*found)

    if has_gpu is None:
        has_gpu = not settings.data.simulate and bool(HARDWARE.cards())
    for line in choose_start(settings, given=given, measure=measure, has_gpu=has_gpu):
        log.info("%s", line)
