"""A few clips of all kinds, and the batches read from them."""

from __future__ import annotations

import numpy as np
import soundfile

from myxtts.config.config import DataConfig
from myxtts.data.batching import BatchPlan
from myxtts.data.buckets import choose_buckets
from myxtts.data.prepare import prepare_data

RATE = 22_050


def speak(folder, clips=11, speakers=2):
    """Hums of different lengths: most as WAV at our rate, some as other files."""
    (folder / "wavs").mkdir(parents=True)
    random = np.random.default_rng(0)
    rows = []
    for i in range(clips):
        name, rate, channels = f"c{i:02d}.wav", RATE, 1
        if i % 5 == 3:
            name, rate, channels = f"c{i:02d}.flac", 16_000, 2
        t = np.arange(int((0.5 + 0.1 * i) * rate)) / rate
        wave = 0.4 * np.sin(2 * np.pi * (100 + 10 * i) * t) + random.normal(0, 0.01, len(t))
        soundfile.write(folder / "wavs" / name, np.repeat(wave[:, None], channels, 1), rate)
        rows.append(f"wavs/{name}|Clip number {'x' * (i + 1)}.|s{i % speakers}\n")
    (folder / "metadata.csv").write_text("audio_file|text|speaker_name\n" + "".join(rows))
    return folder


def open_clips(folder):
    return prepare_data(folder, DataConfig(tokenizer="characters")).table()


def plan_of(table, epoch=0, max_buckets=2):
    buckets = choose_buckets(
        table.frames, table.token_lengths, max_buckets=max_buckets, batch_size=4
    )
    return BatchPlan(
        table.frames, table.token_lengths, buckets=buckets, batch_size=4, seed=7, epoch=epoch
    )


def clips_in(batch, table):
    """Which clips a batch holds, by their texts; masked rows are left out."""
    texts = [ids.tolist() for ids in table.tokens]
    rows = zip(np.asarray(batch["tokens"]), np.asarray(batch["token_lengths"]), strict=True)
    return [texts.index(tokens[:length].tolist()) for tokens, length in rows if length]


def as_bytes(batches):
    return [
        {name: np.asarray(value).tobytes() for name, value in batch.items()} for batch in batches
    ]
