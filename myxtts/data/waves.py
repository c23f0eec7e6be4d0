"""A clip's samples from its own file or a converted one: mono, 22 050 Hz, 16 bits."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from myxtts.data.lost import describe_shrunk, least_samples
from myxtts.data.mono import to_mono
from myxtts.data.table import ClipTable
from myxtts.documents import replacing
from myxtts.errors import DataError
from myxtts.features.audio import SAMPLE_RATE

DECODING = 2  # raised when a file would be decoded differently, so that what is kept is made anew
Wave = npt.NDArray[np.int16]
UNREADABLE = (OSError, soundfile.SoundFileError, RuntimeError, ValueError)  # soxr's are the latter


class WaveSource(Protocol):
    """Where a clip's samples come from, by its position in the table."""

    def read(self, index: int) -> Wave:
        """The clip as 16-bit samples."""


def decode(path: Path) -> Wave:
    """Any audio file as mono 16-bit samples at 22 050 Hz."""
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    mono = to_mono(samples)
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE)
    wave: Wave = np.clip(np.rint(mono * 32768.0), -32768, 32767).astype(np.int16)
    return wave


def try_decode(table: ClipTable, clip: int, *, least: int) -> Wave | str:
    """A clip of which at least so many samples must be there, or why it is not to be had."""
    try:
        wave = decode(table.folder / table.paths[clip])
    except UNREADABLE as error:
        return str(error)
    return wave if len(wave) >= least else describe_shrunk(len(wave), int(table.samples[clip]))


class WavFiles:
    """Decodes a file each time it is asked for; 16-bit WAV without a detour.

    A converted file that is damaged is made anew from the clip itself.
    """

    def __init__(self, paths: Sequence[str], table: ClipTable) -> None:
        self._paths, self._table = paths, table
        self._least = least_samples(table)

    def read(self, index: int) -> Wave:
        """The clip's samples."""
        path = Path(self._paths[index])
        converted = not self._table.native[index]
        try:
            wave = _read_wav(path)
        except UNREADABLE:
            if not converted:
                raise
        else:
            if not converted or len(wave) >= self._least[index]:
                return wave
        wave = decode(self._table.folder / self._table.paths[index])
        with contextlib.suppress(OSError, soundfile.SoundFileError):  # a full disk: next time again
            _write_wav(path, wave)
        return wave


def native_paths(table: ClipTable, *, on_clip: Callable[[], None] = lambda: None) -> list[str]:
    """A WAV that TensorFlow reads for every clip; other formats and rates are converted once.

    One that can no longer be converted is not there, which is noticed when it is to be read.
    """
    folder = table.cache_folder / "converted"
    least = least_samples(table)

    def ready(clip: int) -> str:
        path = table.paths[clip]
        source = table.folder / path
        if table.native[clip]:
            return str(source)
        key = f"{DECODING}\0{path}\0{stamp_of(source)}"
        target = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.wav"
        if not target.exists():
            wave = try_decode(table, clip, least=int(least[clip]))
            try:
                if not isinstance(wave, str):
                    _write_wav(target, wave)
            except (OSError, soundfile.SoundFileError) as error:
                raise _not_writable(folder, error) from error
        on_clip()
        return str(target)

    if not table.native.all():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _not_writable(folder, error) from error
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(ready, range(len(table))))


def stamp_of(path: Path) -> str:
    """What changes when a file does: its size and time; nothing where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return ""
    return f"{stat.st_size}:{stat.st_mtime_ns}"


def _read_wav(path: Path) -> Wave:
    with soundfile.SoundFile(path) as sound:
        if (sound.subtype, sound.channels, sound.samplerate) == ("PCM_16", 1, SAMPLE_RATE):
            wave: Wave = sound.read(dtype="int16")
            return wave
    return decode(path)  # replaced by another kind of file since it was checked


def _write_wav(path: Path, wave: Wave) -> None:
    with replacing(path) as partial:
        soundfile.write(partial, wave, SAMPLE_RATE, "PCM_16", format="WAV")


def _not_writable(folder: Path, error: Exception) -> DataError:
    return DataError(
        f"Converted clips cannot be written to {folder}: {error}",
        "free some space, make the folder writable, or give 16-bit mono WAV at 22 050 Hz",
    )
