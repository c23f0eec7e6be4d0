"""Replicas on this machine: time of a step and of its sum, efficiency, and what was predicted.

`python -m benchmarks.scale` runs 1, 2 and 4 processes, a thread to each operation, a few minutes on
two cores; with `--xla` every process compiles the step first, which takes several times as long.
`--paper` prints the tables of docs/*/scaling.md instead, which are calculated.

    cores left what other programs left of the processor while the steps ran; the step of one
               process, with what it packs for a sum, is counted in processor time, so that their
               load does not enter into it
    of bound   the rate against that of these cores, if they did nothing but one process's work
    sum        the time in it of the process that waited least: those that come early wait for it
    predicted  the step by the model of cost: one process's work, shared out over the cores left,
               and a ring with the link that is fitted to sums of two processes, of other sizes
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from myxtts.config.config import XTTSConfig
from myxtts.replicas.cluster import Cluster, find_cluster, tf_config
from myxtts.replicas.cost import Link, Measured, efficiency, fit_link, ring_s
from myxtts.replicas.meeting import free_ports
from myxtts.training.model_memory import count_parameters

SIZES = (50_000, 400_000, 1_600_000)  # numbers in a sum
STEPS, WARM_UP = 20, 3
ROWS, FRAMES, TOKENS = 4, 120, 24
NETWORKS = (10, 25, 100, 400)
GPUS = (8, 64, 512)
PAPER_STEP_S = 0.25
QUICK = {"encoder_dim": 16, "encoder_blocks": 1, "decoder_dim": 16, "decoder_blocks": 1}


def member(folder: Path, *, quick: bool, xla: bool) -> None:
    """One process: time sums of some sizes, then steps of the tiny voice."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np
    import tensorflow as tf

    from myxtts.replicas.exchange import Exchange
    from myxtts.replicas.transport import Transport
    from myxtts.training.step import TrainStep

    tf.config.threading.set_intra_op_parallelism_threads(1)
    cluster = find_cluster()
    transport = None
    if cluster is not None:
        transport = Transport(cluster, model_device="/CPU:0", join_timeout_s=120)
    from myxtts.models.xtts import XTTS

    config = XTTSConfig(model=QUICK if quick else {"size": "tiny"})
    tf.keras.utils.set_random_seed(0)
    model = XTTS(config.model)
    step = TrainStep(model, device="/CPU:0", learning_rate=1e-3, jit_compile=xla)
    step.build()
    told = {"sums": {}, "parameters": int(tf.size(step.weights))}
    if transport is None:  # packs and proves as the others do, so that it is their work it tells
        transport = _Alone()
    else:
        for size in (*SIZES, told["parameters"]):
            values, times = tf.ones([size]), []
            for _ in range(WARM_UP + STEPS):
                transport.sum([0])  # all begin at once
                began = time.perf_counter()
                transport.sum_on_model_device(values)
                times.append(time.perf_counter() - began)
            told["sums"][size] = float(np.median(times[WARM_UP:]))
    step.exchange = Exchange(transport, lambda: step.weights, compiled=xla)
    batch = _batch(tf, np)
    times: list[float] = []
    for number in range(WARM_UP + STEPS):
        if number == WARM_UP:
            clocks = _clocks()
            step.exchange.take_pace()
        began = time.perf_counter()
        step(batch)
        times.append(time.perf_counter() - began)
    told |= {name: value - clocks[name] for name, value in _clocks().items()}
    told["step_s"] = float(np.median(times[WARM_UP:]))
    told |= step.exchange.take_pace().as_dict()
    (folder / f"{transport.cluster.rank}.json").write_text(json.dumps(told))
    transport.sum([0])


class _Alone:
    """A transport of one: its sums are what it is given."""

    cluster = Cluster(("127.0.0.1:1",), 0, "alone")
    model_device = "/CPU:0"

    def sum_on_model_device(self, values):
        return values

    sum = sum_on_model_device


def _clocks() -> dict[str, float]:
    """Seconds: on the wall, of this process, and of everyone on this machine's processor."""
    everyone = psutil.cpu_times()
    return {
        "wall_s": time.perf_counter(),
        "own_s": time.process_time(),
        "busy_s": sum(everyone) - everyone.idle - getattr(everyone, "iowait", 0.0)
        - getattr(everyone, "guest", 0.0) - getattr(everyone, "guest_nice", 0.0),
    }  # fmt: skip


def _batch(tf, np):
    random = np.random.default_rng(0)
    frames = random.normal(-5, 1, [ROWS, FRAMES, 80]).astype("float32")
    from myxtts.data.feature_batches import batch_from_features

    tokens = random.integers(4, 20, [ROWS, TOKENS]).astype("int32")
    lengths = np.full([ROWS], TOKENS, "int32"), np.full([ROWS], FRAMES, "int32")
    return batch_from_features((tokens, frames, *lengths), vocab_size=100)


