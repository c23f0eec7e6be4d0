"""Which clips form which batch: a function of lengths, seed and epoch, so resuming is exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from myxtts.data.buckets import (
    Bucket,
    IntArray,
    assign_buckets,
    check_at_least,
    check_lengths,
    rows_per_batch,
)
from myxtts.errors import ConfigError, DataError

MASKED = -1  # the index of a row that only fills up its batch
MAX_GROWTH = 50  # an epoch this many times the data is a mistake in the groups, not a wish

Groups = Sequence[Any] | npt.NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class PlannedBatch:
    """The clips of one batch, -1 where a row is masked, and the shape they are padded to."""

    indices: IntArray
    bucket: Bucket

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """True where a row holds a clip."""
        real: npt.NDArray[np.bool_] = self.indices != MASKED
        return real


@dataclass(frozen=True)
class BucketStats:
    """What one bucket holds in an epoch."""

    bucket: Bucket
    rows: int  # of each batch
    clips: int
    batches: int
    waste: float  # share of its frames that are padding or masked


@dataclass(frozen=True)
class _Layout:
    """An epoch's clips grouped by bucket, and where in them each batch begins and ends."""

    clips: IntArray
    first: IntArray
    last: IntArray
    bucket: IntArray


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """One epoch's batches: every clip once, in an order fixed by seed and epoch.

    Each batch has the static shape of its bucket; a bucket's partial last batch is filled up
    with masked rows. `batch_frames`, when given, sets the rows per bucket instead of
    `batch_size`. With `balance`, clips of rare groups are repeated until every group has about the
    same share of the epoch.
    """

    frames: IntArray = field(repr=False)
    tokens: IntArray = field(repr=False)
    _: KW_ONLY
    buckets: tuple[Bucket, ...]
    batch_size: int = 16
    batch_frames: int | None = None
    seed: int = 0
    epoch: int = 0
    groups: Groups | None = field(default=None, repr=False)  # each clip's speaker or language
    balance: bool = False
    _rows: IntArray = field(init=False, repr=False)
    _layout: _Layout = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_at_least("seed", self.seed, least=0)
        check_at_least("epoch", self.epoch, least=0)
        frames, tokens = check_lengths(self.frames, self.tokens)
        buckets = _check_buckets(self.buckets)
        lengths = np.array([bucket.frames for bucket in buckets], dtype=np.int64)
        fixed = {
            "frames": frames,
            "tokens": tokens,
            "buckets": buckets,
            "groups": None if self.groups is None else tuple(_plain(self.groups)),
            "_rows": rows_per_batch(
                lengths, batch_size=self.batch_size, batch_frames=self.batch_frames
            ),
        }
        for name, value in fixed.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_layout", self._lay_out())

    def __len__(self) -> int:
        return len(self._layout.bucket)

    def __getitem__(self, position: int) -> PlannedBatch:
        if not -len(self) <= position < len(self):
            raise IndexError(f"batch {position} of {len(self)}")
        nth, layout = position % len(self), self._layout
        number = int(layout.bucket[nth])
        indices = np.full(self._rows[number], MASKED, dtype=np.int64)
        clips = layout.clips[layout.first[nth] : layout.last[nth]]
        indices[: len(clips)] = clips
        return PlannedBatch(indices, self.buckets[number])

    def __iter__(self) -> Iterator[PlannedBatch]:
        return (self[position] for position in range(len(self)))

    def check_position(self, position: int) -> None:
        """Refuse a place to go on from that this epoch does not have; its very end is one."""
        if not 0 <= position <= len(self):
            raise ConfigError(
                f"Position {position} is outside this epoch of {len(self)} batches",
                "resume with the data and batch size the run began with",
            )

    def for_epoch(self, epoch: int) -> BatchPlan:
        """Return the same plan for another epoch."""
        return replace(self, epoch=epoch)

    @property
    def padding_waste(self) -> float:
        """Share of the epoch's frames that are padding or masked rows."""
        return self._waste(int((self._rows * self._lengths)[self._layout.bucket].sum()))

    @property
    def padding_waste_of_clips(self) -> float:
        """Share of the clips' own rows that is padding; masked rows are left out."""
        return self._waste(sum(stats.clips * stats.bucket.frames for stats in self.bucket_stats()))

    @property
    def static_shape_waste(self) -> float:
        """What `padding_waste` would be with the largest shape alone."""
        longest = self._lengths[-1:]
        rows = rows_per_batch(longest, batch_size=self.batch_size, batch_frames=self.batch_frames)
        return self._waste(int(-(-len(self._layout.clips) // rows[0]) * rows[0] * longest[0]))

    def bucket_stats(self) -> tuple[BucketStats, ...]:
        """Return clips, batches and waste of each bucket."""
        layout = self._layout
        batches = np.bincount(layout.bucket, minlength=len(self.buckets))
        clips = np.zeros(len(self.buckets), dtype=np.int64)
        np.add.at(clips, layout.bucket, layout.last - layout.first)
        ends = np.cumsum(clips)
        spoken = np.concatenate(([0], np.cumsum(self.frames[layout.clips])))
        real = spoken[ends] - spoken[ends - clips]
        room = np.maximum(1, batches * self._rows * self._lengths)  # an unused bucket wastes none
        waste = np.where(batches > 0, 1 - real / room, 0.0)
        columns = zip(self.buckets, self._rows, clips, batches, waste, strict=True)
        return tuple(BucketStats(b, int(r), int(c), int(n), float(w)) for b, r, c, n, w in columns)

    def describe(self) -> str:
        """Return a short table of the buckets and what padding costs."""
        lines = [f"{'frames x tokens':>16} {'clips':>9} {'batches x rows':>15} {'waste':>7}"]
        for stats in self.bucket_stats():
            shape = f"{stats.bucket.frames} x {stats.bucket.tokens}"
            batches = f"{stats.batches} x {stats.rows}"
            lines.append(f"{shape:>16} {stats.clips:>9} {batches:>15} {stats.waste:>7.1%}")
        drawn = len(self._layout.clips)
        lines.append(f"{'all':>16} {drawn:>9} {len(self):>15} {self.padding_waste:>7.1%}")
        if drawn > len(self.frames):
            lines.append(f"Rare groups are repeated: {len(self.frames)} clips give {drawn} rows.")
        lines.append(
            f"Padding wastes {self.padding_waste_of_clips:.1%} of the clips' rows, "
            f"{self.padding_waste:.1%} with masked rows; one static shape "
            f"would waste {self.static_shape_waste:.1%}."
        )
        return "\n".join(lines)

    @property
    def _lengths(self) -> IntArray:
        return np.array([bucket.frames for bucket in self.buckets], dtype=np.int64)

    def _waste(self, room: int) -> float:
        return 1 - int(self.frames[self._layout.clips].sum()) / room

    def _lay_out(self) -> _Layout:
        bits = np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=(self.epoch,)))
        bucket_of = assign_buckets(self.frames, self.tokens, buckets=self.buckets)
        drawn = self._draw(bits)
        bucket = bucket_of[drawn]
        sizes = np.bincount(bucket, minlength=len(self.buckets))
        batches = -(-sizes // self._rows)
        ends = np.cumsum(sizes)

        number = np.repeat(np.arange(len(self.buckets)), batches)
        nth = np.arange(len(number)) - np.repeat(np.cumsum(batches) - batches, batches)
        first = (ends - sizes)[number] + nth * self._rows[number]
        last = np.minimum(first + self._rows[number], ends[number])
        order = _shuffle(bits, len(number))
        clips = drawn[np.argsort(bucket, kind="stable")]
        return _Layout(clips, first=first[order], last=last[order], bucket=number[order])

    def _draw(self, bits: np.random.PCG64) -> IntArray:
        """Return every clip in random order, those of rare groups more than once."""
        order = _shuffle(bits, len(self.frames))
        if not self.balance:
            return order
        times = _times_in_order(self, order)
        drawn = np.repeat(order, times)
        return drawn[_shuffle(bits, len(drawn))]


def _times_in_order(plan: BatchPlan, order: IntArray) -> IntArray:
    """How often each clip of `order` is taken; clips early in it take their group's remainder."""
    if plan.groups is None or len(plan.groups) != len(plan.frames):
        raise DataError(
            f"{len(plan.groups or ())} groups for {len(plan.frames)} clips",
            "give one group per clip",
        )
    codes: dict[Any, int] = {}
    group = np.array([codes.setdefault(name, len(codes)) for name in plan.groups])[order]
    sizes = np.bincount(group)
    wanted = int(sizes.max())  # of each group: every clip at least once
    if wanted * len(sizes) > MAX_GROWTH * sizes.sum():
        raise ConfigError(
            f"These groups would make an epoch of {wanted * len(sizes)} rows from {sizes.sum()} "
            "clips",
            "drop or merge the rarest groups",
        )
    by_group = np.argsort(group, kind="stable")
    rank = np.empty_like(by_group)
    rank[by_group] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    every, extra = np.divmod(wanted, sizes)
    times: IntArray = every[group] + (rank < extra[group])
    return times


def _check_buckets(buckets: Sequence[Bucket]) -> tuple[Bucket, ...]:
    unique = tuple(sorted({Bucket(int(frames), int(tokens)) for frames, tokens in buckets}))
    if not unique or min(min(bucket) for bucket in unique) < 1:
        raise ConfigError(f"buckets is {buckets}", "take the buckets from choose_buckets")
    return unique


def _plain(groups: Groups) -> Sequence[Any]:
    return groups.tolist() if isinstance(groups, np.ndarray) else groups


def _shuffle(bits: np.random.PCG64, size: int) -> IntArray:
    # NumPy keeps a bit generator's raw stream the same over versions, but not Generator's
    # methods: with this a run resumed after an upgrade still sees the same batches.
    return np.argsort(bits.random_raw(size), kind="stable")
