"""Clips decoded once: kept in memory, or behind each other in one file on disk with an index."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Literal

import numpy as np
import numpy.typing as npt

from myxtts.data.lost import least_samples
from myxtts.data.table import ClipTable
from myxtts.data.waves import DECODING, Wave, WaveSource, stamp_of, try_decode
from myxtts.errors import DataError

Lengths = npt.NDArray[np.int64]


def open_cache(
    table: ClipTable,
    cache: Literal["memory", "disk"],
    *,
    on_clip: Callable[[], None] = lambda: None,
) -> tuple[WaveSource, dict[int, str]]:
    """Every clip from a cache that is made now if it is not there; and why some are not in it."""
    if cache == "disk":
        return _open_store(table, on_clip)
    waves, unread = [], {}
    for clip, wave in _decode(table, np.arange(len(table))):
        if isinstance(wave, str):
            unread[clip], wave = wave, np.zeros(0, np.int16)
        waves.append(wave)
        on_clip()
    return MemoryWaves(waves), unread


class MemoryWaves:
    """Every clip in memory."""

    def __init__(self, waves: Sequence[Wave]) -> None:
        self._waves = waves

    def read(self, index: int) -> Wave:
        """The clip, straight from memory."""
        return self._waves[index]


class StoredWaves:
    """Reads clips out of the store, which is not mapped: a map of a file that shrinks kills us."""

    def __init__(self, path: Path, lengths: Lengths) -> None:
        self._file = path.open("rb", buffering=0)
        self._starts, self._lengths = 2 * (np.cumsum(lengths) - lengths), 2 * lengths

    def read(self, index: int) -> Wave:
        """The clip's stretch of the file."""
        size = int(self._lengths[index])
        found = os.pread(self._file.fileno(), size, int(self._starts[index]))
        if len(found) < size:
            raise ValueError("the disk cache was cut short")
        return np.frombuffer(found, np.int16)


def _open_store(
    table: ClipTable, on_clip: Callable[[], None]
) -> tuple[StoredWaves, dict[int, str]]:
    """The store of these clips; made if missing, or if a file changed.

    The index is written last and under another name until it is whole, so a run killed while it
    writes leaves nothing that looks finished.
    """
    cache = table.cache_folder
    names = "\0".join(table.paths).encode(errors="surrogateescape")
    key = hashlib.sha256(names).hexdigest()[:16]
    data, index = cache / f"clips-{key}.i16", cache / f"clips-{key}.json"
    _remove_leftovers(cache)
    stamps = [stamp_of(table.folder / path) for path in table.paths]
    lengths = _stored_lengths(data, index, stamps)
    unread: dict[int, str] = {}
    if lengths is not None:
        tried = _decode(table, np.flatnonzero(lengths == 0))
        unread = {clip: wave for clip, wave in tried if isinstance(wave, str)}
        if len(unread) < np.count_nonzero(lengths == 0):
            lengths = None  # one can be read again
    if lengths is None:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            lengths, unread = _write_store(table, data, on_clip)
            with _put_in_place(index) as file:
                told = {"version": DECODING, "stamps": stamps, "lengths": lengths.tolist()}
                file.write(json.dumps(told).encode())
        except OSError as error:
            raise DataError(
                f"The disk cache {data} cannot be written: {error}",
                "free some space, or leave out --cache disk",
            ) from error
    return StoredWaves(data, lengths), unread


def _stored_lengths(data: Path, index: Path, stamps: list[str]) -> Lengths | None:
    """The lengths of a whole and current store, else None."""
    try:
        stored = json.loads(index.read_text())
        lengths = np.array(stored["lengths"], np.int64)
        current = stored["version"] == DECODING and stored["stamps"] == stamps
        whole = data.stat().st_size == int(lengths.sum()) * 2
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return lengths if current and whole else None


def _write_store(
    table: ClipTable, data: Path, on_clip: Callable[[], None]
) -> tuple[Lengths, dict[int, str]]:
    lengths = np.zeros(len(table), np.int64)
    unread: dict[int, str] = {}
    with _put_in_place(data) as file:
        for clip, wave in _decode(table, np.arange(len(table))):
            if isinstance(wave, str):
                unread[clip] = wave
            else:
                wave.tofile(file)
                lengths[clip] = len(wave)
            on_clip()
    return lengths, unread


def _decode(table: ClipTable, clips: Lengths) -> Iterator[tuple[int, Wave | str]]:
    """Each clip in turn, decoded by all cores, or why it could not be."""
    least = least_samples(table)

    def decode(clip: int) -> Wave | str:
        return try_decode(table, clip, least=int(least[clip]))

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        # A few at a time: `map` over all would hold every decoded clip in memory.
        for start in range(0, len(clips), 64):
            some = clips[start : start + 64].tolist()
            yield from zip(some, pool.map(decode, some), strict=True)


@contextlib.contextmanager
def _put_in_place(path: Path) -> Iterator[IO[bytes]]:
    """A file that bears its name once it is whole, and leaves nothing behind if it never is."""
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with partial.open("wb") as file:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)  # as long as its writer lives
            yield file
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _remove_leftovers(cache: Path) -> None:
    """Remove what killed writers left, maybe gigabytes; the living hold theirs locked."""
    for leftover in cache.glob("clips-*.tmp"):
        with contextlib.suppress(OSError), leftover.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()
