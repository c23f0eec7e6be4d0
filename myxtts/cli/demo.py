"""`myxtts demo`: the two-device pipeline at work on this machine's CPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from myxtts.cli.output import Debug, load_tensorflow, start_logging
from myxtts.errors import MyXTTSError

if TYPE_CHECKING:
    from myxtts.pipeline.telemetry import PipelineStats


def demo(
    steps: Annotated[int, typer.Option(min=10, help="Training steps.")] = 200,
    batch_size: Annotated[int, typer.Option(min=1, help="Clips in a batch.")] = 16,
    output_dir: Annotated[Path, typer.Option(help="Where the trace is written.")] = Path("demo"),
    debug: Debug = False,
) -> None:
    """Run the memory-isolated pipeline on two simulated devices, with a small model and hums.

    One logical CPU device turns waveforms into log-mels while the other trains on the batches
    before; at the end it says where the time went.
    """
    start_logging()
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MyXTTSError(
            f"The output folder {output_dir} cannot be made: {error}", "give another --output-dir"
        ) from error
    load_tensorflow()
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from myxtts.config.config import DataConfig, TrainingConfig, XTTSConfig
    from myxtts.observe.probe import ProbeModel, log_mels, synthetic_waveforms
    from myxtts.training.memory_isolated_trainer import MemoryIsolatedDualGPUTrainer

    class DemoTrainer(MemoryIsolatedDualGPUTrainer):
        def _preprocess_on_data_gpu(self, batch: Any) -> Any:
            return log_mels(batch)

    config = XTTSConfig(
        data=DataConfig(batch_size=batch_size),
        training=TrainingConfig(optimization_level="basic", learning_rate=2e-3),
    )
    trainer = DemoTrainer(config, 0, 1, None, None, model=ProbeModel, simulate=True)
    console = Console()
    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} steps, loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
    )
    losses: list[float] = []
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("training", total=steps, loss=float("nan"))

        def show(step: int, values: Any) -> None:
            if step % 10 == 0 or step == 1:
                losses.append(float(values["loss"]))
                progress.update(bar, completed=step, loss=losses[-1])

        result = trainer.train(
            synthetic_waveforms(steps, batch_size=batch_size), epochs=1, on_step=show
        )
    stats: PipelineStats = result["stats"]
    trace = output_dir / "trace.json"
    result["telemetry"].write_trace(trace)
    _report(stats, losses, console)
    console.print(f"\nTimeline: {trace} (open it in ui.perfetto.dev or chrome://tracing)")
    console.print("Next: myxtts validate --simulate, or myxtts validate on a machine with two GPUs")


def _report(stats: PipelineStats, losses: list[float], console: Any) -> None:
    from rich.table import Table

    table = Table(title="Where the time went (two simulated devices on the CPU, no GPU measured)")
    for heading in ("stage", "busy", "waiting for input", "waiting for room"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    for name, stage in stats.stages.items():
        whole = stage.busy_s + stage.waiting_input_s + stage.waiting_room_s or 1.0
        shares = (stage.busy_s, stage.waiting_input_s, stage.waiting_room_s)
        table.add_row(name, *(f"{share / whole:.0%}" for share in shares))
    console.print(table)
    variation = "" if stats.variation is None else f", step time varies by {stats.variation:.0%}"
    console.print(
        f"{stats.rate:.1f} steps/s{variation}; loss {losses[0]:.3f} → {losses[-1]:.3f}; "
        f"the slowest stage is '{stats.bottleneck}'"
    )
