"""Few static shapes for many lengths: each shape costs a compilation, each gap costs padding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.errors import ConfigError, DataError

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

COMPILE_STEPS = 60.0  # on 2 CPU cores a compilation takes ~15 s and a step ~0.26 s
MAX_CUTS = 1024  # the search is quadratic in these; more would not change the waste visibly


class Bucket(NamedTuple):
    """A static shape: every clip in it is padded to this many frames and tokens."""

    frames: int
    tokens: int


def choose_buckets(
    frames: npt.ArrayLike,
    tokens: npt.ArrayLike,
    *,
    max_buckets: int,
    steps: int | None = None,
    compile_steps: float = COMPILE_STEPS,
    frame_multiple: int = 8,
    token_multiple: int = 4,
    batch_size: int | None = None,
    batch_frames: int | None = None,
) -> tuple[Bucket, ...]:
    """Choose the shapes, at most `max_buckets`, that waste the fewest frames on these clips.

    With `steps`, the run's length, a shape must also earn its compilation: `compile_steps` is
    that price, counted in steps of one static shape. With `batch_size` or `batch_frames` the
    masked rows of each bucket's last batch are counted as waste too, which matters on small data.
    """
    frames, tokens = check_lengths(frames, tokens)
    for name, value in {
        "max_buckets": max_buckets,
        "frame_multiple": frame_multiple,
        "token_multiple": token_multiple,
    }.items():
        check_at_least(name, value, least=1)
    check_at_least("compile_steps", compile_steps, least=0)
    if steps is not None:
        check_at_least("steps", steps, least=0)

    edges, ends = _histogram(_round_up(frames, frame_multiple))
    rows = np.ones_like(edges)
    if batch_size is not None or batch_frames is not None:
        size = 1 if batch_size is None else batch_size
        rows = rows_per_batch(edges, batch_size=size, batch_frames=batch_frames)
    padded, cuts = _cheapest_cuts(edges, ends, rows=rows, max_buckets=max_buckets)
    cost = padded
    if steps is not None:
        cost = np.arange(1, len(padded) + 1) * compile_steps + steps * padded / padded[0]
    limits = edges[_trace_back(cuts, num_buckets=int(np.argmin(cost)) + 1)]
    return _fit_tokens(limits, frames=frames, tokens=_round_up(tokens, token_multiple))


def assign_buckets(
    frames: IntArray, tokens: IntArray, *, buckets: tuple[Bucket, ...]
) -> npt.NDArray[np.uint16]:
    """Give each clip the number of the first of the sorted buckets that holds it."""
    none = len(buckets)
    chosen = np.full(len(frames), none, dtype=np.uint16)
    for number in reversed(range(none)):  # the smallest shape writes last and wins
        fits = (frames <= buckets[number].frames) & (tokens <= buckets[number].tokens)
        chosen[fits] = number
    if (lost := np.flatnonzero(chosen == none)).size:
        first = lost[0]
        raise DataError(
            f"{lost.size} clips fit no bucket; the first is clip {first} with "
            f"{frames[first]} frames and {tokens[first]} tokens",
            "choose the buckets from these clips with choose_buckets, or drop the long clips",
        )
    return chosen


def rows_per_batch(frames: IntArray, *, batch_size: int, batch_frames: int | None) -> IntArray:
    """Rows of a batch for each bucket length; a frame budget, when given, goes before the size."""
    check_at_least("batch_size", batch_size, least=1)
    if batch_frames is None:
        return np.full_like(frames, batch_size)
    check_at_least("batch_frames", batch_frames, least=1)
    return np.maximum(1, batch_frames // frames)


def check_lengths(frames: npt.ArrayLike, tokens: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """Return private, read-only copies of both lengths, or say which clip is wrong."""
    checked = _check_one(frames, "frames"), _check_one(tokens, "tokens")
    if len(checked[0]) != len(checked[1]):
        raise DataError(
            f"{len(checked[0])} frame counts but {len(checked[1])} token counts",
            "give one of each per clip, in the same order",
        )
    return checked


def check_at_least(name: str, value: float, *, least: int) -> None:
    """Refuse a setting below its least sensible value."""
    if not value >= least:  # put this way round, NaN is refused too
        raise ConfigError(f"{name} is {value}", f"set {name} to {least} or more")


def _check_one(lengths: npt.ArrayLike, name: str) -> IntArray:
    array = np.asarray(lengths)
    if array.size == 0:
        raise DataError("There are no clips to make batches of", "run `myxtts data check DIR`")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"{name} is {array.dtype} of shape {array.shape}",
            f"give one whole number of {name} per clip",
        )
    if array.min() < 1:
        clip = int(array.argmin())
        raise DataError(f"Clip {clip} has {array[clip]} {name}", "drop empty clips first")
    array = array.astype(np.int64)  # copies, so the caller's later edits cannot reach a plan
    array.flags.writeable = False
    return array


def _round_up(values: IntArray, multiple: int) -> IntArray:
    return -(-values // multiple) * multiple


def _histogram(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Return candidate bucket lengths and, for each, how many clips are no longer than that."""
    edges, counts = np.unique(lengths, return_counts=True)
    stride = -(-len(edges) // MAX_CUTS)
    kept = np.arange(len(edges) - 1, -1, -stride)[::-1]  # from the end: the longest always stays
    return edges[kept], np.cumsum(counts)[kept]


def _cheapest_cuts(
    edges: IntArray, ends: IntArray, *, rows: IntArray, max_buckets: int
) -> tuple[FloatArray, list[IntArray]]:
    """Return the padded frames of the best 1, 2, ... buckets, and the choices that led there.

    `reach[j]` is the least cost of covering the first j edges; one more bucket from i to j costs
    its length times its rows, with its last batch filled up.
    """
    starts = np.concatenate(([0], ends[:-1]))
    clips = ends[None, :] - starts[:, None]
    bucket_cost = (-(-clips // rows) * rows * edges).astype(np.float64)
    bucket_cost[np.tril_indices(len(edges), k=-1)] = np.inf

    reach = bucket_cost[0]
    padded, cuts = [reach[-1]], [np.zeros(len(edges), dtype=np.int64)]
    for _ in range(1, min(max_buckets, len(edges))):
        total = bucket_cost.copy()
        total[1:] += reach[:-1, None]
        total[0] = np.inf  # this many buckets cannot begin with the last one
        cuts.append(np.argmin(total, axis=0))
        reach = np.min(total, axis=0)
        padded.append(reach[-1])
    return np.array(padded), cuts


def _trace_back(cuts: list[IntArray], *, num_buckets: int) -> list[int]:
    last = len(cuts[0]) - 1
    chosen = []
    for step in reversed(cuts[:num_buckets]):
        chosen.append(last)
        last = int(step[last]) - 1
    return chosen[::-1]


def _fit_tokens(limits: IntArray, *, frames: IntArray, tokens: IntArray) -> tuple[Bucket, ...]:
    most = np.zeros(len(limits), dtype=np.int64)
    np.maximum.at(most, np.searchsorted(limits, frames), tokens)
    return tuple(Bucket(int(f), int(t)) for f, t in zip(limits, most, strict=True))
