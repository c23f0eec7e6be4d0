"""The planner's estimate of a training step beside the memory that the process really grows by.

For each model size a fresh process trains a few steps on the CPU. Measured is the growth by the
model, its optimiser and a batch, and on top the peak of a step; what the compiler itself took is
left out, since on a GPU machine it is the host's. The bar is 25 %. Not measured on a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks import in_child
from myxtts.config.config import ModelConfig, XTTSConfig
from myxtts.features.audio import REFERENCE_FRAMES
from myxtts.pipeline.process import M_TRIM_THRESHOLD
from myxtts.training.model_memory import BatchShape, step_memory

BAR = 0.25
MB = 2**20
CASES = (
    ("tiny", BatchShape(16, 224, 48), "enhanced"),
    ("tiny", BatchShape(16, 448, 96), "enhanced"),
    ("small", BatchShape(16, 224, 48), "enhanced"),
    ("small", BatchShape(8, 448, 96), "enhanced"),
    ("tiny", BatchShape(16, 224, 48), "basic"),
    ("tiny", BatchShape(16, 448, 96), "basic"),
    ("small", BatchShape(16, 224, 48), "basic"),
    ("small", BatchShape(8, 448, 96), "basic"),
)
QUICK_CASES = (CASES[0], CASES[2])
MINUTE = {
    **dict.fromkeys(("encoder_dim", "decoder_dim", "voice_dim"), 8),
    **dict.fromkeys(("encoder_blocks", "decoder_blocks"), 1),
}
STEPS = 4
M_MMAP_THRESHOLD = -3  # glibc's malloc.h


def give_memory_back() -> None:
    """Let RSS follow what is in use; left alone the C library keeps more and more of it."""
    mallopt = ctypes.CDLL(None).mallopt
    for option in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
        assert mallopt(option, 2**17)


def rss_mb() -> float:
    """What this process holds, after all that is free has been given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return _status("VmRSS")


def peak_mb() -> float:
    return _status("VmHWM")


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def make_batch(shape: BatchShape) -> dict[str, Any]:
    import tensorflow as tf

    rows, frames, tokens = shape.rows, shape.frames, shape.tokens
    return {
        "tokens": tf.ones([rows, tokens], tf.int32),
        "token_lengths": tf.fill([rows], tokens),
        "languages": tf.zeros([rows], tf.int32),
        "mels": tf.random.normal([rows, frames, 80]),
        "mel_lengths": tf.fill([rows], frames),
        "pitch": tf.fill([rows, frames], 120.0),
        "voiced": tf.fill([rows, frames], True),
        "reference_mels": tf.random.normal([rows, REFERENCE_FRAMES, 80]),
        "reference_lengths": tf.fill([rows], REFERENCE_FRAMES),
        "reference_pitch": tf.fill([rows, REFERENCE_FRAMES], 120.0),
        "seed": tf.constant([1, 2]),
    }


def measure(size: str, shape: BatchShape, level: str) -> tuple[float, float]:
    """Megabytes: what stays after the model was made, and what a step takes on top."""
    from myxtts.pipeline import configure_devices

    plan = configure_devices(simulate=True)
    give_memory_back()
    import tensorflow as tf

    from myxtts.models.xtts import XTTS
    from myxtts.training.setup import make_model

    def make_step(config: XTTSConfig) -> Any:
        _, schedule, step = make_model(lambda: XTTS(config.model), config, plan)
        schedule.total_steps.assign(1000)
        step.build()
        return step

    # A minute model first, so that the code of every layer and kernel is loaded already.
    basic = {"optimization_level": "basic"}
    minute = make_step(XTTSConfig(model={"size": "tiny", **MINUTE}, training=basic))
    minute(make_batch(BatchShape(1, 16, 4)))
    before = rss_mb()
    with tf.device(plan.model_device):
        batch = make_batch(shape)
    step = make_step(XTTSConfig(model={"size": size}, training={"optimization_level": level}))
    made = rss_mb()
    for _ in range(2):
        step(batch)  # compiles
    resting = rss_mb()
    forget_peak()
    for _ in range(STEPS):
        step(batch)
    return made - before, peak_mb() - resting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two model sizes, one shape each")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    print(
        f"{'model':8s}{'level':10s}{'batches of':34s}{'made':>8s}{'a step':>8s}{'in all MB':>11s}"
        f"{'estimate':>10s}{'off':>8s}"
    )
    missed = 0
    for size, shape, level in QUICK_CASES if options.quick else CASES:
        made, step = in_child(measure, size, shape, level)
        planned = step_memory(ModelConfig(size=size), shape)
        estimate = planned.total / MB
        off = estimate / (made + step) - 1
        missed += abs(off) > BAR
        print(
            f"{size:8s}{level:10s}{shape!s:34s}{made:8.1f}{step:8.1f}{made + step:11.1f}"
            f"{estimate:10.1f}{off:8.1%}  {'ok' if abs(off) <= BAR else 'MISSED'}"
        )
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
