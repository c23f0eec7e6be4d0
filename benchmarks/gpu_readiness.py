"""What every traced function of the hot paths would do on a GPU, asked of TensorFlow without one.

For a batch of 16 clips of 800 frames and 120 tokens, every model size, both heads, three
precisions. Launches, kernels and memories are read off TensorFlow's kernel registry; what is
compiled is lowered by XLA; the share of loops is the estimate for an RTX 3090 that `plan --cards`
makes. Nothing ran on a GPU.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # what is asked does not depend on one

from myxtts.checks.hot_paths import (
    Variant,
    bytes_read,
    data_paths,
    model_paths,
    vocoder_path,
)
from myxtts.checks.readiness_bars import Reading, read_path, shortcomings
from myxtts.config.presets import MODEL_SIZES
from myxtts.pipeline.budget import spec_bytes

HEADS = (("regression", False), ("regression", True), ("flow", False))  # the second with a critic
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
QUICK = (
    Variant("tiny", critic=True),
    Variant("tiny", "flow", "mixed_bfloat16"),
    Variant("normal", "regression", "mixed_bfloat16"),
)
SHOWN = 5  # of what one function lacks


def heading() -> str:
    return (
        f"{'function':12s}{'model':26s}{'as':5s}{'launches':>9s}{'in loops':>9s}{'rounds':>8s}"
        f"{'missing':>8s}{'on host':>8s}{'trips':>6s}{'input':>6s}  {'lowered':22s}"
        f"{'loops of a step':16s}"
    )


def row(reading: Reading, model: str) -> str:
    found, lowering, estimate = reading.found, reading.lowering, reading.estimate
    rounds = sum(rounds or 0 for _, rounds in found.loops)
    unknown = "+?" if any(rounds is None for _, rounds in found.loops) else ""
    if lowering is None:
        counts = (found.launches, found.in_loops, f"{rounds}{unknown}")
        rest = (len(found.missing), len(found.on_host), reading.trips, len(found.inputs))
        lowered = "not compiled"
    else:
        counts, rest = ("-", "-", f"{rounds}{unknown}"), ("-", "-", reading.trips, "-")
        where = f"{lowering.platform}, {lowering.instructions} instr."
        lowered = f"yes ({where})" if lowering.is_ready else "NO"
    share = ""
    if estimate is not None:
        share = f"{estimate.loop_share:.1%} of {estimate.seconds * 1e3:.1f} ms"
    return (
        f"{reading.name:12s}{model:26s}{'ops' if lowering is None else 'XLA':5s}"
        f"{counts[0]:>9}{counts[1]:>9}{counts[2]:>8}"
        f"{rest[0]:>8}{rest[1]:>8}{rest[2]:>6}{rest[3]:>6}  {lowered:22s}{share:16s}"
    )


class Table:
    """Prints each reading as it is made, and remembers what it lacks."""

    def __init__(self) -> None:
        self.missed = 0
        print(heading())

    def add(self, reading: Reading, model: str = "any") -> None:
        """Judge one function."""
        lacking = list(shortcomings(reading))
        self.missed += bool(lacking)
        print(row(reading, model), "MISSED" if lacking else "ok", flush=True)
        for line in lacking[:SHOWN]:
            print(f"    {line}")
        if len(lacking) > SHOWN:
            print(f"    ... and {len(lacking) - SHOWN} more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three models instead of all")
    parser.add_argument("--size", choices=MODEL_SIZES, help="the nine models of one size")
    options = parser.parse_args()
    sizes = [options.size] if options.size else MODEL_SIZES
    whole = (
        Variant(size, head, policy, critic)
        for size, (head, critic), policy in itertools.product(sizes, HEADS, POLICIES)
    )
    table = Table()
    paths, batch = data_paths()
    for path in (*paths, vocoder_path()):
        table.add(read_path(path))
    crossing, unread = spec_bytes(batch), set()
    for variant in QUICK if options.quick else whole:
        for path in model_paths(variant, batch):
            table.add(read_path(path), str(variant))
            if path.name == "gradients":
                unread.add(crossing - bytes_read(path.concrete, batch))
        gc.collect()
    print(
        f"\n{crossing:,} bytes cross a batch in one call, of which the step never reads "
        f"{max(unread):,}"
    )
    table.missed += bool(max(unread))
    print("all bars met" if not table.missed else f"{table.missed} bars missed")
    sys.exit(bool(table.missed))


if __name__ == "__main__":
    main()
