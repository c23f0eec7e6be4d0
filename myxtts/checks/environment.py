"""What a bug report needs to say of a machine: versions, devices, settings."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from myxtts.pipeline.hardware import HARDWARE, Hardware

PACKAGES = (
    "myxtts",
    "tensorflow",
    "keras",
    "numpy",
    "pydantic",
    "typer",
    "soundfile",
    "soxr",
    "safetensors",
    "nvidia-ml-py",
    "espeakng-loader",
    "pocketsphinx",
    "tensorboard",
    "wandb",
)
# By name where a prefix would catch secrets: NVIDIA_API_KEY, Terraform's TF_VAR_db_password.
VARIABLES = (
    *("CUDA_", "MYXTTS_", "OMP_", "LD_LIBRARY_PATH", "NVIDIA_VISIBLE_", "NVIDIA_DRIVER_"),
    *("TF_CPP_", "TF_CUDNN_", "TF_DETERMINISTIC_OPS", "TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_"),
    *("TF_GPU_", "TF_NUM_", "TF_USE_LEGACY_KERAS", "TF_XLA_FLAGS", "XLA_FLAGS"),
)
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))

Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, name by name."""

    title: str
    rows: Rows


def describe_environment(
    tensorflow_gpus: Callable[[], str], *, run: Path | None = None, hardware: Hardware = HARDWARE
) -> list[Section]:
    """All of it; `tensorflow_gpus` says which GPUs TensorFlow sees, or why that is not known.

    With a run folder also which of its settings are not the defaults.
    """
    # First: loading TensorFlow adds some of its own.
    variables = tuple(pair for pair in sorted(os.environ.items()) if pair[0].startswith(VARIABLES))
    sections = [
        Section("Versions", (("python", platform.python_version()), *map(_version, PACKAGES))),
        Section("Machine", _machine()),
        Section("GPUs", (*_cards(hardware), ("seen by TensorFlow", tensorflow_gpus()))),
        Section("Environment", variables or (("variables", "none of interest is set"),)),
    ]
    if run is not None:
        sections.append(Section("Settings of the run", _changed_settings(run)))
    return sections


def as_markdown(sections: list[Section]) -> str:
    """Ready to be pasted into an issue; who the home folder belongs to is nobody's business."""
    blocks = []
    for section in sections:
        rows = [f"- {name}: {' '.join(value.split())}" for name, value in section.rows]
        blocks.append("\n".join([f"### {section.title}", *rows]))
    text, home = "\n\n".join(blocks), str(Path.home())
    return text if home == "/" else text.replace(home, "~")


def _version(package: str) -> tuple[str, str]:
    try:
        return package, importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return package, "not installed"


def _machine() -> Rows:
    memory = psutil.virtual_memory()
    in_container = any(mark.exists() for mark in CONTAINER_MARKS)
    return (
        ("system", platform.platform()),
        ("WSL", "yes" if "microsoft" in platform.release().lower() else "no"),
        ("container", "yes" if in_container else "none found"),
        ("cores to use", str(len(os.sched_getaffinity(0)))),
        ("memory", f"{memory.total / 2**30:.1f} GB, {memory.available / 2**30:.1f} GB free"),
    )


def _cards(hardware: Hardware) -> Rows:
    cards = hardware.cards()
    if not cards:
        return (("NVIDIA", hardware.missing_reason),)
    rows = [("driver", hardware.driver_version() or "does not say")]
    rows += [
        (f"GPU {card.index}", f"{card.name}, {card.total_mb} MB, {card.free_mb} MB free")
        for card in cards
    ]
    if len(cards) > 1:
        ways = {True: "peer to peer", False: "through the host's memory", None: "NVML does not say"}
        rows.append(("between GPU 0 and 1", ways[hardware.peer_to_peer(0, 1)]))
    return tuple(rows)


def _changed_settings(run: Path) -> Rows:
    from myxtts.config.config import XTTSConfig

    settings = XTTSConfig.from_yaml(run / "config.yaml").model_dump(mode="json")
    defaults = XTTSConfig().model_dump(mode="json")
    return tuple(
        (f"{section}.{name}", str(value))
        for section, values in settings.items()
        for name, value in values.items()
        if value != defaults[section][name]
    ) or (("all", "the defaults"),)
