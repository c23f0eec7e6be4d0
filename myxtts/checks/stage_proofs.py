"""What only the device itself can tell of the data stage: its precision, its form, its launches."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from myxtts.checks.validators import Target
from myxtts.errors import DeviceError
from myxtts.features.audio import REFERENCE_SAMPLES, bucket_samples

ROWS, FRAMES, TOKENS = 16, 800, 120
PRECISION = 1e-3  # of a log-mel, between a training card and a CPU that speaks
QUEUED_CALLS = 10
LAUNCH_BOUND = 0.8  # of the time goes into queueing: the device waits for its launches


def prove_features(target: Target) -> str:
    """The data device's log-mels equal the CPU's, which speaking is computed with."""
    import tensorflow as tf

    plan, batch = target.configure(), _host_batch()
    ours = _call(_stage(compiled=False), batch, plan.data_device)["mels"].numpy()
    from myxtts.features import mels

    with tf.device("/CPU:0"):
        waves = tf.cast(batch["waves"], tf.float32) / 32768.0
        expected = mels.log_mel(waves, tf.constant(batch["wave_lengths"])).numpy()
    off = float(np.abs(ours - expected).max())
    if not off <= PRECISION:
        raise DeviceError(
            f"Log-mels of {plan.data_device} and of the CPU differ by {off:.2g}.",
            "run again with --debug and report what it prints, with the card and the driver",
        )
    return f"log-mels differ by {off:.1e} from the CPU's, at most {PRECISION:.0e}"


def prove_forms(target: Target) -> str:
    """The data stage with and without XLA: both run, both give the same, and which is quicker."""
    from myxtts.features.playing import at_speeds
    from myxtts.training.quickest import seconds_of

    plan = target.configure()
    batch = at_speeds(_host_batch(), np.geomspace(0.85, 1.17, ROWS).astype(np.float32))
    stages = {"without XLA": _stage(compiled=False), "with XLA": _stage(compiled=True)}
    first, second = (_call(stage, batch, plan.data_device) for stage in stages.values())
    off = float(np.abs(first["mels"].numpy() - second["mels"].numpy()).max())
    if not off <= PRECISION:
        raise DeviceError(
            f"The data stage's log-mels with and without XLA differ by {off:.2g}.",
            "train with xla_process: off, and report it with the card and the driver",
        )
    taken = {
        name: seconds_of(partial(_call, stage, batch, plan.data_device), plan.data_device)
        for name, stage in stages.items()
    }
    told = ", ".join(f"{1000 * s:.1f} ms {name}" for name, s in taken.items())
    return f"a batch of {ROWS} clips of {FRAMES} frames: {told}; auto takes the quicker"


def prove_launches(target: Target) -> str:
    """The data stage is bound by its work, not by the launches of its kernels."""
    from myxtts.pipeline.transfer import drain

    plan, stage, batch = target.configure(), _stage(compiled=False), _host_batch()
    _call(stage, batch, plan.data_device)
    drain(plan.data_device)
    began = time.perf_counter()
    for _ in range(QUEUED_CALLS):
        _call(stage, batch, plan.data_device)
    queued = time.perf_counter() - began
    drain(plan.data_device)
    whole = time.perf_counter() - began
    told = (
        f"queueing takes {1000 * queued / QUEUED_CALLS:.1f} of "
        f"{1000 * whole / QUEUED_CALLS:.1f} ms a batch"
    )
    if queued > LAUNCH_BOUND * whole:
        raise DeviceError(
            f"The data stage is bound by launches: {told}.",
            "train with xla_process: on, which fuses them, or with a larger --batch-size",
        )
    return told


def _stage(*, compiled: bool) -> Any:
    from myxtts.features.device_stage import make_device_stage

    return make_device_stage(jit_compile=compiled, on_gpu=True)


def _call(stage: Callable[[Any], Any], batch: dict[str, Any], device: str) -> Any:
    import tensorflow as tf

    from myxtts.pipeline.transfer import put_on_device

    with tf.device(device):
        return stage(put_on_device(batch, device)[0])


def _host_batch() -> dict[str, Any]:
    """Hums of many pitches in noise, of many lengths: what a host sends."""
    from myxtts.checks.probe import hums

    samples, random = bucket_samples(FRAMES), np.random.default_rng(0)
    lengths, pitches = np.linspace(samples // 2, samples, ROWS), np.geomspace(70.0, 350.0, ROWS)
    return {
        "waves": hums(pitches, samples, random, noise=0.02),
        "wave_lengths": lengths.astype(np.int32),
        "references": hums(pitches, REFERENCE_SAMPLES, random, noise=0.02),
        "reference_lengths": np.full([ROWS], REFERENCE_SAMPLES, np.int32),
        "tokens": np.ones([ROWS, TOKENS], np.int32),
        "token_lengths": np.full([ROWS], TOKENS, np.int32),
        "languages": np.zeros([ROWS], np.int32),
        "seed": np.array([0, 1], np.int32),
    }
