"""How fast data becomes batches: log-mels against peers, the host stage, a million rows, padding.

Everything runs side by side on this machine's CPU, in turns, and medians are printed. Compilation
is excluded from the log-mel rows. Not measured on a GPU.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):  # nobody's single thread may borrow a core
    os.environ[f"{library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402 - after its threads are decided

from benchmarks import in_child  # noqa: E402
from myxtts.data.batching import BatchPlan  # noqa: E402
from myxtts.data.buckets import choose_buckets  # noqa: E402
from myxtts.data.manifests import read_manifest  # noqa: E402

CORES = sorted(os.sched_getaffinity(0))
RATE, FFT, HOP, MELS, FMAX, FLOOR = 22_050, 1024, 256, 80, 8000, 1e-5
ROWS, CLIP_S = 16, 6
HOST_COPIES = 6  # of the built-in corpus, so that the pipeline runs full for a while
FILLING_BATCHES = 24  # left out at both ends: buffers fill there, and run dry
MILLION = 1_000_000
MAX_BUCKETS = 6
# Every twentieth of LJ Speech's 13 100 texts by length, and how long its reader takes on average.
CHARACTERS = (12, 40, 52, 61, 69, 76, 82, 87, 92, 98, 102)
CHARACTERS += (107, 112, 117, 121, 126, 131, 137, 142, 151, 187)
FRAMES_PER_CHARACTER = 0.066 * RATE / HOP


@dataclass(frozen=True)
class Row:
    """One line of the table; without a bar it is there to compare with."""

    name: str
    value: float
    unit: str
    bar: tuple[str, float] | None = None  # "at least" or "at most", and the number
    judged: float | None = None  # what the bar is for, where that is not the value
    note: str = ""

    @property
    def verdict(self) -> str:
        """What the table says on the bar: `ok`, by how much it is missed, or nothing."""
        if self.bar is None:
            return ""
        judged = self.value if self.judged is None else self.judged
        side, limit = self.bar
        if side == "at least":
            return "ok" if judged >= limit else f"BELOW {limit:g}"
        return "ok" if judged <= limit else f"OVER {limit:g}"

    def __str__(self) -> str:
        bar = "" if self.bar is None else f"{self.bar[0]} {self.bar[1]:g}"
        line = f"{self.name:38s}{self.value:10.3f} {self.unit:10s}{bar:12s}{self.verdict:9s}"
        return f"{line}{self.note}".rstrip()


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def compared(title: str, speed: float, unit: str, who: str, ratios: Iterable[float]) -> Row:
    """A peer's row: the bar is that `who` is at least level with it, by the median of rounds."""
    low, ratio, high = np.quantile(list(ratios), [0.25, 0.5, 0.75])
    note = f"{who} is {ratio:.2f} times as fast (half between {low:.2f} and {high:.2f})"
    return Row(title, speed, unit, bar=("at least", 1), judged=ratio, note=note)


# -- log-mels --


def librosa_mels(waves: np.ndarray) -> np.ndarray:
    import librosa

    mels = librosa.feature.melspectrogram(
        y=waves, sr=RATE, n_fft=FFT, hop_length=HOP, power=1, n_mels=MELS, fmax=FMAX,
        pad_mode="reflect",
    )  # fmt: skip
    return np.log(np.maximum(mels, FLOOR)).transpose(0, 2, 1)


