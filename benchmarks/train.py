"""How fast the model trains by each way of feeding it, how evenly, and in how much memory.

The `tiny` model trains on the built-in corpus (batch 16, one static shape, XLA, clips in memory):
alone on a resident batch, by load-process-train in one loop, from a plain tf.data pipeline, and
through our pipeline on one device and on two simulated ones. A way's bound is its slowest stage
alone, or all CPU work divided by the cores if that is more; nothing overlaps in the loop, so its
bound is the sum. On two devices it is also what a step takes while a thread that knows nothing of
it processes a batch: what two cores take from each other no pipeline gives back. All once with one
intra-op thread, and once more with two. Then step times by bucket, and the memory of a long run of
the whole trainer. Nothing is measured on a GPU.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import psutil

from benchmarks import in_child
from benchmarks.feeding import DUAL, PROCESS, READ, SERIAL, TRAIN, TRANSFER, WAYS, Workshop
from myxtts.config.config import DataConfig, ModelConfig, TrainingConfig, XTTSConfig
from myxtts.corpora.demo import make_demo_corpus
from myxtts.errors import MyXTTSError

EFFICIENCY_BAR, RIVAL_BAR, VARIATION_BAR, GROWTH_BAR_MB = 0.95, 1.03, 0.15, 30
CORES = len(psutil.Process().cpu_affinity() or [0])

STAGES = ("read", "process", "transfer", "train (the model alone)")
MEMORY_READ_STEPS, MEMORY_WARM_UP_STEPS = 100, 500  # samples of other lengths are traced until then


@dataclass(frozen=True)
class Options:
    """How thoroughly to measure."""

    corpus: Path
    rounds: int = 9  # of five, which way was ahead by 3 % was chance's
    steps: int = 28  # of every way in every round; of fewer, the ways' order was chance's
    stretches: int = 3  # of the run with several buckets
    stretch_steps: int = 72  # the rarest bucket comes a few times, and its first three don't count
    memory_steps: int = 2000


@dataclass
class Turns:
    """What one way of feeding did in its turns: seconds a step, each beside its neighbours'."""

    measured: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)  # all stages one after another, at that time
    variation: list[float] = field(default_factory=list)

    def efficiency(self) -> float:
        """Measured rate over the bound's."""
        return statistics.median(np.divide(self.bound, self.measured))

    def speed(self) -> np.ndarray:
        """Steps done in the time of one serial step just before and after: free of drift."""
        return np.divide(self.work, self.measured)


@dataclass
class Feeding:
    """The results of one thread setting."""

    shape: str
    alone: np.ndarray  # seconds: turn, stage, wall or CPU
    together: float  # seconds of a step beside a batch that is processed
    ways: dict[str, Turns]


# -- in a process of its own, since threads and devices are settled once --


def _bound_of(way: str, alone: np.ndarray) -> float:
    stages = [READ, PROCESS, TRANSFER, TRAIN] if way == DUAL else [READ, PROCESS, TRAIN]
    wall, cpu = alone[stages].T
    return float(wall.sum() if way == SERIAL else max(wall.max(), cpu.sum() / CORES))


def measure_feeding(options: Options, threads: int) -> Feeding:
    """All ways in turns, and between any two the stages alone: the machine's speed drifts."""
    shop = Workshop(options.corpus, threads=threads, static_shapes="one")
    shop.time_stages()  # compiles
    all_alone, together = [shop.time_stages()], [shop.time_together()]
    ways = {way: Turns() for way in WAYS}
    for number in range(options.rounds):
        for way in WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]:
            measured, cpu, variation = shop.train_by(way, options.steps)
            all_alone.append(shop.time_stages())
            together.append(shop.time_together())
            neighbours = (all_alone[-2] + all_alone[-1]) / 2
            turns = ways[way]
            turns.measured.append(measured)
            turns.cpu.append(cpu)
            bound = _bound_of(way, neighbours)
            turns.bound.append(max(bound, sum(together[-2:]) / 2) if way == DUAL else bound)
            turns.work.append(float(neighbours[[READ, PROCESS, TRAIN], 0].sum()))
            if variation is not None:
                turns.variation.append(variation)
    assert shop.step.traces == 1, "every way must run the same compiled step"
    rows, bucket = shop.data.plan.batch_size, shop.data.plan.buckets[0]
    shape = f"{rows} clips x {bucket.frames} frames x {bucket.tokens} tokens"
    return Feeding(shape, np.array(all_alone), float(np.median(together)), ways)