def measure(replicas: int, *flags: str, timeout_s: float) -> list[dict]:
    """What each process of so many tells; none of them outlives a failure of another."""
    with tempfile.TemporaryDirectory() as folder:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(replicas)]
        processes = []
        try:
            for rank in range(replicas):
                told = {"TF_CONFIG": tf_config(addresses, rank)} if replicas > 1 else {}
                command = [sys.executable, "-m", "benchmarks.scale", "--member", folder, *flags]
                processes.append(subprocess.Popen(command, env={**os.environ, **told}))
            _wait(processes, timeout_s=timeout_s)
        finally:
            for process in processes:
                process.kill()
        return [json.loads((Path(folder) / f"{r}.json").read_text()) for r in range(replicas)]


def _wait(processes: list[subprocess.Popen], *, timeout_s: float) -> None:
    ends = time.monotonic() + timeout_s
    while True:
        codes = [process.poll() for process in processes]
        failed = [rank for rank, code in enumerate(codes) if code]
        waiting = [rank for rank, code in enumerate(codes) if code is None]
        if failed:
            raise SystemExit(f"replica {failed[0]} failed with code {codes[failed[0]]}")
        if not waiting:
            return
        if time.monotonic() > ends:
            raise SystemExit(
                f"replicas {waiting} of {len(processes)} did not end within {timeout_s:g} s\n"
                "  try: a quieter machine, --timeout, or --quick"
            )
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--member", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--replicas", default="1,2,4")
    parser.add_argument("--quick", action="store_true", help="a toy model: does it run at all?")
    parser.add_argument("--xla", action="store_true", help="compile the step")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for each number")
    arguments = parser.parse_args()
    if arguments.member is not None:
        member(arguments.member, quick=arguments.quick, xla=arguments.xla)
        return
    if arguments.paper:
        print("\n".join(paper()))
        return
    counts = [int(n) for n in arguments.replicas.split(",")]
    if not {1, 2} <= set(counts):
        parser.error("--replicas: 1 and 2 are needed, the prediction starts from them")
    flags = [f"--{name}" for name in ("quick", "xla") if getattr(arguments, name)]
    found = {}
    for n in counts:
        began = time.monotonic()
        found[n] = measure(n, *flags, timeout_s=arguments.timeout)
        print(f"... {n} measured in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    report(found, "toy" if arguments.quick else "tiny voice")


def report(found: dict[int, list[dict]], name: str) -> None:
    """Print what was measured, and what was predicted."""
    alone = found[1][0]["own_s"] / STEPS
    num_bytes = 4 * found[1][0]["parameters"]
    # The link is fitted to sums of two processes of other sizes than the model's.
    sums = found[2][0]["sums"]
    link = fit_link([Measured(4 * size, 2, sums[str(size)]) for size in SIZES])
    cores = len(os.sched_getaffinity(0))
    print(f"{name}, {num_bytes / 4e6:.2f} million parameters, {cores} cores, CPU, loopback")
    print(f"link fitted: {link.bytes_per_s / 1e6:.0f} MB/s, {link.latency_s * 1e3:.2f} ms a round")
    print(f"one process's step: {1e3 * alone:.1f} ms of processor time")
    print(
        f"{'replicas':>8} {'cores left':>10} {'step ms':>8} {'sum ms':>7} {'clips/s':>8} "
        f"{'of bound':>9} {'predicted':>10} {'its sum':>8} {'off by':>7}"
    )
    for n, told in found.items():
        step = max(one["step_s"] for one in told)
        summed = min(one["sum_s"][r] for r, one in enumerate(told)) if n > 1 else 0.0
        others = told[0]["busy_s"] - sum(one["own_s"] for one in told)
        left = min(cores, max(0.1, cores - others / told[0]["wall_s"]))
        # More processes than cores take turns; one alone has more than a core at times.
        crowded = max(found[1][0]["step_s"], alone * n / left)
        ring = ring_s(num_bytes, n, link) if n > 1 else 0.0
        predicted = crowded + ring
        print(
            f"{n:8d} {left:10.2f} {1e3 * step:8.1f} {1e3 * summed:7.1f} {n * ROWS / step:8.1f} "
            f"{crowded / step:9.0%} {1e3 * predicted:10.1f} {1e3 * ring:8.1f} "
            f"{predicted / step - 1:+7.0%}"
        )


def paper() -> list[str]:
    """The calculated tables."""
    parameters = count_parameters(XTTSConfig(model={"size": "big"}).model)
    num_bytes = 4 * parameters
    lines = [
        f"`big`: {parameters / 1e6:.1f} million parameters, {num_bytes / 1e6:.0f} MB of gradients",
        "",
        "| GPUs | " + " | ".join(f"{g} Gb/s" for g in NETWORKS) + " |",
        "|" + "---|" * (len(NETWORKS) + 1),
    ]
    for gpus in GPUS:
        cells = []
        for gigabits in NETWORKS:
            link = Link.of_network(gigabits)
            taken = ring_s(num_bytes, gpus, link)
            share = 1 - efficiency(PAPER_STEP_S, num_bytes, gpus, link)
            cells.append(f"{1e3 * taken:.0f} ms ({share:.0%})")
        lines.append(f"| {gpus} | " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    main()
