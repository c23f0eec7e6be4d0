"""Does the advice hold: predicted rates beside measured ones, on two simulated devices.

First the simulator on the cases of `benchmarks.overlap`, from the stage times measured beside each.
Then five situations: each is profiled, what the advisor foretells is applied, and it is measured
again, in turns: the median error over the turns counts, each measurement being compared with the
predictions of the profiles before and after it. One profile by itself may be further off. The
bars: within 10 % on every case of the simulator and in at least four of five situations.
Not measured on a GPU.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import overlap
from benchmarks.overlap import PLAN, UNIT_S, WIDTH, Case, spin

import numpy as np  # isort: skip - devices are configured first
import tensorflow as tf  # isort: skip

from myxtts.config.config import XTTSConfig
from myxtts.corpora.demo import make_demo_corpus
from myxtts.pipeline.telemetry import PROCESS, READ, TRAIN, TRANSFER
from myxtts.profiling.advisor import advise, foretold
from myxtts.profiling.measurements import READ_CACHED
from myxtts.profiling.profiler import measure
from myxtts.profiling.simulator import CPU, PipelineModel, StageModel, simulate
from myxtts.profiling.subject import Subject, open_voice
from myxtts.profiling.what_if import predict, with_settings

BAR, NEEDED = 0.10, 4
STEPS = 60
CORES = os.cpu_count() or 1
HAND_OVER_S = 0.0005  # a copy of a small matrix


# -- the simulator on the overlap benchmark's cases --


def predict_case(
    case: Case,
    process_s: Any,
    train_s: Any,
    crowding: float,
    *,
    depth: int = 3,
    prefetch: int = 4,
) -> float:
    """Seconds a batch, simulated from stage times."""
    stages = {
        READ: StageModel([case.source * UNIT_S], CPU, 0.0),  # it sleeps
        PROCESS: StageModel(np.atleast_1d(process_s).tolist(), CPU),
        TRANSFER: StageModel([HAND_OVER_S], CPU),
        TRAIN: StageModel(np.atleast_1d(train_s).tolist(), CPU),
    }
    model = PipelineModel(
        stages,
        depth=depth,
        prefetch_buffer_size=prefetch,
        buffer_size=prefetch,
        capacity={CPU: CORES},
        crowding={CPU: crowding},
    )
    filled = overlap.FILLING_BATCHES
    return 1.0 / simulate(model, steps=overlap.PIPELINE_BATCHES - filled, filling_steps=filled).rate


class Unit:
    """How long a unit of work takes now, alone and beside another; it drifts within seconds."""

    def __init__(self, rounds: int) -> None:
        self._work = overlap.work(lambda: 1.0, rounds)
        self._last = self._measure()

    def around(self, measure: Callable[[], float]) -> tuple[float, float, float]:
        """A measurement, and seconds of a unit and crowding as they were before and after it."""
        before, measured, self._last = self._last, measure(), self._measure()
        alone_s, beside_s = (before + self._last) / 2
        return measured, alone_s, max(1.0, beside_s / alone_s)

    def _measure(self) -> np.ndarray:
        count = overlap.ALONE_BATCHES
        alone_s = overlap.alone_s(self._work, PLAN.model_device, count)
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(overlap.alone_s, self._work, PLAN.data_device, count)
            beside_s = overlap.alone_s(self._work, PLAN.model_device, count)
            return np.array([alone_s, (beside_s + other.result()) / 2])


def check_even_case(case: Case, rounds: int, repeats: int) -> tuple[float, float]:
    """Predicted and measured seconds a batch; medians of turns with a unit of work alone."""
    process = overlap.work(lambda: case.process, rounds)
    train = overlap.train_with(lambda: case.train, rounds)
    unit, rows = Unit(rounds), []
    for _ in range(repeats):
        measured, alone_s, crowding = unit.around(
            lambda: overlap.pipelined_s(case, process, train, overlap.PIPELINE_BATCHES)
        )
        times = (case.process * alone_s, case.train * alone_s)
        rows.append((predict_case(case, *times, crowding), measured))
    return _medians(rows)


def check_uneven_case(depth: int, rounds: int, repeats: int) -> tuple[float, float]:
    """Both stages vary by half, behind a prefetch buffer of one batch; simulated batch by batch."""
    case, count = overlap.CASES[0], overlap.PIPELINE_BATCHES
    unit, rows = Unit(rounds), []
    for repeat in range(repeats):
        units = np.random.default_rng(repeat).uniform(0.5, 1.5, (2, count))
        process_units, train_units = (itertools.cycle(row) for row in units)
        process = overlap.work(lambda: next(process_units), rounds)  # noqa: B023 - used at once
        train = overlap.train_with(lambda: next(train_units), rounds)  # noqa: B023
        measured, alone_s, crowding = unit.around(
            lambda: overlap.pipelined_s(case, process, train, count, depth, prefetch=1)  # noqa: B023
        )
        predicted = predict_case(case, *units * alone_s, crowding, depth=depth, prefetch=1)
        rows.append((predicted, measured))
    return _medians(rows)


def _medians(rows: list[tuple[float, float]]) -> tuple[float, float]:
    predicted, measured = zip(*rows, strict=True)
    off = float(np.median(np.divide(predicted, measured)))
    typical = statistics.median(measured)
    return typical * off, typical  # each prediction was compared with its own neighbour in time


def check_simulator(rounds: int, repeats: int) -> int:
    print(f"{'overlap case':36s}{'predicted ms':>13s}{'measured ms':>13s}{'off':>8s}")
    missed = 0
    results = [(case.name, check_even_case(case, rounds, repeats)) for case in overlap.CASES]
    results += [
        (f"both vary by half, depth {depth}", check_uneven_case(depth, rounds, repeats))
        for depth in (1, 2, 3)
    ]
    for name, (predicted, measured) in results:
        off = predicted / measured - 1
        missed += abs(off) > BAR
        print(
            f"{name:36s}{predicted * 1e3:13.1f}{measured * 1e3:13.1f}{off:8.1%}"
            f"  {'ok' if abs(off) <= BAR else 'MISSED'}"
        )
    return missed


# -- the situations --


@dataclass(frozen=True)
class Situation:
    """Work of known size, and settings that do not suit it."""

    name: str
    settings: dict[str, Any]
    read_s: float = 0.002  # the disk: it sleeps
    process: tuple[float, ...] = (0.3,)  # units, in turn
    train: tuple[float, ...] = (0.6,)
    new_shapes: bool = False  # every batch its own, unless shapes are static


SITUATIONS = (
    Situation("a slow disk, two workers", {"num_workers": 2}, read_s=0.16),
    Situation("a very slow disk, one worker", {"num_workers": 1}, read_s=0.5),
    Situation(
        "uneven processing, least buffers",
        {"prefetch_buffer_size": 1, "pipeline_depth": 1},
        process=(0.2, 0.2, 0.2, 2.4),
        train=(0.8,),
    ),
    Situation("a new shape in every batch", {"static_shapes": "off"}, new_shapes=True),
)


def subject_for(situation: Situation, config: XTTSConfig, rounds: int) -> Subject:
    """The pieces of such a run under these settings."""

    def read(number: int, *, cached: bool) -> dict[str, Any]:
        if not cached:
            time.sleep(situation.read_s)
        varies = situation.new_shapes and config.data.static_shapes == "off"
        extra = number % 5000 if varies else 0
        matrix = np.eye(WIDTH, dtype=np.float32)
        return {"matrix": matrix, "text": np.zeros([1 + extra], np.float32)}

    def read_by(workers: int, *, cached: bool = False) -> Iterator[Any]:
        """In order, `workers` at a time, as the loader's threads do; a cache needs no thread."""
        number = next(starts)
        if cached:
            while True:
                yield read(number, cached=True)
                number += 1
        pool, waiting = ThreadPoolExecutor(workers), deque()
        try:
            while True:
                waiting.append(pool.submit(read, number, cached=False))
                number += 1
                if len(waiting) > workers:
                    yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    starts = iter(range(0, 10**9, 1000))  # no two readers give the same shapes
    process, train = _in_turn(situation.process, rounds), _in_turn(situation.train, rounds)

    @tf.function
    def traced(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        return tf.reduce_sum(batch["text"])

    def train_step(batch: dict[str, tf.Tensor]) -> None:
        with tf.device(PLAN.model_device):
            traced(batch)
            train(batch["matrix"])

    cached = config.data.cache is not None
    static = config.data.static_shapes != "off"
    return Subject(
        config=config,
        plan=PLAN,
        source=lambda: read_by(config.data.num_workers, cached=cached),
        readers={
            READ: lambda: read_by(1, cached=cached),
            READ_CACHED: lambda: read_by(1, cached=True),
        },
        process=lambda batch: {**batch, "matrix": process(batch["matrix"])},
        train=train_step,
        num_traces=traced.experimental_get_tracing_count,
        shapes=("one",) if static else (),
        data_name=situation.name,
    )


def _in_turn(units: tuple[float, ...], rounds: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """Compute for so many units, the next time for the next number of them."""
    calls = iter(range(10**9))
    return lambda matrix: spin(matrix, tf.constant(round(units[next(calls) % len(units)] * rounds)))


def real_files(corpus: Path, config: XTTSConfig, stack: ExitStack, rounds: int) -> Subject:
    """The loader on real clips, in Python threads; the model is a short piece of work."""
    config = with_settings(config, {"data.train_data": corpus})
    subject = stack.enter_context(open_voice(config, data_name="built-in corpus"))
    train = _in_turn((0.1,), rounds)
    return replace(
        subject,
        process=lambda batch: {"waves": batch["waves"]},
        train=lambda batch: train(tf.eye(WIDTH)),
        num_traces=lambda: 1,
    )


@dataclass(frozen=True)
class Outcome:
    """Steps a second before and after, and what was predicted; medians of several turns."""

    before: float
    predicted: float
    after: float
    changes: str

    @property
    def off(self) -> float:
        """The prediction's error, as a share of what was measured."""
        return self.predicted / self.after - 1

    @property
    def held(self) -> bool:
        """Whether there was advice and the prediction came true."""
        return abs(self.off) <= BAR and self.changes != "nothing"


def try_advice(
    make_subject: Callable[[XTTSConfig], Subject], config: XTTSConfig, repeats: int
) -> Outcome:
    """Profile, apply what is foretold, measure again; a machine drifts, so more than once."""
    before = measure(make_subject(config), num_steps=STEPS)
    changes = foretold(advise(before).changes)
    applied = {name: value for change in changes for name, value in change.settings.items()}
    changed = with_settings(config, applied)
    rows = []
    for _ in range(repeats):
        after = measure(make_subject(changed), num_steps=STEPS)
        again = measure(make_subject(config), num_steps=STEPS)
        # Each measurement is compared with the predictions made just before and just after it.
        foreseen = [predict(profile, changed).rate for profile in (before, again)]
        rows.append((before.together.rate, statistics.fmean(foreseen), after.together.rate))
        before = again
    was, predicted, became = zip(*rows, strict=True)
    typical = statistics.median(became)
    off = float(np.median(np.divide(predicted, became)))
    flags = "; ".join(change.flag for change in changes) or "nothing"
    return Outcome(statistics.median(was), typical * off, typical, flags)


def check_situations(rounds: int, corpus: Path, repeats: int) -> int:
    print(
        f"\n{'situation':36s}{'before':>8s}{'predicted':>11s}{'measured':>10s}{'off':>8s}"
        "   (steps/s)"
    )
    base = {"simulate": True, "batch_size": 16}
    jobs: list[tuple[str, Callable[[XTTSConfig], Subject], dict[str, Any]]] = [
        (s.name, lambda config, s=s: subject_for(s, config, rounds), {**base, **s.settings})
        for s in SITUATIONS
    ]
    held = 0
    with ExitStack() as stack:
        jobs.append(
            (
                "real files, decoded in Python",
                lambda config: real_files(corpus, config, stack, rounds),
                {**base, "use_tf_native_loading": False, "num_workers": 1, "static_shapes": "one"},
            )
        )
        for name, make_subject, data in jobs:
            config = XTTSConfig(
                model={"size": "tiny"}, data=data, training={"optimization_level": "basic"}
            )
            found = try_advice(make_subject, config, repeats)
            held += found.held
            print(
                f"{name:36s}{found.before:8.2f}{found.predicted:11.2f}{found.after:10.2f}"
                f"{found.off:8.1%}  {'ok' if found.held else 'MISSED'}  {found.changes}"
            )
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=11, help="turns of every overlap case")
    parser.add_argument("--turns", type=int, default=3, help="of every situation, before and after")
    parser.add_argument("--situations-only", action="store_true")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    rounds = overlap.calibrate()
    missed = 0 if options.situations_only else check_simulator(rounds, options.repeats)
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        make_demo_corpus(corpus, sentences=160, held_out=4)
        held = check_situations(rounds, corpus, options.turns)
    print(f"the advice held in {held} of {len(SITUATIONS) + 1} situations (bar {NEEDED})")
    sys.exit(bool(missed) or held < NEEDED)


if __name__ == "__main__":
    main()
