"""What is asked of the devices, checked before anything looks at the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from myxtts.errors import DeviceError


@dataclass(frozen=True)
class DeviceRequest:
    """What is asked for, with no look at the machine yet."""

    data_gpu: int | None = None
    model_gpu: int | None = None
    isolate: bool = False
    data_limit_mb: int | None = None
    model_limit_mb: int | None = None
    simulate: bool = False
    fallback: str | None = None

    def __post_init__(self) -> None:
        if self.simulate and self.data_gpu is None and self.model_gpu is None:
            object.__setattr__(self, "data_gpu", 0)
            object.__setattr__(self, "model_gpu", 1)


def check_request(request: DeviceRequest) -> None:
    """Refuse what is wrong whatever the machine; needs neither a GPU nor TensorFlow."""
    numbers = {
        "--data-gpu": request.data_gpu,
        "--model-gpu": request.model_gpu,
        "--data-gpu-memory": request.data_limit_mb,
        "--model-gpu-memory": request.model_limit_mb,
    }
    for flag, value in numbers.items():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise DeviceError(f"{flag} is {value!r}.", "give a whole number")
    if (request.data_gpu is None) != (request.model_gpu is None):
        given, missing = ("data", "model") if request.model_gpu is None else ("model", "data")
        raise DeviceError(
            f"--{given}-gpu was given without --{missing}-gpu.",
            "give both to use two GPUs, or neither to run on one",
        )
    if request.isolate and request.data_gpu is None:
        raise DeviceError(
            "Memory isolation needs two roles to keep apart, and no GPU was named for either.",
            "add --data-gpu 0 --model-gpu 1 (the same index twice splits one card)",
        )
    limits_given = (request.data_limit_mb, request.model_limit_mb) != (None, None)
    if limits_given and not request.isolate:
        raise DeviceError(
            "A memory limit was given without memory isolation: without it a GPU's memory grows "
            "with need, and TensorFlow cannot both grow memory and limit it.",
            "add --enable-memory-isolation, or leave out --data-gpu-memory and --model-gpu-memory",
        )
    if request.isolate and not request.simulate and growth_is_forced(os.environ):
        raise DeviceError(
            "TF_FORCE_GPU_ALLOW_GROWTH is set; TensorFlow cannot both grow memory and limit it.",
            "unset TF_FORCE_GPU_ALLOW_GROWTH, or run without --enable-memory-isolation",
        )
    if request.fallback not in (None, "single"):
        raise DeviceError(f"There is no fallback '{request.fallback}'.", "use --fallback single")
    if request.fallback and request.simulate:
        raise DeviceError(
            "--fallback has no meaning with --simulate: simulated devices are always there.",
            "leave out one of them",
        )


def growth_is_forced(environment: Mapping[str, str]) -> bool:
    """Whether the environment makes TensorFlow grow memory whatever limits are set."""
    return environment.get("TF_FORCE_GPU_ALLOW_GROWTH", "").strip().lower() in {"1", "true"}
