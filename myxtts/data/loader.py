"""The host stage: reads the clips of each planned batch, in order, in parallel, for any cache."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import soundfile
import tensorflow as tf

from myxtts.data.audio import SAMPLE_RATE, bucket_samples
from myxtts.data.batching import Batch, BatchPlan, Bucket
from myxtts.data.store import (
    FileWaves,
    MemoryWaves,
    WaveSource,
    decode,
    open_store,
    stamp_of,
)
from myxtts.data.table import ClipTable

log = logging.getLogger(__name__)

HostBatch = dict[str, Any]


class HostBatches:
    """The batches of one epoch from a position on: 16-bit waves and token ids, padded to buckets.

    A batch depends only on the plan, its position and the seed: not on the cache, the number of
    workers, or where the run was resumed. A file that cannot be read any more becomes a masked row
    (`clips` is -1 there), is named once in the log, and counted in `lost`.
    """

    def __init__(
        self,
        table: ClipTable,
        plan: BatchPlan,
        *,
        start: int = 0,
        cache: Literal["memory", "disk"] | None = None,
        num_workers: int = 16,
        reference_seconds: float = 3.0,
        static_shapes: bool = True,
        waves: WaveSource | None = None,
        on_clip: Callable[[], None] = lambda: None,
    ) -> None:
        self._table, self._plan, self._start = table, plan, start
        self._num_workers = max(1, num_workers)
        self._reference_samples = int(reference_seconds * SAMPLE_RATE)
        self._static_shapes = static_shapes
        if not static_shapes:
            log.warning("Batches are padded to their own length: each new length compiles anew")
        self._by_speaker = [
            np.flatnonzero(table.speakers == speaker) for speaker in range(len(table.speaker_names))
        ]
        self._native_paths: list[str] | None = None
        self.lost: set[int] = set()
        if waves is not None:
            self.waves = waves
        elif cache is None:
            self._native_paths = native_paths(table, on_clip=on_clip)
            self.waves = FileWaves(Path("/"), self._native_paths)
        else:
            self.waves = open_cache(table, cache, on_clip=on_clip)

    def __len__(self) -> int:
        return len(self._plan) - self._start

    def __iter__(self) -> Iterator[HostBatch]:
        if self._native_paths is None:
            for position in range(self._start, len(self._plan)):
                request = self._request(position)
                yield self._finish(request, *self._read(request))
        else:
            yield from self._read_natively(self._native_paths)

    # -- what a batch consists of --

    def _request(self, position: int) -> dict[str, Any]:
        """Which clips, references and crops a batch takes: a pure function of seed and position."""
        batch = self._plan[position]
        random = np.random.Generator(
            np.random.PCG64(np.random.SeedSequence([self._plan.seed, self._plan.epoch, position]))
        )
        rows = len(batch.indices)
        draws = random.random((rows, 2))
        return {
            "shape": self._shape_of(batch),
            "clips": batch.indices,
            "references": np.array(
                [
                    self._other_clip(int(clip), draw)
                    for clip, draw in zip(batch.indices, draws[:, 0], strict=True)
                ],
                np.int64,
            ),
            "crops": draws[:, 1],
            "seed": random.integers(0, 2**31 - 1, 2, dtype=np.int32),
        }

    def _shape_of(self, batch: Batch) -> Bucket:
        """The bucket, or without static shapes just what the batch's own clips need."""
        clips = batch.indices[batch.indices >= 0]
        if self._static_shapes or not len(clips):
            return batch.bucket
        tokens = max(len(self._table.tokens[clip]) for clip in clips)
        return Bucket(int(self._table.frames[clips].max()), tokens)

    def _other_clip(self, clip: int, draw: float) -> int:
        """Another clip of the same speaker, or the clip itself where it is the only one."""
        if clip < 0:
            return -1
        same = self._by_speaker[int(self._table.speakers[clip])]
        if len(same) == 1:
            return clip
        position = int(np.searchsorted(same, clip))
        return int(same[(position + 1 + int(draw * (len(same) - 1))) % len(same)])

    def _finish(
        self,
        request: dict[str, Any],
        clips: Any,
        waves: Any,
        lengths: Any,
        refs: Any,
        ref_lengths: Any,
    ) -> HostBatch:
        table = self._table
        rows = len(clips)
        tokens = np.zeros([rows, request["shape"].tokens], np.int32)
        token_lengths = np.zeros([rows], np.int32)
        for row, clip in enumerate(clips):
            if clip >= 0:
                ids = table.tokens[clip]
                tokens[row, : len(ids)] = ids
                token_lengths[row] = len(ids)
        real = clips >= 0
        return {
            "waves": waves,
            "wave_lengths": lengths,
            "references": refs,
            "reference_lengths": ref_lengths,
            "tokens": tokens,
            "token_lengths": token_lengths,
            "speakers": np.where(real, table.speakers[clips], 0).astype(np.int32),
            "languages": np.where(real, table.languages[clips], 0).astype(np.int32),
            "clips": clips,
            "seed": request["seed"],
        }

    # -- reading --

    def _read(self, request: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Read a batch clip by clip; what cannot be read is masked."""
        clips = request["clips"].copy()
        samples = bucket_samples(request["shape"].frames)
        waves = np.zeros([len(clips), samples], np.int16)
        refs = np.zeros([len(clips), self._reference_samples], np.int16)
        lengths, ref_lengths = np.zeros([2, len(clips)], np.int32)
        for row, clip in enumerate(clips):
            if clip < 0:
                continue
            wave = self._try_read(int(clip))
            other = self._try_read(int(request["references"][row]))
            if wave is None:
                clips[row] = -1
                continue
            lengths[row] = min(len(wave), samples)
            waves[row, : lengths[row]] = wave[: lengths[row]]
            crop = self._crop(wave if other is None else other, request["crops"][row])
            ref_lengths[row] = len(crop)
            refs[row, : len(crop)] = crop
        return clips, waves, lengths, refs, ref_lengths

    def _crop(self, wave: Any, draw: float) -> Any:
        room = max(0, len(wave) - self._reference_samples)
        start = int(draw * (room + 1))
        return wave[start : start + self._reference_samples]

    def _try_read(self, clip: int) -> Any:
        try:
            return self.waves.read(clip)
        except (OSError, soundfile.SoundFileError, ValueError) as error:
            if clip not in self.lost:
                self.lost.add(clip)
                log.warning(
                    "%s can no longer be read and is left out: %s", self._table.paths[clip], error
                )
            return None

    def _read_natively(self, paths: list[str]) -> Iterator[HostBatch]:
        """Let TensorFlow read and decode, without Python's lock; step in where it fails."""
        position = self._start
        while position < len(self._plan):
            dataset = self._native_dataset(paths, position)
            try:
                for waves, lengths, refs, ref_lengths in dataset:
                    request = self._request(position)
                    clips = request["clips"]
                    yield self._finish(request, clips, waves, lengths, refs, ref_lengths)
                    position += 1
            except (tf.errors.OpError, UnicodeDecodeError):
                # (TensorFlow quotes the bytes of a garbled file in its message, and trips on them.)
                request = self._request(position)
                yield self._finish(request, *self._read(request))
                position += 1

    def _native_dataset(self, paths: list[str], start: int) -> tf.data.Dataset:
        def requests() -> Iterator[tuple[Any, ...]]:
            for position in range(start, len(self._plan)):
                request = self._request(position)
                yield (
                    [paths[i] if i >= 0 else "" for i in request["clips"]],
                    [paths[i] if i >= 0 else "" for i in request["references"]],
                    request["crops"],
                    bucket_samples(request["shape"].frames),
                )

        specs = (
            tf.TensorSpec([None], tf.string),
            tf.TensorSpec([None], tf.string),
            tf.TensorSpec([None], tf.float64),
            tf.TensorSpec([], tf.int32),
        )
        dataset = tf.data.Dataset.from_generator(requests, output_signature=specs)
        dataset = dataset.map(self._load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        options = tf.data.Options()
        options.threading.private_threadpool_size = self._num_workers  # the cap on parallel reads
        dataset = dataset.with_options(options)
        return dataset.prefetch(tf.data.AUTOTUNE)

    def _load(self, paths: Any, refs: Any, crops: Any, samples: Any) -> tuple[Any, Any, Any, Any]:
        def whole(path: Any) -> tuple[Any, Any]:
            wave = _decode_wav(path)[:samples]
            length = tf.shape(wave)[0]
            return tf.pad(wave, [[0, samples - length]]), length

        def crop(arguments: tuple[Any, Any]) -> tuple[Any, Any]:
            path, draw = arguments
            wave = _decode_wav(path)
            room = tf.maximum(0, tf.shape(wave)[0] - self._reference_samples)
            begin = tf.cast(draw * tf.cast(room + 1, tf.float64), tf.int32)
            wave = wave[begin : begin + self._reference_samples]
            length = tf.shape(wave)[0]
            return tf.pad(wave, [[0, self._reference_samples - length]]), length

        signature = (tf.TensorSpec([None], tf.int16), tf.TensorSpec([], tf.int32))
        waves, lengths = tf.map_fn(whole, paths, fn_output_signature=signature)
        cut, cut_lengths = tf.map_fn(crop, (refs, crops), fn_output_signature=signature)
        return waves, lengths, cut, cut_lengths


def _decode_wav(path: Any) -> Any:
    """16-bit samples of a mono WAV; none for the empty path of a masked row."""

    def read() -> Any:
        audio = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1).audio[:, 0]
        return tf.cast(tf.round(audio * 32768.0), tf.int16)

    return tf.cond(tf.equal(path, ""), lambda: tf.zeros([0], tf.int16), read)


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
            partial = target.with_suffix(f".{os.getpid()}.tmp")
            soundfile.write(partial, decode(source), SAMPLE_RATE, "PCM_16", format="WAV")
            partial.replace(target)
        on_clip()
        return str(target)

    if not table.native.all():
        folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(ready, zip(table.paths, table.native.tolist(), strict=True)))
