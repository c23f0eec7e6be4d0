"""What training changes in the whole process beside its devices: here, and nowhere else."""

from __future__ import annotations

import contextlib
import ctypes
import logging

from myxtts.pipeline.devices import DevicePlan
from myxtts.pipeline.hardware import HARDWARE, Hardware

log = logging.getLogger(__name__)

# Names and numbers of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
_NEVER = 2**31 - 1


def prepare_process(
    plan: DevicePlan, *, seed: int, tf32: bool = False, hardware: Hardware = HARDWARE
) -> None:
    """Seed Python's, NumPy's and TensorFlow's random numbers; decide how a GPU multiplies.

    On a CPU, keep freed memory.
    """
    import keras

    keras.utils.set_random_seed(seed)
    if plan.model_device.startswith("/CPU"):
        keep_freed_memory()
        return
    hardware.set_tf32(tf32)
    words = "ten bits (TF32), where the GPU has them; mels and pitch in full" if tf32 else "in full"
    log.info("Precision of float32 products: %s (training.tf32: %s)", words, str(tf32).lower())


def keep_freed_memory() -> None:
    """Have freed memory kept for the next batch, where the C library can.

    On its own glibc gives every large tensor back to the system at once, and the next batch gets
    it page by page, each emptied again: more than half of a data stage's CPU time went there.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another library or system
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, _NEVER)