def measure_buckets(options: Options) -> dict[str, list[float]]:
    """Variation of the step time by bucket, stretch by stretch, of a shallow model with three."""
    shop = Workshop(
        options.corpus,
        threads=1,
        model={"encoder_blocks": 2, "decoder_blocks": 2},  # each shape is compiled
        static_shapes="buckets",
        max_buckets=3,
    )
    num_shapes = len(shop.data.plan.bucket_stats())
    variations: dict[str, list[float]] = {}
    with shop.pipeline(two_devices=True) as batches:
        while shop.step.traces < num_shapes:
            shop.step(next(batches))
        for _ in range(options.stretches):
            batches.telemetry.mark()
            for batch in itertools.islice(batches, options.stretch_steps):
                shop.step(batch)
            for bucket in batches.stats().steps:
                mels = next(part for part in bucket.shape.split() if part.count("x") == 2)
                variations.setdefault(mels, []).append(bucket.variation)
    return variations


def measure_memory(options: Options) -> list[float]:
    """Megabytes of this process every so many steps of the whole trainer, with a minute model."""
    from myxtts.training.memory_isolated_trainer import MemoryIsolatedDualGPUTrainer

    narrow = dict.fromkeys(("encoder_dim", "decoder_dim", "voice_dim"), 16)
    shallow = dict.fromkeys(("encoder_blocks", "decoder_blocks"), 1)
    process, readings = psutil.Process(), []

    def read_memory(step: int, losses: Any) -> None:
        if step % MEMORY_READ_STEPS == 0:
            readings.append(process.memory_info().rss / 2**20)

    with tempfile.TemporaryDirectory() as folder:
        config = XTTSConfig(
            model=ModelConfig(size="tiny", **narrow, **shallow),
            data=DataConfig(
                train_data=options.corpus,
                batch_size=4,
                static_shapes="one",
                cache="memory",
                max_mel_frames=184,
                allow_few=True,  # the short ones do
            ),
            training=TrainingConfig(
                checkpoint_dir=Path(folder) / "run",
                max_steps=options.memory_steps,
                optimization_level="basic",
                checkpoint_steps=MEMORY_READ_STEPS,
                validation_steps=MEMORY_READ_STEPS,
                sample_steps=MEMORY_READ_STEPS,
            ),
        )
        with MemoryIsolatedDualGPUTrainer(config, 0, 1, None, None, simulate=True) as trainer:
            trainer.train(on_step=read_memory)
    return readings


# -- in the process that prints --


class Verdicts:
    """Judges numbers by their bars, and counts those that miss."""

    def __init__(self, *, judging: bool) -> None:
        self.missed = 0
        self._judging = judging

    def __call__(self, good: bool, bar: str) -> str:
        """What to print behind the number."""
        if not self._judging:
            return ""
        self.missed += not good
        return f"  (bar {bar}) {'ok' if good else 'MISSED'}"


