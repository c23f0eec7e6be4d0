"""`myxtts train`, also `train_main.py`: settings from flags, a YAML file and defaults."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Annotated

import typer

from myxtts.cli.output import Debug, echo, load_tensorflow, start_logging
from myxtts.cli.setting_flags import (
    ConfigFile,
    Given,
    load_settings,
    named_settings,
    setting_flags,
)
from myxtts.config.fields import GROUPS
from myxtts.errors import ConfigError

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.replicas.cluster import Cluster

log = logging.getLogger(__name__)


@setting_flags(*GROUPS)
def train(
    given: Given,
    config: ConfigFile = None,
    print_config: Annotated[
        bool,
        typer.Option(
            "--print-config",
            help="Show the resulting settings, with what the data decides, and stop.",
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """Train a voice on one device, or on two: one prepares the data, the other trains.

    With --replicas, or several model GPUs, so many processes train it together; on many machines
    TF_CONFIG or srun says who they are.

    Settings come from flags, then from the --config file, then from configs/config.yaml where there
    is one, then from defaults. With --resume and no --config they come from the run folder itself,
    so that the same run goes on.
    """
    start_logging()
    from myxtts.cli.replicas import launch, prepare_replica
    from myxtts.cli.start import settle_start
    from myxtts.config.config import TrainingConfig
    from myxtts.pipeline.devices import check_machine
    from myxtts.pipeline.request import check_request
    from myxtts.replicas.cluster import find_cluster
    from myxtts.replicas.sharing import replicas_asked

    if given.get("training.resume") == "require" and config is None:
        run = given.get("training.checkpoint_dir", TrainingConfig().checkpoint_dir)
        config = run / "config.yaml" if (run / "config.yaml").is_file() else None
        given["training.checkpoint_dir"] = run  # it may have been moved since
    settings = load_settings(config, given)
    cluster = find_cluster()
    replicas = 1
    if cluster is not None:
        settings = prepare_replica(settings, cluster)
    else:
        replicas = replicas_asked(settings)
    if replicas == 1:
        check_request(settings.data.device_request())
    if print_config:
        data = settings.data.train_data
        if data is not None and data.exists():
            settle_start(settings, named_settings(config, given))
        elif data is not None:
            log.warning("%s is not here: what training chooses by its recordings is missing", data)
        echo(settings.to_yaml().rstrip("\n"))
        return
    _check_data(settings)
    if replicas > 1:
        raise typer.Exit(launch(settings, replicas))
    check_machine(settings.data.device_request())
    settle_start(settings, named_settings(config, given))
    _train(settings, cluster)


def _check_data(settings: XTTSConfig) -> None:
    for name, folder in (("train", settings.data.train_data), ("val", settings.data.val_data)):
        if folder is None and name == "train" and settings.training.resume == "require":
            raise ConfigError(
                f"--resume was given, but {settings.training.checkpoint_dir} holds no config.yaml, "
                "which would name the training data.",
                "check --checkpoint-dir, or give --train-data DIR too",
            )
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


def _train(settings: XTTSConfig, cluster: Cluster | None) -> None:
    if settings.training.wandb:
        from myxtts.runs.sinks import import_wandb

        import_wandb()  # before anything that takes time
    load_tensorflow()
    from myxtts.cli.next_steps import next_steps
    from myxtts.pages.report import report_at_the_end
    from myxtts.training import make_trainer
    from myxtts.training.stopping import mute_closed_outputs

    with make_trainer(settings, cluster=cluster) as trainer, contextlib.ExitStack() as reports:
        if trainer.replicas.is_first:
            reports.enter_context(report_at_the_end(trainer.run.path))
        result = trainer.train()
    mute_closed_outputs()  # nobody may be there any more
    if not trainer.replicas.is_first:
        raise typer.Exit(128 + result["stopped_by"] if result["stopped_by"] is not None else 0)
    if result["stopped_by"] is not None:
        echo(f"Stopped at step {result['steps']}; the same command goes on from there.")
        raise typer.Exit(128 + result["stopped_by"])
    echo(f"Trained {result['steps']} steps. Everything is in {trainer.run.path}")
    for line in next_steps(trainer):
        echo(line)
