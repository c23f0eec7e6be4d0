"""`myxtts validate`: prove that this machine is ready for two-device training."""

from __future__ import annotations

import contextlib
from collections import Counter
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from myxtts.cli.output import Debug, echo, load_tensorflow, start_logging
from myxtts.cli.setting_flags import Given, load_settings, setting_flags

if TYPE_CHECKING:
    from myxtts.checks.validators import Result, Target


DEFAULTS: Given = {"data.data_gpu": 0, "data.model_gpu": 1, "data.enable_memory_isolation": True}
SOAK_MINUTES = 30.0
ISOLATION = ("data.enable_memory_isolation", "data.data_gpu_memory", "data.model_gpu_memory")


class Which(str, Enum):
    """Which checks to run."""

    all = "all"
    isolation = "isolation"
    pipeline = "pipeline"


@setting_flags("Devices", without=("data.fallback",))
def validate(
    given: Given,
    which: Annotated[
        Which, typer.Option("--check", help="Memory isolation, the pipeline, or both.")
    ] = Which.all,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="The acceptance kit: all checks, limits, link speed, profiles and a short run in "
            "every mode, in one results file.",
        ),
    ] = False,
    train_data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="For --full: your clips instead of the built-in corpus."),
    ] = None,
    output_dir: Annotated[
        Path, typer.Option(help="For --full: where the results are written.")
    ] = Path("acceptance"),
    soak_minutes: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES",
            min=0.0,
            max=10_000.0,
            help="For --full: how long the last run trains. 30 on GPUs, 0 with --simulate.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Check this machine for two-device training; exit code 0 only if every check passed.

    GPU 0 prepares batches and GPU 1 trains, unless said otherwise. Each check really does what it
    names: sets devices up, creates a model, copies between the devices and compares the bytes,
    trains a few steps.
    """
    start_logging()
    from myxtts.checks.validators import (
        ISOLATION_CHECKS,
        PIPELINE_CHECKS,
        Target,
        run_checks,
        without_isolation,
    )

    target = Target.of(load_settings(None, {**DEFAULTS, **given}).data)
    if full:
        if soak_minutes is None:
            soak_minutes = 0.0 if target.simulate else SOAK_MINUTES
        _accept(target, output_dir, train_data, soak_minutes)
        return
    title, checks = {
        Which.isolation: ("Memory isolation", ISOLATION_CHECKS),
        Which.pipeline: ("Dual-GPU pipeline", PIPELINE_CHECKS),
        Which.all: ("Memory isolation and pipeline", (*ISOLATION_CHECKS, *PIPELINE_CHECKS[1:])),
    }[which]
    two = target.settings.data_gpu != target.settings.model_gpu
    if which is Which.pipeline and two and not any(name in given for name in ISOLATION):
        target = without_isolation(target)
    gpus = f"GPU {target.settings.data_gpu} and GPU {target.settings.model_gpu}"
    where = "simulated devices" if target.simulate else gpus
    echo(f"{title} on {where}")
    with contextlib.suppress(Exception):  # the first check says what is wrong with it
        load_tensorflow()
    results = []
    for result in run_checks(checks, target):
        _show(result)
        results.append(result)
    _conclude(results, target)


def _conclude(results: list[Result], target: Target) -> None:
    """What was proved, and what was not; exit code 1 unless everything passed."""
    from myxtts.checks.validators import recommended_batch, training_command

    failed = [result.name for result in results if result.passed is False]
    not_run = [result.name for result in results if result.passed is None]
    if failed:
        echo(f"\n{len(failed)} of {len(results)} checks failed: {', '.join(failed)}")
        if not_run:
            echo(f"Not run because of it: {', '.join(not_run)}")
        raise typer.Exit(1)
    echo("")
    isolated = target.settings.enable_memory_isolation
    if target.simulate:
        echo(
            "Proved on simulated devices. Not proved, because it takes GPUs: that memory limits "
            "hold, that the cards are found in order, and how fast it is."
        )
    elif isolated:
        echo("System is ready for memory-isolated dual-GPU training!")
    if isolated:
        echo(f"Recommended: {training_command(target)}")
        if (fit := recommended_batch(target)) is not None:
            echo(f"Batch size {fit.batch}: {fit.beside_the_table}")
    echo("All validation checks passed!")


def _accept(target: Target, folder: Path, train_data: Path | None, soak_minutes: float) -> None:
    from myxtts.checks.acceptance import describe, run_acceptance, write_results

    wait = f", the last one {soak_minutes:g}" if soak_minutes else ""
    echo(f"Every claim, on this machine; takes some minutes{wait}, and each part its own process")
    claims = []
    for claim in run_acceptance(target, folder, train_data, soak_minutes=soak_minutes):
        echo(describe(claim))
        claims.append(claim)
    path = write_results(folder, claims, target)
    counts = Counter(claim.verdict for claim in claims)
    echo("\n" + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    echo(f"To paste: {path}")
    if counts["FAIL"] or counts["not run"]:
        raise typer.Exit(1)


def _show(result: Result) -> None:
    if result.passed is None:
        echo(f"⏭️  {result.name}: NOT RUN")
        echo(f"     {result.detail}")
        return
    mark, word = ("✅", "PASSED") if result.passed else ("❌", "FAILED")
    echo(f"{mark} {result.name}: {word}")
    echo(f"     {result.detail}")
    if result.remedy:
        echo(f"     try: {result.remedy}")