def print_feeding(threads: int, result: Feeding, judge: Verdicts) -> None:
    count = {1: "One thread", 2: "Two threads"}.get(threads, f"{threads} threads")
    print(f"\n{count} (intra-op), {CORES} cores, {result.shape}")
    print(f"{'stage alone':28s}{'ms':>8s}{'CPU ms':>9s}")
    for name, (wall, cpu) in zip(STAGES, np.median(result.alone, axis=0) * 1e3, strict=True):
        print(f"{name:28s}{wall:8.1f}{cpu:9.1f}")
    print(
        f"{'way of feeding':20s}{'steps/s':>9s}{'bound':>8s}{'measured/bound':>16s}"
        f"{'CPU ms':>9s}{'to dual':>9s}"
    )
    train_s = np.median(result.alone[:, TRAIN, 0])
    print(f"{'the model alone':20s}{1 / train_s:9.2f}")
    print(f"{'beside process':20s}{1 / result.together:9.2f}")
    dual = result.ways[DUAL]
    for way, turns in result.ways.items():
        efficiency = turns.efficiency()
        against_dual = float(np.median(turns.speed() / dual.speed()))
        if way == DUAL:
            verdict = judge(efficiency >= EFFICIENCY_BAR, f"measured/bound >= {EFFICIENCY_BAR}")
        else:
            verdict = judge(against_dual <= RIVAL_BAR, f"to dual <= {RIVAL_BAR}")
        print(
            f"{way:20s}{1 / statistics.median(turns.measured):9.2f}"
            f"{1 / statistics.median(turns.bound):8.2f}{efficiency:16.3f}"
            f"{statistics.median(turns.cpu) * 1e3:9.1f}{against_dual:9.3f}{verdict}"
        )
    if threads == 1:
        variation = statistics.median(dual.variation)
        verdict = judge(variation <= VARIATION_BAR, f"<= {VARIATION_BAR:.0%}")
        print(f"step time of our dual-device way varies by {variation:.1%}{verdict}")


def print_buckets(variations: dict[str, list[float]], judge: Verdicts) -> None:
    print(
        f"\n{len(variations)} buckets, a shallow model, one intra-op thread, two devices: how much "
        "step time varies"
    )
    for shape, seen in sorted(variations.items()):
        variation = statistics.median(seen)
        verdict = judge(variation <= VARIATION_BAR, f"<= {VARIATION_BAR:.0%}")
        print(f"{shape:20s}{variation:9.1%}{verdict}")


def print_memory(readings: list[float], judge: Verdicts) -> None:
    steps = len(readings) * MEMORY_READ_STEPS
    warm = readings[MEMORY_WARM_UP_STEPS // MEMORY_READ_STEPS - 1 :]
    growth = max(warm) - warm[0]
    print(f"\nMemory over {steps} steps of the whole trainer, every {MEMORY_READ_STEPS} (MB)")
    print(" ".join(f"{reading:.0f}" for reading in readings))
    verdict = judge(growth < GROWTH_BAR_MB, f"< {GROWTH_BAR_MB} MB")
    print(f"most above step {MEMORY_WARM_UP_STEPS}: {growth:.1f} MB{verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="instead of the built-in one")
    parser.add_argument("--rounds", type=int, help="turns of every way; the median is printed")
    parser.add_argument("--quick", action="store_true", help="a short look, without bars")
    chosen = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # each table when it is done
    with tempfile.TemporaryDirectory() as folder:
        corpus = chosen.corpus or Path(folder) / "corpus"
        values: dict[str, Any] = {}
        if chosen.quick:
            values |= {"rounds": 1, "steps": 6, "stretches": 1, "memory_steps": 500}
        if chosen.rounds is not None:
            values["rounds"] = max(1, chosen.rounds)
        options = Options(corpus, **values)
        judge = Verdicts(judging=not chosen.quick)
        try:
            if chosen.corpus is None:
                make_demo_corpus(corpus)
            for threads in (1, 2):
                print_feeding(threads, in_child(measure_feeding, options, threads), judge)
            print_buckets(in_child(measure_buckets, options), judge)
            print_memory(in_child(measure_memory, options), judge)
        except MyXTTSError as error:
            parser.exit(2, f"{error}\n")
    sys.exit(bool(judge.missed))


if __name__ == "__main__":
    main()
