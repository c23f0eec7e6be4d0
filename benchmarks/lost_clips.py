"""How fast batches are read with some clips lost, against none: a ratio, in one process, in turns.

A lost clip is found once, in the first epoch, and masked from then on. Both are measured: the
epoch in which they are found, and those after it. Batches are counted, since training waits for
these; of the clips in them some are missing, so their rate is that share lower.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import soundfile

from myxtts.config.config import DataConfig
from myxtts.data.loader import LoaderState
from myxtts.data.training_data import TrainingData, prepare_training
from myxtts.features.audio import SAMPLE_RATE

BAR = 0.95
TURN_BATCHES = 25
WAYS = {
    "TensorFlow": {"use_tf_native_loading": True},
    "soundfile": {"use_tf_native_loading": False},
}


def make_clips(folder: Path, count: int) -> None:
    """Noise of 2 to 6 seconds; the bytes are as many as those of speech."""
    (folder / "wavs").mkdir(parents=True)
    random = np.random.default_rng(0)
    rows = []
    for i in range(count):
        wave = random.integers(-9000, 9000, random.integers(2, 6) * SAMPLE_RATE, dtype=np.int16)
        soundfile.write(folder / "wavs" / f"c{i:05d}.wav", wave, SAMPLE_RATE)
        rows.append(f"wavs/c{i:05d}.wav|{'some words ' * (2 + i % 5)}|s{i % 4}\n")
    listed = "audio_file|text|speaker_name\n" + "".join(rows)
    (folder / "metadata.csv").write_text(listed, encoding="utf-8")


def lose(data: TrainingData, share: float) -> None:
    """Take files away, spread over the training clips."""
    count = int(share * len(data.train))
    for clip in np.linspace(0, len(data.train) - 1, count).astype(int) if count else ():
        (data.train.folder / data.train.paths[clip]).unlink()


def batches_a_second(batches: Iterable[Any]) -> Any:
    """By the clock, and by the processor's time, which tells more on a busy machine."""

    def now() -> Any:
        return np.array([time.perf_counter(), time.process_time()])

    began = now()
    return sum(1 for _ in batches) / (now() - began)


def measure(sources: dict[str, TrainingData], turns: int) -> tuple[Any, Any, float]:
    """How fast with clips lost against none: while they are found, and after; and with none."""
    batches_a_second(sources["none"].batches(epochs=1))  # TensorFlow starts
    first = {name: batches_a_second(data.batches(epochs=1)) for name, data in sources.items()}
    streams = {name: data.batches(LoaderState(1)) for name, data in sources.items()}
    speeds: dict[str, list[Any]] = {name: [] for name in sources}
    for turn in range(turns):
        for name in list(sources)[:: 1 if turn % 2 else -1]:  # neither always comes first
            speeds[name].append(batches_a_second(itertools.islice(streams[name], TURN_BATCHES)))
    for stream in streams.values():
        stream.close()
    # Of all turns: on a busy machine a single one tells little.
    mean = {name: 1 / np.mean(1 / np.array(seen), axis=0) for name, seen in speeds.items()}
    return first["lost"] / first["none"], mean["lost"] / mean["none"], float(mean["none"][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=1200)
    parser.add_argument("--share", type=float, default=0.05, help="of the training clips, lost")
    parser.add_argument("--turns", type=int, default=40, help=f"of {TURN_BATCHES} batches each")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    missed = False
    for way, settings in WAYS.items():
        with tempfile.TemporaryDirectory() as place:
            sources = {}
            for name, share in (("none", 0.0), ("lost", options.share)):
                folder = Path(place, name)
                make_clips(folder, options.clips)
                config = DataConfig(
                    train_data=folder, tokenizer="characters", max_lost_share=1.0, **settings
                )
                sources[name] = prepare_training(config, seed=0)
                lose(sources[name], share)
            first, later, fast = measure(sources, options.turns)
        missed |= bool(later[0] < BAR)
        print(
            f"read by {way}: {fast:.0f} batches/s with none lost; with {options.share:.0%} lost "
            f"{later[0]:.3f} of that (at least {BAR}; {later[1]:.3f} by the processor's time); in "
            f"the epoch in which they are found {first[0]:.3f} ({first[1]:.3f})",
            flush=True,
        )
    sys.exit(missed)


if __name__ == "__main__":
    main()
