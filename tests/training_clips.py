"""Clips to train on, what is prepared of them, and the batches that come of that."""

from __future__ import annotations

import itertools

import numpy as np
import soundfile

from myxtts.config.config import DataConfig
from myxtts.data.loader import LoaderState
from myxtts.data.training_data import prepare_training

RATE = 22_050


def speak(folder, clips=24, speakers=2, first=0, longest=0.4, name="c"):
    """Hums of different lengths; every sixth as a stereo FLAC at another rate."""
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    rows = []
    for i in range(first, first + clips):
        rate, ending, channels = (16_000, "flac", 2) if i % 6 == 5 else (RATE, "wav", 1)
        t = np.arange(int((0.4 + longest * (i % 7) / 6) * rate)) / rate
        wave = np.repeat(0.4 * np.sin(2 * np.pi * (100 + i) * t)[:, None], channels, 1)
        soundfile.write(folder / "wavs" / f"{name}{i:03d}.{ending}", wave, rate)
        rows.append(f"wavs/{name}{i:03d}.{ending}|Clip {'x' * (i % 5 + 1)}.|s{i % speakers}\n")
    listed = folder / "metadata.csv"
    if not listed.exists():
        listed.write_text("audio_file|text|speaker_name\n")
    with listed.open("a") as file:
        file.writelines(rows)
    return folder


def prepare(folder, *, seed=3, steps=None, tokenizer=None, buckets=None, **settings):
    config = DataConfig(
        train_data=folder,
        **{"tokenizer": "characters", "batch_size": 4, "max_buckets": 2, **settings},
    )
    return prepare_training(config, seed=seed, steps=steps, tokenizer=tokenizer, buckets=buckets)


def as_bytes(batches):
    return [{key: np.asarray(value).tobytes() for key, value in b.items()} for b in batches]


def first_batches(data, count, *, states=None, **start):
    """The first batches from a state on, as bytes; the state behind each goes into `states`."""
    batches = data.batches(LoaderState(**start))
    found = []
    try:
        for batch in itertools.islice(batches, count):
            found += as_bytes([batch])
            if states is not None:
                states.append(batches.get_state())
        return found
    finally:
        batches.close()


def spoken_in(batches):
    """The texts of all rows that are not masked, sorted."""
    return sorted(
        tokens[:length].tolist()
        for batch in batches
        for tokens, length in zip(batch["tokens"], batch["token_lengths"], strict=True)
        if length
    )


def texts_of(table):
    return sorted(ids.tolist() for ids in table.tokens)