def scipy_mels(waves: np.ndarray) -> np.ndarray:
    """As one writes it by hand: 12 times as fast as scipy.signal.ShortTimeFFT."""
    import scipy

    from myxtts.features.filters import mel_matrix

    window = scipy.signal.get_window("hann", FFT).astype(np.float32)

    def one(wave: np.ndarray) -> np.ndarray:
        padded = np.pad(wave, FFT // 2, mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP]
        return np.log(np.maximum(np.abs(scipy.fft.rfft(frames * window)) @ mel_matrix(), FLOOR))

    return np.stack([one(wave) for wave in waves])


def kaldi_mels(waves: np.ndarray) -> np.ndarray:
    import kaldi_native_fbank as kaldi

    options = kaldi.FbankOptions()
    frame, mel = options.frame_opts, options.mel_opts
    frame.samp_freq, frame.window_type, frame.dither = RATE, "hann", 0
    # It cuts these down to whole samples.
    frame.frame_length_ms, frame.frame_shift_ms = ((n + 0.5) * 1e3 / RATE for n in (FFT, HOP))
    frame.preemph_coeff, frame.remove_dc_offset = 0, False
    mel.num_bins, mel.low_freq, mel.high_freq, mel.is_librosa = MELS, 0, FMAX, True
    options.use_power = False

    def one(wave: np.ndarray) -> np.ndarray:
        bank = kaldi.OnlineFbank(options)
        bank.accept_waveform(RATE, np.pad(wave, FFT // 2, mode="reflect"))
        bank.input_finished()
        return np.stack([bank.get_frame(i) for i in range(bank.num_frames_ready)])

    return np.stack([one(wave) for wave in waves])


PEERS = {"scipy.fft": scipy_mels, "librosa": librosa_mels, "kaldi-native-fbank": kaldi_mels}


def our_mels(waves: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The device stage's own; its input lies on the device, as a peer's lies in an array."""
    import tensorflow as tf

    from myxtts.features.mels import log_mel

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    compiled = tf.function(log_mel, jit_compile=True)
    tensor, lengths = tf.constant(waves), tf.fill([ROWS], waves.shape[1])
    return lambda _: compiled(tensor, lengths).numpy()


def time_mels(threads: int, rounds: int) -> dict[str, list[float] | str]:
    """Seconds of a batch in every thread at once, round by round; or why there are none."""
    os.sched_setaffinity(0, CORES[-threads:])
    noise = np.random.default_rng(0).normal(scale=0.1, size=[ROWS, CLIP_S * RATE])
    waves = noise.astype(np.float32)
    ways = {"ours": our_mels(waves)} | PEERS
    times: dict[str, Any] = {}
    expected = ways["ours"](waves)  # compiles
    for name, way in ways.items():
        try:
            error = np.abs(way(waves) - expected).max()
        except ImportError:
            times[name] = f"not installed: pip install {name.split('.')[0]}"
        else:
            assert error < 1e-3, f"{name} computes something else: {error}"
            times[name] = []
    with ThreadPoolExecutor(threads) as pool:
        # Each thread calls on its own: measured, this gives TensorFlow every core too.
        for turn in range(rounds):
            racing = [name for name, seen in times.items() if isinstance(seen, list)]
            if turn >= 5:  # a peer far behind need not hold up the rest
                racing = [n for n in racing if min(times[n]) < 3 * min(times["ours"])]
            for name in racing[:: 1 if turn % 2 else -1]:
                way, batches = ways[name], [waves] * threads
                times[name].append(seconds(lambda: list(pool.map(way, batches))))  # noqa: B023
    return times


def mel_rows(threads: int, rounds: int) -> Iterable[Row]:
    times = in_child(time_mels, threads, rounds)
    hours = threads * ROWS * CLIP_S / 3600
    where = "one core" if threads == 1 else f"{threads} cores"
    for name, seen in times.items():
        title = f"log-mel, {where}, {name}"
        if isinstance(seen, str):
            yield Row(title, float("nan"), "", note=seen)
            continue
        speed = hours / statistics.median(seen)
        if name == "ours":
            yield Row(title, speed, "audio-h/s", note="compilation excluded")
            continue
        ratios = (peer / own for peer, own in zip(seen, times["ours"], strict=False))
        yield compared(title, speed, "audio-h/s", "ours", ratios)


# -- host stage --


def time_host(folder: Path, rounds: int) -> dict[str, list[float]]:
    """Clips a second, round by round, by where they are read from."""
    import soundfile

    from myxtts.config.config import DataConfig
    from myxtts.data.loader import HostBatches
    from myxtts.data.prepare import plan_batches, prepare_data

    config = DataConfig(tokenizer="characters", batch_size=ROWS)
    clips = prepare_data(folder, config).table()
    table = clips.take(np.tile(np.arange(len(clips)), HOST_COPIES))
    plan = plan_batches(table, config)

    def ours(batches: HostBatches) -> float:
        rows = itertools.islice(batches, FILLING_BATCHES, len(plan) - FILLING_BATCHES)
        next(rows)
        began = time.perf_counter()
        clips = sum(int((batch["token_lengths"] > 0).sum()) for batch in rows)
        return clips / (time.perf_counter() - began)

    def loop() -> float:
        order = [table.folder / table.paths[i] for batch in plan for i in batch.indices if i >= 0]
        with ThreadPoolExecutor(len(CORES)) as pool:
            took = seconds(
                lambda: list(pool.map(lambda path: soundfile.read(path, dtype="int16"), order))
            )
        return len(order) / took

    ways: dict[str, Callable[[], float]] = {"a plain soundfile loop": loop}
    for name, cache in {"WAV files": None, "disk cache": "disk", "memory cache": "memory"}.items():
        batches = HostBatches(table, plan, cache=cache)
        ways[name] = lambda batches=batches: ours(batches)
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            speeds[name].append(way())
    return speeds


def host_rows(folder: Path, rounds: int) -> Iterable[Row]:
    from myxtts.corpora.demo import make_demo_corpus

    make_demo_corpus(folder)
    speeds = in_child(time_host, folder, rounds)
    for name, seen in speeds.items():
        title, speed = f"host stage, {name}", statistics.median(seen)
        if "cache" in name:
            yield Row(title, speed, "clips/s", note="once made; padded, with references")
        else:
            ratios = (disk / other for disk, other in zip(speeds["disk cache"], seen, strict=True))
            yield compared(title, speed, "clips/s", "the disk cache", ratios)


# -- a million rows --


def like_ljspeech(count: int) -> np.ndarray:
    """Characters of so many texts."""
    draws = np.random.default_rng(0).uniform(0, len(CHARACTERS) - 1, count)
    return np.interp(draws, range(len(CHARACTERS)), CHARACTERS).astype(np.int64)


def to_frames(characters: np.ndarray) -> np.ndarray:
    return np.maximum(1, characters * FRAMES_PER_CHARACTER).astype(np.int64)


def write_manifest(path: Path) -> None:
    words = "in being comparatively modern, it has never been surpassed; " * 8
    with path.open("w") as file:
        for i, length in enumerate(like_ljspeech(MILLION).tolist()):
            text = words[i % 60 : i % 60 + length]
            file.write(f"LJ{i:09d}|{text}|{text}\n")


def read_million(path: Path) -> tuple[float, float, np.ndarray]:
    """Seconds and GB it took, and the characters of each text."""

    def memory(key: str) -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split(f"{key}:")[1].split()[0]) * 1024

    before = memory("VmRSS")
    began = time.perf_counter()
    manifest = read_manifest(path)
    took = time.perf_counter() - began
    peak = memory("VmHWM") - before
    assert len(manifest) == MILLION
    assert not manifest.bad_rows
    return took, peak / 1e9, np.array([len(text) for text in manifest.texts])


def million_rows(path: Path) -> Iterable[Row]:
    write_manifest(path)
    took, gigabytes, characters = in_child(read_million, path)
    yield Row("a million rows, read", took, "s", bar=("at most", 15))
    yield Row("a million rows, memory at its peak", gigabytes, "GB more", bar=("at most", 1))
    frames = to_frames(characters)
    began = time.perf_counter()
    buckets = choose_buckets(frames, characters, max_buckets=MAX_BUCKETS)
    plan = BatchPlan(frames, characters, buckets=buckets)
    planned = time.perf_counter()
    yield Row("a million rows, buckets and plan", planned - began, "s", bar=("at most", 3))
    skip = seconds(lambda: plan[len(plan) // 2])
    yield Row("a million rows, skip to the middle", skip * 1e3, "ms", bar=("at most", 10))


def padding_rows(transcripts: Path | None) -> Iterable[Row]:
    characters, of = like_ljspeech(13_100), "made-up lengths like LJ Speech's"
    if transcripts:
        texts = read_manifest(transcripts).texts
        characters, of = np.array([max(1, len(text)) for text in texts]), transcripts.name
    frames = to_frames(characters)
    buckets = choose_buckets(frames, characters, max_buckets=MAX_BUCKETS, batch_size=ROWS)
    plan = BatchPlan(frames, characters, buckets=buckets, batch_size=ROWS)
    yield Row(
        f"padding, {MAX_BUCKETS} buckets",
        plan.padding_waste * 100,
        "%",
        bar=("at most", 12),
        note=of,
    )
    yield Row("padding, one static shape", plan.static_shape_waste * 100, "%", note=of)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--transcripts", type=Path, metavar="FILE", help="LJSpeech's metadata.csv")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    mel_rounds, host_rounds = (9, 3) if options.quick else (41, 7)
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for row in itertools.chain(
            *(mel_rows(threads, mel_rounds) for threads in sorted({1, len(CORES)})),
            host_rows(Path(folder, "demo"), host_rounds),
            million_rows(Path(folder, "metadata.csv")),
            padding_rows(options.transcripts),
        ):
            missed += row.verdict not in ("", "ok")
            print(row, flush=True)
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
