"""`myxtts train`, also `train_main.py`: settings from flags, a YAML file and defaults."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from myxtts.cli.output import Debug, quiet_native_output, start_logging
from myxtts.errors import ConfigError

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig


def train(
    train_data: Annotated[
        Path | None, typer.Option(help="Folder of training clips: metadata.csv and wavs/.")
    ] = None,
    val_data: Annotated[
        Path | None,
        typer.Option(help="Folder of validation clips; default: a share of the training clips."),
    ] = None,
    data_gpu: Annotated[
        int | None, typer.Option(help="GPU that prepares batches; needs --model-gpu too.")
    ] = None,
    model_gpu: Annotated[
        int | None, typer.Option(help="GPU that trains; needs --data-gpu too.")
    ] = None,
    enable_memory_isolation: Annotated[
        bool | None,
        typer.Option("--enable-memory-isolation", help="Give each GPU a hard memory limit."),
    ] = None,
    data_gpu_memory: Annotated[
        int | None, typer.Option(metavar="MB", help="Limit of the data GPU; default: planned.")
    ] = None,
    model_gpu_memory: Annotated[
        int | None, typer.Option(metavar="MB", help="Limit of the model GPU; default: planned.")
    ] = None,
    simulate: Annotated[
        bool | None,
        typer.Option("--simulate", help="Two logical CPU devices stand in for two GPUs."),
    ] = None,
    fallback: Annotated[
        str | None,
        typer.Option(metavar="single", help="What may run instead when two GPUs cannot be had."),
    ] = None,
    buffer_size: Annotated[
        int | None,
        typer.Option(help="Batches read ahead on the host (50); with two devices half of it."),
    ] = None,
    prefetch_buffer_size: Annotated[
        int | None, typer.Option(help="Processed batches waiting on the data device (4).")
    ] = None,
    pipeline_depth: Annotated[
        int | None, typer.Option(help="Batches ready on the model device (3: triple buffering).")
    ] = None,
    model_start_delay: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Longest wait for full buffers at the start (2.0)."),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Clips in a batch (16).")] = None,
    grad_accum: Annotated[
        int | None, typer.Option(help="Batches whose gradients make one update (1).")
    ] = None,
    auto_batch: Annotated[
        bool | None,
        typer.Option("--auto-batch", help="On out-of-memory halve the batch and go on."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data (100).")] = None,
    max_steps: Annotated[
        int | None, typer.Option(help="Stop after this many updates, whatever --epochs says.")
    ] = None,
    num_workers: Annotated[int | None, typer.Option(help="Most files read at once (16).")] = None,
    cache: Annotated[
        str | None, typer.Option(metavar="memory|disk", help="Keep decoded clips there.")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate (0.001).")] = None,
    model_size: Annotated[
        str | None, typer.Option(metavar="tiny|small|normal|big", help="Size of the network.")
    ] = None,
    optimization_level: Annotated[
        str | None,
        typer.Option(
            metavar="basic|enhanced|experimental",
            help="float32 without XLA; XLA and mixed precision; or what is not proven yet too.",
        ),
    ] = None,
    static_shapes: Annotated[
        bool | None,
        typer.Option(
            "--enable-static-shapes/--disable-static-shapes",
            help="One fixed batch shape; or each batch's own length, which retraces. "
            "Default: a few fixed shapes.",
        ),
    ] = None,
    max_text_length: Annotated[
        int | None, typer.Option(help="Longest text in tokens (256).")
    ] = None,
    max_mel_frames: Annotated[
        int | None, typer.Option(help="Longest clip in mel frames (1024, about 12 s).")
    ] = None,
    checkpoint_dir: Annotated[Path | None, typer.Option(help="The run folder.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Insist on going on from a checkpoint.")
    ] = False,
    reset_training: Annotated[
        bool, typer.Option("--reset-training", help="Start anew; the old run is kept aside.")
    ] = False,
    init_from: Annotated[
        Path | None, typer.Option(help="Run or export whose weights to start from.")
    ] = None,
    freeze: Annotated[
        str | None,
        typer.Option(
            metavar="PART,PART",
            help="Keep these parts as they are: encoder, reference, means, duration, pitch, "
            "decoder.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="Settings; flags win over them.")
    ] = None,
    tensorboard_log_dir: Annotated[Path | None, typer.Option(help="TensorBoard's folder.")] = None,
    wandb: Annotated[
        bool | None, typer.Option("--wandb", help="Log to Weights & Biases too.")
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Show the resulting settings and stop.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Train a voice on one device, or on two: one prepares the data, the other trains.

    Settings come from flags, then from the --config file, then from defaults. With --resume and no
    --config they come from the run folder itself, so that the same run goes on.
    """
    start_logging()
    if resume and reset_training:
        raise ConfigError(
            "--resume and --reset-training contradict each other.", "give one of them"
        )
    overrides = {
        "data.train_data": train_data,
        "data.val_data": val_data,
        "data.data_gpu": data_gpu,
        "data.model_gpu": model_gpu,
        "data.enable_memory_isolation": enable_memory_isolation,
        "data.data_gpu_memory": data_gpu_memory,
        "data.model_gpu_memory": model_gpu_memory,
        "data.simulate": simulate,
        "data.fallback": fallback,
        "data.pipeline_buffer_size": buffer_size,
        "data.prefetch_buffer_size": prefetch_buffer_size,
        "data.pipeline_depth": pipeline_depth,
        "data.model_start_delay": model_start_delay,
        "data.batch_size": batch_size,
        "data.num_workers": num_workers,
        "data.cache": cache,
        "data.max_text_length": max_text_length,
        "data.max_mel_frames": max_mel_frames,
        "data.static_shapes": {None: None, True: "one", False: "off"}[static_shapes],
        "model.size": model_size,
        "training.learning_rate": lr,
        "training.grad_accum": grad_accum,
        "training.auto_batch": auto_batch,
        "training.epochs": epochs,
        "training.max_steps": max_steps,
        "training.optimization_level": optimization_level,
        "training.checkpoint_dir": checkpoint_dir,
        "training.resume": "require" if resume else "reset" if reset_training else None,
        "training.init_from": init_from,
        "training.freeze": None if freeze is None else freeze.replace(" ", "").split(","),
        "training.tensorboard_log_dir": tensorboard_log_dir,
        "training.wandb": wandb,
    }
    given = {name: value for name, value in overrides.items() if value is not None}
    from myxtts.config.config import TrainingConfig, load_config  # late: --help must be quick
    from myxtts.pipeline.request import check_request

    if resume and config is None:
        run = checkpoint_dir or TrainingConfig().checkpoint_dir
        config = run / "config.yaml" if (run / "config.yaml").is_file() else None
        given["training.checkpoint_dir"] = run  # it may have been moved since
    settings = load_config(config, given)
    check_request(settings.data.device_request())
    if print_config:
        typer.echo(settings.to_yaml(), nl=False)
        return
    _check_data(settings)
    _train(settings)


def _check_data(settings: XTTSConfig) -> None:
    for name, folder in (("train", settings.data.train_data), ("val", settings.data.val_data)):
        if folder is None and name == "train":
            raise ConfigError(
                "There is no training data.",
                "give --train-data DIR, or set data.train_data in the --config file, or try it "
                "without data: myxtts demo",
            )
        if folder is not None and not folder.exists():
            raise ConfigError(
                f"The data folder {folder} does not exist.",
                f"check the path given with --{name}-data",
            )


def _train(settings: XTTSConfig) -> None:
    with quiet_native_output():
        from myxtts.training import make_trainer
    from myxtts.pages.report import report_at_the_end

    with make_trainer(settings) as trainer, report_at_the_end(trainer.run.path):
        result = trainer.train()
    if result["stopped_by"] is not None:
        typer.echo(f"Stopped at step {result['steps']}; the same command goes on from there.")
        raise typer.Exit(128 + result["stopped_by"])
    typer.echo(f"Trained {result['steps']} steps. Everything is in {trainer.run.path}")
