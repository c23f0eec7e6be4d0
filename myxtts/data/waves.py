"""Where a clip's samples come from: its own file, a converted one, memory, or the disk cache.

All of them give audio as the pipeline wants it: mono, 22 050 Hz, 16 bits.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from myxtts.data.audio import SAMPLE_RATE
from myxtts.data.mono import to_mono
from myxtts.data.table import ClipTable
from myxtts.errors import DataError

STORE_VERSION = 2  # of what the caches hold: raised when a file would be decoded differently

Wave = npt.NDArray[np.int16]


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


class WavFiles:
    """Decodes a file each time it is asked for; 16-bit WAV without a detour."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def read(self, index: int) -> Wave:
        """The clip's samples."""
        path = Path(self._paths[index])
        with soundfile.SoundFile(path) as sound:
            if (sound.subtype, sound.channels, sound.samplerate) == ("PCM_16", 1, SAMPLE_RATE):
                wave: Wave = sound.read(dtype="int16")
                return wave
        return decode(path)  # replaced by another kind of file since it was checked


class MemoryWaves:
    """Every clip, decoded once and kept in memory."""

    def __init__(self, waves: Sequence[Wave]) -> None:
        self._waves = waves

    def read(self, index: int) -> Wave:
        """The clip, straight from memory."""
        return self._waves[index]


class StoredWaves:
    """Every clip behind the other in one file of 16-bit samples, mapped into memory."""

    def __init__(self, path: Path, lengths: npt.NDArray[np.int64]) -> None:
        self._samples = np.memmap(path, dtype=np.int16, mode="r")
        ends = np.cumsum(lengths)
        self._starts, self._ends = ends - lengths, ends

    def read(self, index: int) -> Wave:
        """The clip's stretch of the file."""
        return self._samples[self._starts[index] : self._ends[index]]


def stamp_of(path: Path) -> str:
    """What changes when a file does: its size and time."""
    stat = path.stat()
    return f"{stat.st_size}:{stat.st_mtime_ns}"


def open_cache(
    table: ClipTable, cache: Literal["memory", "disk"], *, on_clip: Callable[[], None]
) -> WaveSource:
    """Every clip decoded once: into one file on disk, or into memory."""
    if cache == "disk":
        return open_store(table.folder, table.paths, cache=table.cache_folder, on_clip=on_clip)[0]

    def load(path: str) -> Any:
        wave = decode(table.folder / path)
        on_clip()
        return wave

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return MemoryWaves(list(pool.map(load, table.paths)))


def native_paths(table: ClipTable, *, on_clip: Callable[[], None] = lambda: None) -> list[str]:
    """A WAV that TensorFlow reads for every clip; other formats and rates are converted once."""
    folder = table.cache_folder / "converted"

    def ready(clip: tuple[str, bool]) -> str:
        path, native = clip
        source = table.folder / path
        if native:
            return str(source)
        key = f"{STORE_VERSION}\0{path}\0{stamp_of(source)}"
        target = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.wav"
        if not target.exists():
            wave = decode(source)
            try:
                partial = target.with_suffix(f".{os.getpid()}.tmp")
                soundfile.write(partial, wave, SAMPLE_RATE, "PCM_16", format="WAV")
                partial.replace(target)
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
        return list(pool.map(ready, zip(table.paths, table.native.tolist(), strict=True)))


def _not_writable(folder: Path, error: Exception) -> DataError:
    return DataError(
        f"Converted clips cannot be written to {folder}: {error}",
        "free some space, make the folder writable, or give 16-bit mono WAV at 22 050 Hz",
    )


def open_store(
    folder: Path,
    paths: Sequence[str],
    *,
    cache: Path,
    on_clip: Callable[[], None] = lambda: None,
) -> tuple[StoredWaves, npt.NDArray[np.int64]]:
    """The disk cache of these clips and their lengths; made if missing, or if a file changed.

    The index is written last and under another name until it is whole, so a run killed while it
    writes leaves nothing that looks finished.
    """
    key = hashlib.sha256("\0".join(paths).encode(errors="surrogateescape")).hexdigest()[:16]
    data, index = cache / f"clips-{key}.i16", cache / f"clips-{key}.json"
    stamps = [stamp_of(folder / path) for path in paths]
    lengths = _stored_lengths(data, index, stamps)
    if lengths is None:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            lengths = _write_store(folder, paths, data, on_clip)
            partial = index.with_suffix(f".{os.getpid()}.tmp")
            partial.write_text(
                json.dumps(
                    {"version": STORE_VERSION, "stamps": stamps, "lengths": lengths.tolist()}
                )
            )
            partial.replace(index)
        except OSError as error:
            raise DataError(
                f"The disk cache {data} cannot be written: {error}",
                "free some space, or leave out --cache disk",
            ) from error
    return StoredWaves(data, lengths), lengths


def _stored_lengths(data: Path, index: Path, stamps: list[str]) -> npt.NDArray[np.int64] | None:
    """The lengths of a whole and current store, else None."""
    try:
        stored = json.loads(index.read_text())
        lengths = np.array(stored["lengths"], np.int64)
        current = stored["version"] == STORE_VERSION and stored["stamps"] == stamps
        whole = data.stat().st_size == int(lengths.sum()) * 2
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return lengths if current and whole else None


def _write_store(
    folder: Path, paths: Sequence[str], data: Path, on_clip: Callable[[], None]
) -> npt.NDArray[np.int64]:
    lengths = np.zeros(len(paths), np.int64)
    partial = data.with_suffix(f".{os.getpid()}.tmp")
    workers = os.cpu_count() or 1
    with partial.open("wb") as file, ThreadPoolExecutor(workers) as pool:
        # A few at a time: `map` over all would hold every decoded clip in memory.
        for start in range(0, len(paths), 64):
            some = [folder / path for path in paths[start : start + 64]]
            for offset, wave in enumerate(pool.map(decode, some)):
                wave.tofile(file)
                lengths[start + offset] = len(wave)
                on_clip()
        file.flush()
        os.fsync(file.fileno())
    partial.replace(data)
    return lengths
