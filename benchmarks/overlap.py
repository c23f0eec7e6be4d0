"""How close the pipeline comes to its bound: real TensorFlow work on two simulated devices.

The bound of a case is its slowest stage, or all CPU work divided by the cores if that is more.
Efficiency is bound over measured; the bar is 0.95. Not measured on a GPU.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from myxtts.pipeline import ProducerConsumerPipeline, configure_devices
from myxtts.pipeline.process import keep_freed_memory

PLAN = configure_devices(simulate=True)
keep_freed_memory()  # as the trainer does

import tensorflow as tf  # noqa: E402 - after the devices are decided

tf.config.threading.set_intra_op_parallelism_threads(1)  # a stage must not borrow the other's core

BAR = 0.95
UNIT_S = 0.04  # a small model's step on a CPU takes longer still
WIDTH = 96
PIPELINE_BATCHES, FILLING_BATCHES, ALONE_BATCHES = 28, 6, 8


@dataclass(frozen=True)
class Case:
    """Stage times in units; `source` sleeps, the others compute."""

    name: str
    source: float
    process: float
    train: float


CASES = (
    Case("balanced", 0, 1, 1),
    Case("process 2x train", 0, 2, 1),
    Case("train 2x process", 0, 1, 2),
    Case("slow source (sleeps)", 2, 1, 1),
)


@tf.function(jit_compile=True)  # one kernel: op-by-op loops spend their time on thread hand-offs
def spin(matrix: tf.Tensor, rounds: tf.Tensor) -> tf.Tensor:
    """Multiply a small matrix by itself again and again: pure computation, inside the caches."""
    # Written as a while loop, since XLA would compile a tf.range anew for every number of rounds.
    done = tf.constant(0)
    while done < rounds:
        matrix = tf.math.l2_normalize(tf.matmul(matrix, matrix), axis=1)
        done += 1
    return matrix


def calibrate() -> int:
    """Rounds that take one unit."""
    matrix = tf.random.normal([WIDTH, WIDTH])
    spin(matrix, tf.constant(10))
    times = []
    for _ in range(9):
        began = time.perf_counter()
        spin(matrix, tf.constant(200))
        times.append(time.perf_counter() - began)
    return max(1, round(UNIT_S / (statistics.median(times) / 200)))


def work(units: Callable[[], float], rounds: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """Compute for the given number of units on the device in scope."""
    return lambda matrix: spin(matrix, tf.constant(round(units() * rounds)))


def source(case: Case, count: int) -> Iterator[np.ndarray]:
    matrix = np.random.default_rng(0).normal(size=[WIDTH, WIDTH]).astype(np.float32)
    for _ in range(count):
        time.sleep(case.source * UNIT_S)
        yield matrix


def train_with(units: Callable[[], float], rounds: int) -> Callable[[tf.Tensor], None]:
    step = work(units, rounds)

    def train(batch: tf.Tensor) -> None:
        with tf.device(PLAN.model_device):
            step(batch)

    return train


def alone_s(stage: Callable[[tf.Tensor], object], device: str, count: int) -> float:
    with tf.device(device):
        matrix = tf.random.normal([WIDTH, WIDTH])
        began = time.perf_counter()
        for _ in range(count):
            stage(matrix)
    return (time.perf_counter() - began) / count


def pipelined_s(
    case: Case,
    process: Callable[[tf.Tensor], tf.Tensor],
    train: Callable[[tf.Tensor], None],
    count: int,
    depth: int = 3,
    prefetch: int = 4,
) -> float:
    """Seconds a batch, once the pipeline has filled."""
    with ProducerConsumerPipeline(
        source(case, count),
        plan=PLAN,
        process=process,
        depth=depth,
        prefetch_buffer_size=prefetch,
        buffer_size=prefetch,
        model_start_delay=0,
    ) as batches:
        for batch in itertools.islice(batches, FILLING_BATCHES):
            train(batch)
        began = time.perf_counter()
        for batch in batches:
            train(batch)
        return (time.perf_counter() - began) / (count - FILLING_BATCHES)


def time_stages(
    process: Callable[[tf.Tensor], tf.Tensor], train: Callable[[tf.Tensor], None], count: int
) -> np.ndarray:
    return np.array(
        [
            alone_s(process, PLAN.data_device, count),
            alone_s(train, PLAN.model_device, count),
        ]
    )


def measure(case: Case, rounds: int, repeats: int) -> np.ndarray:
    """Rows of serial time, bound and measured time of a batch.

    The speed of a shared machine drifts within seconds, so short runs of the pipeline take turns
    with short runs of each stage alone, and each is compared with its neighbours.
    """
    process = work(lambda: case.process, rounds)
    train = train_with(lambda: case.train, rounds)
    source_s = case.source * UNIT_S
    rows = []
    before = time_stages(process, train, ALONE_BATCHES)
    for _ in range(repeats):
        measured = pipelined_s(case, process, train, PIPELINE_BATCHES)
        after = time_stages(process, train, ALONE_BATCHES)
        work_s = (before + after) / 2
        bound = max(source_s, *work_s, work_s.sum() / (os.cpu_count() or 1))
        rows.append((source_s + work_s.sum(), bound, measured))
        before = after
    return np.array(rows)


def measure_depths(rounds: int, repeats: int) -> dict[int, float]:
    """Efficiency by depth while both stages vary by half, every depth with the same times."""
    efficiencies: dict[int, list[float]] = {1: [], 2: [], 3: []}
    for repeat in range(repeats):
        for depth, seen in efficiencies.items():
            steps, batches = (np.random.default_rng([repeat, i]) for i in range(2))
            process = work(lambda random=batches: 1 + random.uniform(-0.5, 0.5), rounds)
            train = train_with(lambda random=steps: 1 + random.uniform(-0.5, 0.5), rounds)
            even = work(lambda: 1.0, rounds)
            # A prefetch buffer of one leaves the ring as the only cushion between the devices.
            measured = pipelined_s(CASES[0], process, train, PIPELINE_BATCHES, depth, prefetch=1)
            seen.append(alone_s(even, PLAN.data_device, ALONE_BATCHES) / measured)
    return {depth: statistics.median(seen) for depth, seen in efficiencies.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=11, help="the median of these is printed")
    options = parser.parse_args()
    rounds = calibrate()
    print(f"{'case':24s}{'serial ms':>11s}{'bound ms':>10s}{'measured ms':>13s}{'efficiency':>12s}")
    below = 0
    for case in CASES:
        rows = measure(case, rounds, options.repeats)
        serial, bound, measured = np.median(rows, axis=0) * 1e3
        low, efficiency, high = np.quantile(rows[:, 1] / rows[:, 2], [0.25, 0.5, 0.75])
        below += efficiency < BAR
        print(
            f"{case.name:24s}{serial:11.1f}{bound:10.1f}{measured:13.1f}{efficiency:12.3f}"
            f"  (half between {low:.3f} and {high:.3f})"
            f"  {'ok' if efficiency >= BAR else f'BELOW {BAR}'}"
        )
    print("\nBoth stages vary by ±50 %: what buffering buys (no bar)")
    for depth, efficiency in measure_depths(rounds, options.repeats).items():
        print(f"depth {depth}: efficiency {efficiency:.3f}")
    sys.exit(bool(below))


if __name__ == "__main__":
    main()
