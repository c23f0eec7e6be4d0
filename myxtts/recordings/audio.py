"""Reads a recording of any format and length as our samples, and how loud it is where."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from myxtts.data.clips import EXTENSIONS
from myxtts.data.mono import to_mono
from myxtts.errors import DataError
from myxtts.features.audio import SAMPLE_RATE

Wave = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float32]
READABLE = (*EXTENSIONS, ".opus", ".aif", ".aiff", ".au")  # by libsndfile
UNREADABLE = (".m4a", ".mp4", ".aac", ".wma", ".amr", ".webm", ".mkv", ".mov")
BLOCK = 1 << 20  # samples read at once: hours are never in memory as floats
MOST_HOURS = 12.0
LEVEL_HOP = 110  # samples between two levels
LEVEL_S = LEVEL_HOP / SAMPLE_RATE  # exactly: a rounded 5 ms is off by a second after ten minutes
_SMOOTH = 5  # levels that are averaged
_FLOOR_DB = -100.0


def length_of(path: Path) -> float:
    """Seconds, by the file's header."""
    if path.suffix.lower() in UNREADABLE:
        raise DataError(
            f"{path.suffix} files are not read here.",
            f"convert it, for example: ffmpeg -i {path.name} {path.stem}.flac",
        )
    try:
        facts = soundfile.info(str(path))
    except (soundfile.SoundFileError, OSError, RuntimeError) as error:
        raise DataError(f"it cannot be read: {error}", "convert it to WAV or FLAC") from error
    seconds = float(facts.frames / facts.samplerate)
    if seconds > 3600 * MOST_HOURS:
        raise DataError(f"it lasts {seconds / 3600:.1f} hours.", "split it into files of an hour")
    return seconds


def read_recording(path: Path) -> Wave:
    """Mono 16-bit samples at our rate, block by block."""
    parts: list[Wave] = []
    try:
        with soundfile.SoundFile(str(path)) as sound:
            turned = soxr.ResampleStream(sound.samplerate, SAMPLE_RATE, 1, dtype="float32")
            same = sound.samplerate == SAMPLE_RATE
            while len(block := sound.read(BLOCK, dtype="float32", always_2d=True)):
                mono = to_mono(block).astype(np.float32)
                parts.append(_to_int16(mono if same else turned.resample_chunk(mono)))
            if not same:
                parts.append(_to_int16(turned.resample_chunk(np.zeros(0, np.float32), last=True)))
    except (soundfile.SoundFileError, OSError, RuntimeError, ValueError) as error:
        raise DataError(f"it cannot be read: {error}", "convert it to WAV or FLAC") from error
    wave = np.concatenate(parts) if parts else np.zeros(0, np.int16)
    if not wave.any():
        raise DataError("nothing is heard in it.", "record it again")
    return wave


def levels(wave: Wave) -> Floats:
    """How loud it is every LEVEL_S seconds, in decibels of full scale, smoothed over 25 ms."""
    padded = np.pad(wave, [0, -len(wave) % LEVEL_HOP]).astype(np.float32) / 32768.0
    power = np.square(padded.reshape(-1, LEVEL_HOP)).mean(1)
    power = np.convolve(power, np.full(_SMOOTH, 1 / _SMOOTH), mode="same")
    return np.maximum(10.0 * np.log10(power + 1e-12), _FLOOR_DB).astype(np.float32)


def _to_int16(samples: Floats) -> Wave:
    if not np.isfinite(samples).all():
        raise ValueError("it holds samples that are not numbers")
    return np.asarray(np.clip(np.rint(samples * 32768.0), -32768, 32767), np.int16)
