"""Which numbers the model computes with: what was asked, where the device has it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import keras

from myxtts.pipeline.devices import DevicePlan
from myxtts.pipeline.hardware import HARDWARE, Hardware

log = logging.getLogger(__name__)

BFLOAT16_CAPABILITY = (8, 0)  # Ampere
FLOAT16_CAPABILITY = (7, 0)  # Volta: the first with tensor cores


@contextlib.contextmanager
def made_with(policy: str) -> Iterator[None]:
    """Within, layers are made that follow a Keras policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def choose_precision(plan: DevicePlan, *, mixed: bool, hardware: Hardware = HARDWARE) -> str:
    """The Keras policy to train with, said in one line where it is not what was asked for."""
    if not mixed:
        return "float32"
    if not plan.model_device.startswith("/GPU"):
        log.info("Mixed precision: none on a CPU, which trains in float32%s", plan.note)
        return "float32"
    capability = hardware.compute_capability(plan.model_device)
    if capability >= BFLOAT16_CAPABILITY:
        log.info("Mixed precision: bfloat16")
        return "mixed_bfloat16"
    if capability >= FLOAT16_CAPABILITY:
        log.info("Mixed precision: float16 with loss scaling")
        return "mixed_float16"
    log.warning(
        "Mixed precision is not used: this GPU (compute capability %d.%d) is no faster with it; "
        "training in float32",
        *capability,
    )
    return "float32"
