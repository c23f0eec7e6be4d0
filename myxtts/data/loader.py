"""The host stage: reads the clips of each planned batch, in order, in parallel, for any cache."""

from __future__ import annotations

import copy
import functools
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from myxtts.data import native_wav
from myxtts.data.batching import MASKED, PlannedBatch
from myxtts.data.buckets import Bucket
from myxtts.data.lost import LostClips
from myxtts.data.shares import WHOLE, Share, take_share
from myxtts.data.table import ClipTable
from myxtts.data.wave_cache import open_cache
from myxtts.data.waves import UNREADABLE, WaveSource, WavFiles, native_paths
from myxtts.features.audio import REFERENCE_SAMPLES, bucket_samples
from myxtts.features.playing import at_speeds, draw_speeds

log = logging.getLogger(__name__)

HostBatch = dict[str, Any]


class Plan(Protocol):
    """Which clips form which batch, in which order."""

    @property
    def seed(self) -> int:
        """Decides the random draws of every batch."""

    @property
    def epoch(self) -> int:
        """Decides them too."""

    def for_epoch(self, epoch: int) -> Plan:
        """The same for another epoch."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int) -> PlannedBatch: ...


class LoaderState(NamedTuple):
    """Where a loader goes on: the epoch, and how many of its batches are done."""

    epoch: int = 0
    position: int = 0


FIRST = LoaderState()


@dataclass(frozen=True)
class _Request:
    """Which clips, references and crops a batch takes: a function of seed, position, and loss."""

    state: LoaderState  # behind this batch
    shape: Bucket
    clips: Any
    references: Any
    crops: Any
    seed: Any
    speeds: Any  # where clips are played faster and slower


class BatchIterator(Iterator[HostBatch]):
    """Batches in their order; `get_state` tells where to go on behind the one given last."""

    def __init__(self, batches: Iterator[tuple[LoaderState, HostBatch]], start: LoaderState):
        self._batches, self._state = batches, start

    def __next__(self) -> HostBatch:
        self._state, batch = next(self._batches)
        return batch

    def get_state(self) -> LoaderState:
        """What `HostBatches.batches` takes to give the next one."""
        return self._state

    def close(self) -> None:
        """End what reads ahead."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()


