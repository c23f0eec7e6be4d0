"""Writes settings as the command line that gives them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from myxtts.config.config import XTTSConfig

FLAGS = {
    "data.train_data": "--train-data",
    "data.val_data": "--val-data",
    "data.data_gpu": "--data-gpu",
    "data.model_gpu": "--model-gpu",
    "data.data_gpu_memory": "--data-gpu-memory",
    "data.model_gpu_memory": "--model-gpu-memory",
    "data.pipeline_buffer_size": "--buffer-size",
    "data.prefetch_buffer_size": "--prefetch-buffer-size",
    "data.pipeline_depth": "--pipeline-depth",
    "data.model_start_delay": "--model-start-delay",
    "data.batch_size": "--batch-size",
    "data.num_workers": "--num-workers",
    "data.cache": "--cache",
    "data.max_text_length": "--max-text-length",
    "data.max_mel_frames": "--max-mel-frames",
    "model.size": "--model-size",
    "training.grad_accum": "--grad-accum",
    "training.learning_rate": "--lr",
    "training.optimization_level": "--optimization-level",
}
SWITCHES: dict[str, dict[Any, str]] = {
    "data.enable_memory_isolation": {True: "--enable-memory-isolation"},
    "data.simulate": {True: "--simulate"},
    "data.static_shapes": {"one": "--enable-static-shapes", "off": "--disable-static-shapes"},
    "training.auto_batch": {True: "--auto-batch"},
}
ALWAYS = ("data.batch_size", "model.size")  # said even where they are the default


def flag_for(setting: str, value: Any) -> str:
    """One setting as it is typed, or as it stands in the config file where it has no flag."""
    if setting in SWITCHES and value in SWITCHES[setting]:
        return SWITCHES[setting][value]
    if setting in FLAGS:
        return f"{FLAGS[setting]} {shlex.quote(str(value))}"
    section, name = setting.split(".")
    written = str(value).lower() if isinstance(value, bool) else value
    return f"{name}: {written} under {section}: in the --config file"


def training_command(config: XTTSConfig, *, config_file: str = "") -> str:
    """The command that trains with these settings, on top of a config file where there is one.

    What is the default, or what the file says, is left out.
    """
    words, base = ["python train_main.py"], XTTSConfig()
    if config_file and Path(config_file).is_file():
        words.append(f"--config {shlex.quote(config_file)}")
        base = XTTSConfig.from_yaml(config_file)
    if config.data.train_data is None:
        words.append("--train-data DIR")
    for setting in [*FLAGS, *SWITCHES]:
        section, name = setting.split(".")
        value = getattr(getattr(config, section), name)
        if value != getattr(getattr(base, section), name) or setting in ALWAYS:
            words.append(flag_for(setting, value))
    return " ".join(words)
