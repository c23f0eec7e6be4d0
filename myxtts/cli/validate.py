"""`myxtts validate`: prove that this machine is ready for two-device training."""

from __future__ import annotations

import contextlib
from collections import Counter
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from myxtts.cli.output import Debug, load_tensorflow, start_logging

if TYPE_CHECKING:
    from myxtts.checks.validators import Check, Result, Target


class Which(str, Enum):
    """Which checks to run."""

    all = "all"
    isolation = "isolation"
    pipeline = "pipeline"


def validate(
    which: Annotated[
        Which, typer.Option("--check", help="Memory isolation, the pipeline, or both.")
    ] = Which.all,
    data_gpu: Annotated[int, typer.Option(min=0, help="GPU that prepares batches.")] = 0,
    model_gpu: Annotated[int, typer.Option(min=0, help="GPU that trains.")] = 1,
    data_gpu_memory: Annotated[
        int | None, typer.Option(metavar="MB", help="Data limit; default: what fits the card.")
    ] = None,
    model_gpu_memory: Annotated[
        int | None, typer.Option(metavar="MB", help="Model limit; default: what fits the card.")
    ] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Check on two logical CPU devices instead of GPUs.")
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="The acceptance kit: all checks, limits, link speed, profiles and a short run in "
            "every mode, in one results file.",
        ),
    ] = False,
    train_data: Annotated[
        Path | None, typer.Option(help="For --full: your clips instead of the built-in corpus.")
    ] = None,
    output_dir: Annotated[
        Path, typer.Option(help="For --full: where the results are written.")
    ] = Path("acceptance"),
    debug: Debug = False,
) -> None:
    """Check this machine for two-device training; exit code 0 only if every check passed.

    Each check really does what it names: sets devices up, creates a model, copies between the
    devices and compares the bytes, trains a few steps.
    """
    start_logging()
    from myxtts.checks.validators import (
        ISOLATION_CHECKS,
        PIPELINE_CHECKS,
        Target,
        run_checks,
        training_command,
        without_isolation,
    )

    target = Target(
        data_gpu=data_gpu,
        model_gpu=model_gpu,
        data_limit_mb=data_gpu_memory,
        model_limit_mb=model_gpu_memory,
        simulate=simulate,
    )
    if full:
        _accept(target, output_dir, train_data)
        return
    checks: tuple[Check, ...]
    if which is Which.isolation:
        title, checks = "Memory isolation", ISOLATION_CHECKS
    elif which is Which.pipeline:
        title, checks = "Dual-GPU pipeline", PIPELINE_CHECKS
        if data_gpu_memory is None and model_gpu_memory is None and data_gpu != model_gpu:
            target = without_isolation(target)
    else:
        title, checks = "Memory isolation and pipeline", (*ISOLATION_CHECKS, *PIPELINE_CHECKS[1:])
    where = "simulated devices" if simulate else f"GPU {data_gpu} and GPU {model_gpu}"
    typer.echo(f"{title} on {where}")
    with contextlib.suppress(Exception):  # the first check says what is wrong with it
        load_tensorflow()
    results = []
    for result in run_checks(checks, target):
        _show(result)
        results.append(result)
    failed = [result.name for result in results if not result.passed]
    if failed:
        typer.echo(f"\n{len(failed)} of {len(results)} checks did not pass: {', '.join(failed)}")
        raise typer.Exit(1)
    typer.echo("")
    if which is not Which.pipeline:
        typer.echo("System is ready for memory-isolated dual-GPU training!")
        typer.echo(f"Recommended: {training_command(target)}")
    typer.echo("All validation checks passed!")


def _accept(target: Target, folder: Path, train_data: Path | None) -> None:
    from myxtts.checks.acceptance import describe, run_acceptance, write_results

    typer.echo("Every claim, on this machine; takes some minutes, and each part its own process")
    claims = []
    for claim in run_acceptance(target, folder, train_data):
        typer.echo(describe(claim))
        claims.append(claim)
    path = write_results(folder, claims, target)
    counts = Counter(claim.verdict for claim in claims)
    typer.echo("\n" + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    typer.echo(f"To paste: {path}")
    if counts["FAIL"] or counts["not run"]:
        raise typer.Exit(1)


def _show(result: Result) -> None:
    if result.passed is None:
        typer.echo(f"⏭️  {result.name}: NOT RUN")
        typer.echo(f"     {result.detail}")
        return
    mark, word = ("✅", "PASSED") if result.passed else ("❌", "FAILED")
    typer.echo(f"{mark} {result.name}: {word}")
    typer.echo(f"     {result.detail}")
    if result.remedy:
        typer.echo(f"     try: {result.remedy}")