class HostBatches:
    """Batches of 16-bit waves and token ids, padded to their buckets.

    A batch depends only on the plan, its position and the seed: not on the cache, the number of
    workers, who decodes, or where the run was resumed. A clip that cannot be read any more, or has
    shrunk, becomes a masked row (its lengths are 0); it is kept in `lost` and not asked for again.

    Only the first `num_references` clips serve as references (all by default). Without a cache the
    files are decoded by TensorFlow, outside Python, or else by soundfile in threads.
    """

    def __init__(
        self,
        table: ClipTable,
        plan: Plan,
        *,
        cache: Literal["memory", "disk"] | None = None,
        use_tf: bool = True,
        num_workers: int = 16,
        num_references: int | None = None,
        static_shapes: bool = True,
        augment_speed: float = 0.0,
        waves: WaveSource | None = None,
        on_clip: Callable[[], None] = lambda: None,
    ) -> None:
        self._table, self._plan = table, plan
        self._num_workers, self._use_tf = max(1, num_workers), use_tf
        self._num_references = len(table) if num_references is None else num_references
        self._static_shapes, self._augment_speed = static_shapes, augment_speed
        if not static_shapes:
            log.warning("Batches are padded to their own length: each new length compiles anew")
        self._by_speaker = _group_by(
            table.speakers[: self._num_references], num_groups=len(table.speaker_names)
        )
        self._native_paths: list[str] | None = None
        unread: dict[int, str] = {}
        if waves is not None:
            self.waves = waves
        elif cache is None:
            self._native_paths = native_paths(table, on_clip=on_clip)
            self.waves = WavFiles(self._native_paths, table)
        else:
            self.waves, unread = open_cache(table, cache, on_clip=on_clip)
        self.lost = LostClips(
            table, num_counted=self._num_references, files=self._native_paths or ()
        )
        for clip, reason in unread.items():
            self.lost.add(clip, reason)

    def for_plan(self, plan: Plan, *, use_tf: bool) -> HostBatches:
        """The same source for another plan, unvaried; nothing is read or converted again."""
        other = copy.copy(self)
        other._plan, other._use_tf, other._augment_speed = plan, use_tf, 0.0
        return other

    def __len__(self) -> int:
        return len(self._plan)

    def __iter__(self) -> BatchIterator:
        """The plan's own epoch."""
        first = self._plan.epoch
        return self.batches(LoaderState(first), epochs=first + 1)

    def batches(
        self,
        start: LoaderState = FIRST,
        *,
        epochs: int | None = None,
        max_lost_share: float | None = None,
        share: Share = WHOLE,
    ) -> BatchIterator:
        """All batches from a state on to the end of so many epochs, or for ever.

        The end of an epoch, which is where a run may have stopped, is the start of the next. With
        `max_lost_share` they end with an error where more is lost, or a batch has no clip left (a
        lone clip's batch is passed over with it). A replica gives its `share`: of every so many
        batches in a row it gets one, and the state is that behind all of them.
        """
        found = self._read_batches(start, epochs, share)
        if max_lost_share is not None:
            plan = self._plan if share.world == 1 else None
            found = self.lost.guard(found, plan, max_lost_share)
        return BatchIterator(found, start)

    # -- what a batch consists of --

    def _places(self, start: LoaderState, epochs: int | None) -> Iterator[tuple[Plan, int]]:
        last = range(start.epoch, epochs) if epochs is not None else itertools.count(start.epoch)
        for epoch in last:
            plan = self._plan if epoch == self._plan.epoch else self._plan.for_epoch(epoch)
            first = start.position if epoch == start.epoch else 0
            for position in range(first, len(plan)):
                yield plan, position

    def _requests(self, start: LoaderState, epochs: int | None, share: Share) -> Iterator[_Request]:
        for place, (plan, position), real in take_share(self._places(start, epochs), share):
            request = replace(self._request(*place), state=LoaderState(plan.epoch, position + 1))
            if not real:  # the shape its step already uses, without a clip
                nothing = np.full_like(request.clips, MASKED)
                request = replace(request, clips=nothing, references=nothing)
            yield request

    def _request(self, plan: Plan, position: int) -> _Request:
        batch = plan[position]
        random = np.random.Generator(
            np.random.PCG64(np.random.SeedSequence([plan.seed, plan.epoch, position]))
        )
        draws = random.random((len(batch.indices), 2))
        clips = self.lost.without(batch.indices)
        references = np.array(
            [
                self._other_clip(int(clip), draw)
                for clip, draw in zip(clips, draws[:, 0], strict=True)
            ],
            np.int64,
        )
        return _Request(
            state=LoaderState(plan.epoch, position + 1),
            shape=self._shape_of(batch),
            clips=clips,
            references=np.where(self.lost.without(references) == MASKED, clips, references),
            crops=draws[:, 1],
            seed=random.integers(0, 2**31 - 1, 2, dtype=np.int32),
            speeds=draw_speeds(random, len(clips), most=self._augment_speed),
        )

    def _shape_of(self, batch: PlannedBatch) -> Bucket:
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
        request: _Request,
        clips: Any,
        waves: Any,
        lengths: Any,
        references: Any,
        reference_lengths: Any,
    ) -> tuple[LoaderState, HostBatch]:
        """The batch of what was read; `clips` are those of the request that could be."""
        table = self._table
        tokens = np.zeros([len(clips), request.shape.tokens], np.int32)
        token_lengths = np.zeros([len(clips)], np.int32)
        for row, clip in enumerate(clips):
            if clip >= 0:
                ids = table.tokens[clip]
                tokens[row, : len(ids)] = ids
                token_lengths[row] = len(ids)
        batch = {
            "waves": waves,
            "wave_lengths": lengths,
            "references": references,
            "reference_lengths": reference_lengths,
            "tokens": tokens,
            "token_lengths": token_lengths,
            "languages": np.where(clips >= 0, table.languages[clips], 0).astype(np.int32),
            "seed": request.seed,
        }
        return request.state, at_speeds(batch, request.speeds)

    # -- reading --

    def _read_batches(
        self, start: LoaderState, epochs: int | None, share: Share
    ) -> Iterator[tuple[LoaderState, HostBatch]]:
        if self._native_paths is not None and self._use_tf:
            ask = functools.partial(self._requests, start, epochs, share)
            return self._read_natively(self._native_paths, ask)
        requests = self._requests(start, epochs, share)
        if self._native_paths is not None:
            return self._read_in_threads(requests)
        return (self._finish(request, *self._read(request)) for request in requests)

    def _read(self, request: _Request) -> tuple[Any, ...]:
        """Read a batch clip by clip; what cannot be read is masked."""
        clips = request.clips.copy()
        samples = bucket_samples(request.shape.frames)
        waves = np.zeros([len(clips), samples], np.int16)
        refs = np.zeros([len(clips), REFERENCE_SAMPLES], np.int16)
        lengths, ref_lengths = np.zeros([2, len(clips)], np.int32)
        for row, clip in enumerate(clips):
            if clip < 0:
                continue
            wave = self._try_read(int(clip))
            other = wave
            if request.references[row] != clip:
                other = self._try_read(int(request.references[row]))
            if wave is None:
                clips[row] = -1
                continue
            lengths[row] = min(len(wave), samples)
            waves[row, : lengths[row]] = wave[: lengths[row]]
            crop = self._crop(wave if other is None else other, request.crops[row])
            ref_lengths[row] = len(crop)
            refs[row, : len(crop)] = crop
        return clips, waves, lengths, refs, ref_lengths

    def _crop(self, wave: Any, draw: float) -> Any:
        room = max(0, len(wave) - REFERENCE_SAMPLES)
        start = int(draw * (room + 1))
        return wave[start : start + REFERENCE_SAMPLES]

    def _try_read(self, clip: int) -> Any:
        if clip in self.lost:
            return None
        try:
            wave = self.waves.read(clip)
            self.lost.refuse_short(clip, len(wave))
        except UNREADABLE as error:
            self.lost.add(clip, error)
            return None
        return wave

    def _read_in_threads(
        self, requests: Iterable[_Request]
    ) -> Iterator[tuple[LoaderState, HostBatch]]:
        """Let soundfile read and decode, a batch a thread."""
        pool = ThreadPoolExecutor(self._num_workers, thread_name_prefix="data-read")
        waiting: deque[tuple[_Request, Future[tuple[Any, ...]]]] = deque()
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
        self, paths: list[str], requests: Callable[[], Iterator[_Request]]
    ) -> Iterator[tuple[LoaderState, HostBatch]]:
        """Let TensorFlow read and decode, without Python's lock; step in where it fails."""
        asked: deque[_Request] = deque()  # of TensorFlow, and not yet back

        def ask() -> Iterator[tuple[list[str], list[str], Any, int]]:
            for request in requests():
                asked.append(request)
                yield (
                    [paths[i] if i >= 0 else "" for i in request.clips],
                    [paths[i] if i >= 0 else "" for i in request.references],
                    request.crops,
                    bucket_samples(request.shape.frames),
                )

        batches = native_wav.read_batches(ask, num_workers=self._num_workers)
        while True:
            arrays: tuple[Any, ...] | None = None
            try:
                arrays = next(batches)
            except StopIteration:
                return
            except (tf.errors.OpError, UnicodeDecodeError):
                # (TensorFlow quotes the bytes of a garbled file in its message, and trips on them.)
                if not asked:
                    raise  # no file's fault
            request = asked.popleft()
            if arrays is None or self.lost.fall_short(
                (request.clips, arrays[1].numpy(), bucket_samples(request.shape.frames)),
                (request.references, arrays[3].numpy(), REFERENCE_SAMPLES),
            ):
                yield self._finish(request, *self._read(request))
            else:
                yield self._finish(request, request.clips, *arrays)


def batch_spec(rows: int, *, frames: int, tokens: int, played: bool = False) -> HostBatch:
    """The shapes and types of a batch of so many clips, padded to this; played at any speed."""
    columns = {
        "waves": ([bucket_samples(frames)], tf.int16),
        "wave_lengths": ([], tf.int32),
        "references": ([REFERENCE_SAMPLES], tf.int16),
        "reference_lengths": ([], tf.int32),
        "tokens": ([tokens], tf.int32),
        "token_lengths": ([], tf.int32),
        "languages": ([], tf.int32),
        **({"speeds": ([], tf.float32)} if played else {}),
    }
    specs = {name: tf.TensorSpec([rows, *size], kind) for name, (size, kind) in columns.items()}
    return {**specs, "seed": tf.TensorSpec([2], tf.int32)}


def _group_by(groups: Any, *, num_groups: int) -> list[Any]:
    """The positions of each group, ascending; sorted once, however many groups there are."""
    ends = np.cumsum(np.bincount(groups, minlength=num_groups))
    return np.split(np.argsort(groups, kind="stable"), ends[:-1])
