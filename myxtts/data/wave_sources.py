"""Where a clip's samples come from: its own file, a converted one, memory, or the disk cache."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import soundfile

from myxtts.data.audio import SAMPLE_RATE
from myxtts.data.store import MemoryWaves, Wave, WaveSource, decode, open_store, stamp_of
from myxtts.data.table import ClipTable
from myxtts.errors import DataError


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
        name = hashlib.sha256(f"{path}\0{stamp_of(source)}".encode()).hexdigest()[:24]
        target = folder / f"{name}.wav"
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
