"""The host stage: reads the clips of each planned batch, in order, in parallel, for any cache."""

from __future__ import annotations

import copy
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np
import soundfile
import tensorflow as tf

from myxtts.data.audio import SAMPLE_RATE, bucket_samples
from myxtts.data.batching import MASKED, Batch, BatchPlan, Bucket
from myxtts.data.native_wav import cut_samples, find_samples, read_file
from myxtts.data.table import ClipTable
from myxtts.data.waves import WaveSource, WavFiles, native_paths, open_cache

log = logging.getLogger(__name__)

HostBatch = dict[str, Any]
REFERENCE_SECONDS = 3.0
READ_AHEAD = 4  # batches; the pipeline's host buffer, which is counted, comes behind


class Plan(Protocol):
    """Which clips form which batch, in which order."""

    @property
    def seed(self) -> int:
        """Decides the random draws of every batch."""

    @property
    def epoch(self) -> int:
        """Decides them too."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int) -> Batch: ...


Place = tuple[Plan, int]  # a plan and a position in it


class HostBatches:
    """The batches of one epoch from a position on: 16-bit waves and token ids, padded to buckets.

    A batch depends only on the plan, its position and the seed: not on the cache, the number of
    workers, who decodes, or where the run was resumed; its `place` is its epoch and position. A
    file that cannot be read any more becomes a masked row (`clips` is -1 there), is named once in
    the log, and counted in `lost`.

    Only the first `num_references` clips serve as references (all by default). `first_clip` is
    added to the numbers in `clips`, to tell the clips of two tables apart. Without a cache the
    files are decoded by TensorFlow, outside Python, or else by soundfile in threads.
    """

    def __init__(
        self,
        table: ClipTable,
        plan: Plan,
        *,
        start: int = 0,
        cache: Literal["memory", "disk"] | None = None,
        use_tf: bool = True,
        num_workers: int = 16,
        reference_seconds: float = REFERENCE_SECONDS,
        num_references: int | None = None,
        first_clip: int = 0,
        static_shapes: bool = True,
        waves: WaveSource | None = None,
        on_clip: Callable[[], None] = lambda: None,
    ) -> None:
        self._table, self._plan, self._start = table, plan, start
        self._num_workers = max(1, num_workers)
        self._reference_samples = int(reference_seconds * SAMPLE_RATE)
        self._num_references = len(table) if num_references is None else num_references
        self._first_clip = first_clip
        self._static_shapes = static_shapes
        if not static_shapes:
            log.warning("Batches are padded to their own length: each new length compiles anew")
        self._by_speaker = _group_by(
            table.speakers[: self._num_references], num_groups=len(table.speaker_names)
        )
        self._native_paths: list[str] | None = None
        self._use_tf = use_tf
        self.lost: set[int] = set()
        self._lost_lock = threading.Lock()
        if waves is not None:
            self.waves = waves
        elif cache is None:
            self._native_paths = native_paths(table, on_clip=on_clip)
            self.waves = WavFiles(self._native_paths)
        else:
            self.waves = open_cache(table, cache, on_clip=on_clip)

    def for_plan(self, plan: Plan, *, start: int = 0, use_tf: bool | None = None) -> HostBatches:
        """The same source for another plan or position; nothing is read or converted again."""
        other = copy.copy(self)
        other._plan, other._start = plan, start
        other._use_tf = self._use_tf if use_tf is None else use_tf
        return other

    def __len__(self) -> int:
        return len(self._plan) - self._start

    def __iter__(self) -> Iterator[HostBatch]:
        return self._batches(lambda place: self._places(*place))

    def forever(self) -> Iterator[HostBatch]:
        """From the plan's position on through all epochs after it, without a stop between them."""
        assert isinstance(self._plan, BatchPlan)
        plan_of = lru_cache(maxsize=2)(self._plan.for_epoch)  # the reader and the consumer share it

        def places(place: Place) -> Iterator[Place]:
            yield from self._places(*place)
            for epoch in itertools.count(place[0].epoch + 1):
                yield from self._places(plan_of(epoch), 0)

        return self._batches(places)

    def spec(self, bucket: Bucket, *, rows: int) -> dict[str, tf.TensorSpec]:
        """The shapes and types of a batch of this bucket."""
        columns = {
            "waves": ([bucket_samples(bucket.frames)], tf.int16),
            "wave_lengths": ([], tf.int32),
            "references": ([self._reference_samples], tf.int16),
            "reference_lengths": ([], tf.int32),
            "tokens": ([bucket.tokens], tf.int32),
            "token_lengths": ([], tf.int32),
            "speakers": ([], tf.int32),
            "languages": ([], tf.int32),
            "clips": ([], tf.int64),
        }
        specs = {name: tf.TensorSpec([rows, *size], kind) for name, (size, kind) in columns.items()}
        return {
            **specs,
            "seed": tf.TensorSpec([2], tf.int32),
            "place": tf.TensorSpec([2], tf.int64),
        }

    def _places(self, plan: Plan, position: int) -> Iterator[Place]:
        return ((plan, at) for at in range(position, len(plan)))

    def _batches(self, places: Callable[[Place], Iterator[Place]]) -> Iterator[HostBatch]:
        start = self._plan, self._start
        if self._native_paths is None:
            requests = (self._request(*place) for place in places(start))
            return (self._finish(request, *self._read(request)) for request in requests)
        if self._use_tf:
            return self._read_natively(self._native_paths, places)
        return self._read_in_threads(self._request(*place) for place in places(start))

    # -- what a batch consists of --

    def _request(self, plan: Plan, position: int) -> dict[str, Any]:
        """Which clips, references and crops a batch takes: a pure function of seed and position."""
        batch = plan[position]
        random = np.random.Generator(
            np.random.PCG64(np.random.SeedSequence([plan.seed, plan.epoch, position]))
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
            "place": np.array([plan.epoch, position], np.int64),
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
        if clip >= self._num_references:
            return int(same[int(draw * len(same))]) if len(same) else clip
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
            "clips": np.where(real, clips + self._first_clip, MASKED),
            "seed": request["seed"],
            "place": request["place"],
        }

    # -- reading --

    def _read(self, request: dict[str, Any]) -> tuple[Any, ...]:
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
            with self._lost_lock:
                known = clip in self.lost
                self.lost.add(clip)
            if not known:
                log.warning(
                    "%s can no longer be read and is left out: %s", self._table.paths[clip], error
                )
            return None

    def _read_in_threads(self, requests: Iterator[dict[str, Any]]) -> Iterator[HostBatch]:
        """Let soundfile read and decode, a batch a thread."""
        pool = ThreadPoolExecutor(self._num_workers, thread_name_prefix="data-read")
        waiting: deque[tuple[dict[str, Any], Future[tuple[Any, ...]]]] = deque()
        try:
            for request in requests:
                waiting.append((request, pool.submit(self._read, request)))
                if len(waiting) > self._num_workers:
                    first, arrays = waiting.popleft()
                    yield self._finish(first, *arrays.result())
            while waiting:
                first, arrays = waiting.popleft()
                yield self._finish(first, *arrays.result())
        finally:
            pool.shutdown(cancel_futures=True)

    def _read_natively(
        self, paths: list[str], places: Callable[[Place], Iterator[Place]]
    ) -> Iterator[HostBatch]:
        """Let TensorFlow read and decode, without Python's lock; step in where it fails."""
        coming = places((self._plan, self._start))
        ready = iter(())
        for place in coming:
            request = self._request(*place)
            try:
                arrays = next(ready, None) or next(
                    ready := iter(self._native_dataset(paths, places(place)))
                )
            except (tf.errors.OpError, UnicodeDecodeError):
                # (TensorFlow quotes the bytes of a garbled file in its message, and trips on them.)
                ready = iter(())
                yield self._finish(request, *self._read(request))
            else:
                yield self._finish(request, request["clips"], *arrays)

    def _native_dataset(self, paths: list[str], places: Iterator[Place]) -> tf.data.Dataset:
        def generate() -> Iterator[tuple[Any, ...]]:
            for place in places:
                request = self._request(*place)
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
        dataset = tf.data.Dataset.from_generator(generate, output_signature=specs)
        dataset = dataset.map(self._load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        options = tf.data.Options()
        options.threading.private_threadpool_size = self._num_workers  # the cap on parallel reads
        dataset = dataset.with_options(options)
        return dataset.prefetch(READ_AHEAD)

    def _load(self, paths: Any, refs: Any, crops: Any, samples: Any) -> tuple[Any, Any, Any, Any]:
        files = tf.map_fn(read_file, tf.concat([paths, refs], axis=0))
        starts, counts = find_samples(files)
        rows = tf.shape(paths)[0]
        lengths = tf.minimum(counts[:rows], samples)
        waves = cut_samples(files[:rows], starts[:rows], lengths, samples)
        cut_lengths = tf.minimum(counts[rows:], self._reference_samples)
        room = counts[rows:] - cut_lengths
        begins = tf.cast(crops * tf.cast(room + 1, tf.float64), tf.int32)
        cut = cut_samples(
            files[rows:], starts[rows:] + 2 * begins, cut_lengths, self._reference_samples
        )
        return waves, lengths, cut, cut_lengths


def _group_by(groups: Any, *, num_groups: int) -> list[Any]:
    """The positions of each group, ascending; sorted once, however many groups there are."""
    ends = np.cumsum(np.bincount(groups, minlength=num_groups))
    return np.split(np.argsort(groups, kind="stable"), ends[:-1])
