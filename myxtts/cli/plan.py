"""`myxtts plan`: what fits a card, what if the settings were others, and does the advice hold?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from myxtts.cli.output import Debug, echo, load_tensorflow, quiet_native_output, start_logging
from myxtts.cli.setting_flags import (
    ConfigFile,
    Given,
    load_settings,
    named_settings,
    setting_flags,
)
from myxtts.errors import ConfigError

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.profiling.measurements import Change, Profile


@setting_flags("Data", "Batches", "Model", "Devices", "Buffers")
def plan(
    given: Given,
    config: ConfigFile = None,
    gpu_memory: Annotated[
        int | None, typer.Option(min=1, metavar="MB", help="Memory of each card; plan for it.")
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="Advise from a profile: myxtts profile --json FILE."
        ),
    ] = None,
    what_if: Annotated[
        str | None,
        typer.Option(metavar="depth=4,num_workers=8", help="Predict the rate with other settings."),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Apply the advice, measure again, compare (needs data)."),
    ] = False,
    num_steps: Annotated[
        int, typer.Option(min=4, help="With --verify: steps of each measurement.")
    ] = 60,
    cards: Annotated[
        bool,
        typer.Option(
            "--cards",
            help="Estimate the most steps a second on common cards, with the arithmetic "
            "(takes some 20 seconds).",
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """Plan memory for cards of a size, ask a profile what-if, or put its advice to the test.

    With --gpu-memory or --cards it needs neither data nor a GPU; with --train-data it plans what
    myxtts train would do with it. Without the first two the cards of this machine count.
    """
    start_logging()
    if verify:
        _verify(config, given, profile, num_steps)
    elif profile is not None:
        _advise(profile, what_if)
    elif what_if is not None:
        raise ConfigError(
            "--what-if needs a profile to start from.",
            "make one: myxtts profile --json profile.json, then --profile profile.json",
        )
    else:
        settings = plan_settings(config, given)
        if not cards or gpu_memory is not None:
            settings = _plan_memory(settings, gpu_memory)
        if cards:
            _estimate_speed(settings)


def plan_settings(config: Path | None, given: Given) -> XTTSConfig:
    """What to plan: with data that lies here, what `train` would choose for it on a GPU."""
    from myxtts.cli.start import settle_start

    settings = load_settings(config, given)
    if settings.data.train_data is not None and settings.data.train_data.exists():
        has_gpu = not settings.data.simulate
        settle_start(settings, named_settings(config, given), has_gpu=has_gpu)
    return settings


def _plan_memory(settings: XTTSConfig, gpu_memory: int | None) -> XTTSConfig:
    """Print the plan; the settings with it in their places."""
    from myxtts.pipeline.devices import machine_cards
    from myxtts.profiling.describe import describe_plan
    from myxtts.profiling.planner import plan_memory

    if gpu_memory is None:
        cards = machine_cards(simulate=settings.data.simulate)
        if not cards:
            raise ConfigError(
                "There is no GPU here to plan for.",
                "say what the cards will have, for example --gpu-memory 12288",
            )
        gpu_memory = min(card.total_mb for card in cards)
    planned = plan_memory(settings, gpu_memory_mb=gpu_memory)
    for line in describe_plan(planned):
        echo(line)
    if not planned.fits:
        raise typer.Exit(1)
    return planned.config


def _estimate_speed(settings: XTTSConfig) -> None:
    """What common cards could do at the most, from the graphs that a run would trace."""
    from myxtts.pipeline.hardware import HARDWARE
    from myxtts.training.batch_fit import asked_rows
    from myxtts.training.model_memory import BatchShape

    def tell(sentence: str) -> None:
        echo(f"... {sentence}", err=True)

    tell("loading TensorFlow")
    load_tensorflow()
    with quiet_native_output():
        HARDWARE.hide_gpus()  # graphs are traced on the host, and no card is touched
    from myxtts.profiling.describe_speed import describe_speed
    from myxtts.profiling.traced_work import trace_work

    data, half = settings.data, settings.training.mixed_precision
    shape = BatchShape(asked_rows(settings), data.max_mel_frames, data.max_text_length)
    work = trace_work(settings, shape, half=half, tell=tell)
    for line in describe_speed(settings, shape, work, half=half):
        echo(line)


def _advise(path: Path, what_if: str | None) -> None:
    from myxtts.profiling.advisor import advise
    from myxtts.profiling.describe import describe_advice
    from myxtts.profiling.measurements import read_profile

    measured = read_profile(path)
    if what_if is None:
        for line in describe_advice(advise(measured)):
            echo(line)
        return
    _show_what_if(measured, what_if)


def _show_what_if(measured: Profile, what_if: str) -> None:
    from myxtts.config.commands import training_command
    from myxtts.profiling.what_if import layout_of, parse_what_if, predict, with_settings

    asked = parse_what_if(what_if)
    changed = with_settings(measured.config, asked)
    layout = layout_of(measured)
    now = predict(measured, measured.config, layout=layout)
    then = predict(measured, changed, layout=layout)
    echo(f"{'':24s}{'steps/s':>9s}{'model busy':>12s}{'stall':>8s}{'variation':>11s}")
    together = measured.together
    busy = together.stages["train"].busy_share
    echo(
        f"{'as measured':24s}{together.rate:9.2f}{busy:12.0%}{together.stall_share:8.0%}"
        f"{together.variation:11.0%}"
    )
    for name, prediction in (("the same, simulated", now), (what_if, then)):
        echo(
            f"{name:24s}{prediction.rate:9.2f}{prediction.busy_share['train']:12.0%}"
            f"{prediction.stall_share:8.0%}{prediction.variation:11.0%}"
        )
    echo(f"{then.rate / now.rate:.2f} times the rate, predicted; bottleneck {then.bottleneck}")
    echo(f"Command: {training_command(changed, config_file=measured.config_file)}")


def _verify(config: Path | None, given: Given, profile: Path | None, num_steps: int) -> None:
    """Measure, apply what is foretold, measure again, and compare."""
    from myxtts.cli.profile import measuring, profile_settings, show_profile
    from myxtts.profiling.advisor import advise
    from myxtts.profiling.measurements import read_profile
    from myxtts.profiling.what_if import with_settings

    if profile is not None:
        before = read_profile(profile)
        settings, changes = before.config, _to_verify(before)
    else:
        settings = profile_settings(config, given)
    with measuring(settings, config) as measure:
        if profile is None:
            before = measure(settings, num_steps=num_steps)
            show_profile(before)
            changes = _to_verify(before)
        applied = {name: value for change in changes for name, value in change.settings.items()}
        after = measure(with_settings(settings, applied), num_steps=num_steps)
    predicted = advise(before).predicted_rate
    echo("\nApplied: " + "; ".join(change.flag for change in changes))
    echo(
        f"Predicted {predicted:.2f} steps/s, measured {after.together.rate:.2f} "
        f"({after.together.rate / predicted - 1:+.1%}); before {before.together.rate:.2f}"
    )


def _to_verify(before: Profile) -> tuple[Change, ...]:
    from myxtts.profiling.advisor import advise, foretold

    changes = foretold(advise(before).changes)
    if not changes:
        echo("\nNothing to verify: no change is predicted to make it faster.")
        raise typer.Exit
    return changes
