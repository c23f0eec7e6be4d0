"""How fast clips are read with some of them lost, against none: a ratio, in one process, in turns.

A lost clip is found once, in the first epoch, and masked from then on. Both are measured: the
epoch in which they are found, and those after it.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import soundfile

from myxtts.config.config import DataConfig
from myxtts.data.loader import LoaderState
from myxtts.data.training_data import TrainingData, prepare_training
from myxtts.features.audio import SAMPLE_RATE

BAR = 0.95
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


def clips_a_second(data: TrainingData, epoch: int) -> np.ndarray:
    """Of those that could be read, over one epoch and without the start of its reader.

    By the clock, and by the processor's time: on a busy machine the latter tells more.
    """
    batches = data.batches(LoaderState(epoch), epochs=epoch + 1)
    next(batches)
    began, clips = np.array([time.perf_counter(), time.process_time()]), 0
    for batch in batches:
        clips += int(np.count_nonzero(batch["token_lengths"]))
    return clips / (np.array([time.perf_counter(), time.process_time()]) - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=1200)
    parser.add_argument("--share", type=float, default=0.05, help="of the training clips, lost")
    parser.add_argument("--rounds", type=int, default=15, help="epochs after the first")
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
            speeds = []
            for epoch in range(1 + options.rounds):
                order = list(sources)[:: 1 if epoch % 2 else -1]  # neither always comes first
                speeds.append({name: clips_a_second(sources[name], epoch) for name in order})
        first, *later = (turn["lost"] / turn["none"] for turn in speeds)
        clock, processor = np.median(later, axis=0)
        fast = np.median([turn["none"][0] for turn in speeds[1:]])
        missed |= clock < BAR
        print(
            f"read by {way}: {fast:.0f} clips/s with none lost; with {options.share:.0%} lost "
            f"{clock:.3f} of that (at least {BAR}; {processor:.3f} by the processor's time), "
            f"{first[0]:.3f} while they are found ({first[1]:.3f})",
            flush=True,
        )
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
