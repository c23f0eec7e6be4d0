"""How many iterations Griffin-Lim is worth: distance and real-time factor, beside librosa's.

The distance compares the log-mel of the result with the log-mel that went in: decibels, root mean
square over the 80 bands, mean over frames and clips; bands more than 60 dB below a clip's loudest
are raised to that level first, for nobody hears them. The real-time factor is CPU seconds for a
second of audio, all threads counted, clip by clip, warm, on one thread: another program on the
machine does not change it much. librosa gets the mel through its own `mel_to_stft`. Not measured
on a GPU.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):  # nobody's single thread may borrow a core
    os.environ[f"{library}_NUM_THREADS"] = "1"

import librosa  # noqa: E402 - after its threads are decided
import numpy as np  # noqa: E402
import soundfile  # noqa: E402
import tensorflow as tf  # noqa: E402

from myxtts.features import mels  # noqa: E402
from myxtts.features.audio import FFT, HOP, SAMPLE_RATE  # noqa: E402
from myxtts.features.filters import MEL_FMAX  # noqa: E402
from myxtts.inference.vocoder import GriffinLim  # noqa: E402
from myxtts.text import espeak  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

ITERATIONS = (4, 8, 16, 24, 32, 48, 64, 100)
VOICES = ("en-us+f2", "en-us+m6")
SENTENCES = (
    "The old lighthouse keeper counted seven bright ships at noon.",
    "Please bring nine small maps and a green umbrella.",
)
BAR = 0.05  # real-time factor of the default; the whole synthesis may take 0.15
AUDIBLE_DB = 60.0
DECIBELS = 20.0 / np.log(10.0)  # of one natural-log unit
MAX_CLIP_S = 10

Speak = Callable[[np.ndarray], np.ndarray]


def log_mel(wave: np.ndarray) -> np.ndarray:
    mel: np.ndarray = mels.log_mel(tf.constant(wave[None]), tf.constant([len(wave)]))[0].numpy()
    return mel


def distance_db(wanted: np.ndarray, wave: np.ndarray) -> float:
    floor = wanted.max() - AUDIBLE_DB / DECIBELS
    off = np.maximum(wanted, floor) - np.maximum(log_mel(wave)[: len(wanted)], floor)
    return float(np.sqrt((off**2).mean(axis=1)).mean() * DECIBELS)


def spoken_clips() -> list[np.ndarray]:
    said = [espeak.speak(text, voice=voice) for voice in VOICES for text in SENTENCES]
    assert all(rate == SAMPLE_RATE for _, rate in said)
    return [wave.astype(np.float32) / 32768 for wave, _ in said]


def folder_clips(folder: Path, count: int) -> list[np.ndarray]:
    waves = []
    for path in sorted(folder.rglob("*.wav"))[:count]:
        wave, rate = soundfile.read(path, dtype="float32", always_2d=True)
        mono = librosa.resample(wave.mean(axis=1), orig_sr=rate, target_sr=SAMPLE_RATE)
        waves.append(mono[: MAX_CLIP_S * SAMPLE_RATE])
    return waves


def ours(iterations: int) -> Speak:
    vocoder = GriffinLim(iterations=iterations)
    vocoder([np.zeros([1, 80], np.float32)])  # its one trace
    return lambda mel: vocoder([mel])[0]


def librosas(iterations: int) -> Speak:
    def speak(mel: np.ndarray) -> np.ndarray:
        magnitude = librosa.feature.inverse.mel_to_stft(
            np.exp(mel.T), sr=SAMPLE_RATE, n_fft=FFT, power=1.0, fmax=MEL_FMAX
        )
        return np.asarray(
            librosa.griffinlim(
                magnitude, n_iter=iterations, hop_length=HOP, n_fft=FFT, random_state=0
            )
        )

    return speak


def measure(speak: Speak, mels: list[np.ndarray], repeats: int) -> tuple[float, float]:
    """The mean distance, and the median over clips of the best real-time factor."""
    distances, factors = [], []
    for mel in mels:
        times = []
        for _ in range(repeats):
            began = time.process_time()
            wave = speak(mel)
            times.append(time.process_time() - began)
        distances.append(distance_db(mel, wave))
        factors.append(min(times) * SAMPLE_RATE / (len(mel) * HOP))
    return statistics.mean(distances), statistics.median(factors)


def print_table(name: str, waves: list[np.ndarray], repeats: int, *, with_librosa: bool) -> None:
    mels = [log_mel(wave) for wave in waves]
    seconds = sum(map(len, waves)) / SAMPLE_RATE
    default = GriffinLim().iterations
    print(f"\n{name}: {len(waves)} clips, {seconds:.0f} s")
    print(f"{'iterations':>10s}{'dB':>9s}{'RTF':>9s}{'librosa dB':>14s}{'RTF':>9s}")
    for iterations in ITERATIONS:
        line = "{:10d}{:9.2f}{:9.4f}".format(iterations, *measure(ours(iterations), mels, repeats))
        if with_librosa:
            line += "{:14.2f}{:9.4f}".format(*measure(librosas(iterations), mels, 1))
        print(f"{line}{'  <- default' if iterations == default else ''}", flush=True)
    _, factor = measure(ours(default), mels, repeats)
    verdict = "ok" if factor <= BAR else f"OVER {BAR:g}"
    print(f"default, once more: RTF {factor:.4f} at most {BAR:g}: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="real clips (WAV) to measure too")
    parser.add_argument("--clips", type=int, default=8, help="of the folder, at most")
    parser.add_argument("--repeats", type=int, default=3, help="the quickest of these counts")
    parser.add_argument("--no-librosa", action="store_true", help="librosa takes most of the time")
    options = parser.parse_args()
    began = time.process_time()
    ours(1)
    print(f"first use (one trace for all lengths): {time.process_time() - began:.2f} s of CPU")
    sets = {"espeak-ng": spoken_clips()}
    if options.folder:
        sets[options.folder.name] = folder_clips(options.folder, options.clips)
    for name, waves in sets.items():
        if waves:
            print_table(name, waves, options.repeats, with_librosa=not options.no_librosa)
        else:
            print(f"\n{name}: no WAV files")


if __name__ == "__main__":
    main()
