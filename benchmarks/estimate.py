"""The arithmetic of `myxtts plan --cards`, fed with this CPU's peaks, beside the real step.

One core stands for a card: one thread works on one operation at a time. Its peaks (matrix products,
convolutions, FFTs, functions like exp, bandwidth, and what it takes to start an operation) are
measured with small programs of their own, before, between and after the steps, since the machine
drifts. All times are the processor's, which other programs do not lengthen by waiting. The bar is a
factor of 1.5 between the estimated and the measured step, with XLA and without. It says that the
counting is right and the arithmetic sound, not how fast any GPU is: nothing ran on one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from benchmarks import in_child
from myxtts.config.config import XTTSConfig
from myxtts.training.model_memory import BatchShape

BAR = 1.5
CASES = (
    ("tiny", BatchShape(16, 224, 48), "enhanced"),
    ("tiny", BatchShape(16, 224, 48), "basic"),
    ("small", BatchShape(16, 224, 48), "enhanced"),
    ("small", BatchShape(16, 224, 48), "basic"),
)
QUICK_CASES = CASES[:2]
STEPS, TURNS = 4, 3
NUMBERS = 600_000  # in a tensor of about the size of the step's own: 2.4 MB
CHAIN = 400  # operations that follow each other


@dataclass(frozen=True)
class Result:
    """One case."""

    peaks: dict[str, float]
    launches: int
    gflop: float
    gigabytes: float
    rule: str
    estimated_s: float
    measured_s: float


# -- in a process of its own: threads are settled once --


def measure(size: str, shape: BatchShape, level: str) -> Result:
    import tensorflow as tf

    from myxtts.pipeline.process import keep_freed_memory

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keep_freed_memory()  # as the trainer does

    from benchmarks.memory import make_batch
    from myxtts.profiling.kernels import kernels_of
    from myxtts.profiling.speed_estimate import Stage, time_stage
    from myxtts.profiling.traced_work import make_model, make_step, trace_step

    config = XTTSConfig(model={"size": size}, training={"optimization_level": level})
    compiled = config.training.xla
    step = make_step(make_model(config.model), config.training, jit_compile=compiled)
    batch = make_batch(shape)
    traced = trace_step(
        step, tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), batch)
    )
    stages = [Stage("train", kernels_of(f, compiled=compiled), compiled) for f in traced]
    for _ in range(2):
        step(batch)  # compiles
    peaks, took = [_Peaks(compiled)], []
    for _ in range(TURNS):
        # The quickest, as of the peaks: what neighbours do to the caches is none of the step's.
        took.append(min(_seconds(lambda: step(batch)) for _ in range(STEPS)))
        peaks.append(_Peaks(compiled))
    device = _median(peaks)
    times = [time_stage(stage, device) for stage in stages]
    return Result(
        peaks={
            "matmul": device.flops["matmul", "single"] / 1e9,
            "conv": device.flops["conv", "single"] / 1e9,
            "vector": device.flops["vector", "single"] / 1e9,
            "GB/s": device.bandwidth / 1e9,
            "start µs": 1e6 * device.launch_s,
        },
        launches=sum(stage.launches for stage in stages),
        gflop=sum(stage.flops for stage in stages) / 1e9,
        gigabytes=sum(stage.bytes for stage in stages) / 1e9,
        rule=times[0].rule,
        estimated_s=sum(each.seconds for each in times),
        measured_s=statistics.median(took),
    )


class _Peaks:
    """The most this core does in a second of each kind of work, through TensorFlow itself.

    Each is a chain of the same operation, so that neither the call nor new memory counts.
    """

    def __init__(self, compiled: bool) -> None:
        import tensorflow as tf

        self._compiled = compiled
        rows, width = 3584, 256
        left, right = tf.random.normal([rows, width]), tf.random.normal([width, width]) / width**0.5
        one, other = tf.random.normal([NUMBERS]), tf.random.normal([NUMBERS])
        waves, small = tf.random.normal([512, 1024]), tf.random.normal([4, 4])
        self.matmul = 2 * rows * width**2 / self._link(lambda x: tf.matmul(x, right), left, 8)
        self.conv = self._convolution(rows // 16, width)
        self.fft = 2.5 * 512 * 1024 * 10 / self._best(lambda: tf.signal.rfft(waves), False)
        self.vector = 16 * NUMBERS / self._link(tf.exp, one, 20)
        self.bandwidth = 3 * 4 * NUMBERS / self._link(lambda x: tf.maximum(x, other), one, 20)
        self.start_s = self._link(lambda x: tf.roll(x, 1, axis=0), small, CHAIN)

    def _convolution(self, length: int, width: int) -> float:
        """Forward and both gradients, as in training."""
        import tensorflow as tf

        x, kernel = tf.random.normal([16, length, width]), tf.random.normal([5, width, width])

        def work() -> Any:
            with tf.GradientTape() as tape:
                tape.watch([x, kernel])
                y = tf.nn.conv1d(x, kernel, stride=1, padding="SAME")
            return tape.gradient(y, [x, kernel], output_gradients=y)

        return 3 * 2 * 16 * length * 5 * width * width / self._best(work, self._compiled)

    def _link(self, operation: Callable[[Any], Any], first: Any, count: int) -> float:
        """Seconds of one of many operations, each on the result of the one before."""
        import tensorflow as tf

        def work() -> Any:
            if self._compiled:  # unrolled, XLA would make one kernel of them
                return tf.while_loop(
                    lambda i, x: i < count, lambda i, x: (i + 1, operation(x)), (0, first)
                )[1]
            x = first
            for number in range(count):
                with tf.name_scope(f"{number}"):
                    x = operation(x)
            return x

        return self._best(work, self._compiled) / count

    def _best(self, work: Callable[[], Any], compiled: bool) -> float:
        """Seconds of the quickest of a few calls."""
        import tensorflow as tf

        function = tf.function(work, jit_compile=compiled, autograph=False)
        function()
        return min(_seconds(function) for _ in range(5))


def _seconds(call: Callable[[], Any]) -> float:
    import tensorflow as tf

    begun = time.process_time()
    for tensor in tf.nest.flatten(call()):
        tensor.numpy()
    return time.process_time() - begun


def _median(peaks: list[_Peaks]) -> Any:
    from myxtts.profiling.cards import Device

    def middle(name: str) -> float:
        return float(np.median([getattr(each, name) for each in peaks]))

    kinds = ("matmul", "conv", "fft", "vector")
    return Device(
        name="one core",
        flops={(kind, "single"): middle(kind) for kind in kinds},
        bandwidth=middle("bandwidth"),
        launch_s=middle("start_s"),
    )


# -- in the process that prints --


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the tiny model only")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    print("Steps on one core of this CPU; peaks in GFLOP/s, measured beside them")
    print(
        f"{'model':7s}{'level':10s}{'matmul':>8s}{'conv':>7s}{'vector':>8s}{'GB/s':>7s}"
        f"{'start µs':>10s}{'GFLOP':>8s}{'GB':>7s}{'starts':>8s}{'mostly':>10s}"
        f"{'estimate ms':>13s}{'measured':>10s}{'ratio':>7s}"
    )
    missed = 0
    for size, shape, level in QUICK_CASES if options.quick else CASES:
        found = in_child(measure, size, shape, level)
        ratio = found.estimated_s / found.measured_s
        good = 1 / BAR <= ratio <= BAR
        missed += not good
        peaks = found.peaks
        print(
            f"{size:7s}{level:10s}{peaks['matmul']:8.1f}{peaks['conv']:7.1f}"
            f"{peaks['vector']:8.1f}{peaks['GB/s']:7.1f}{peaks['start µs']:10.2f}"
            f"{found.gflop:8.2f}{found.gigabytes:7.2f}{found.launches:8d}{found.rule:>10s}"
            f"{1e3 * found.estimated_s:13.1f}{1e3 * found.measured_s:10.1f}{ratio:7.2f}"
            f"  (bar {1 / BAR:.2f} to {BAR:g}) {'ok' if good else 'MISSED'}"
        )
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
