"""The cheapest way through cells, frame by frame, where a move costs its distance on a line.

Two forms with one result, to the last bit: frame after frame, which a CPU likes, and in blocks
that are worked on side by side, for a GPU, where each of a thousand small steps would wait for its
launch. Costs are whole multiples of `GRAIN`, so that no order of adding them makes a difference.
Shapes: B rows, F frames, C cells; K frames of a block, N blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

GRAIN = 2.0**-12  # sums up to 4096 are exact in float32: over a minute of frames
BLOCK = 8  # frames
FAR = -1e4  # worse than any sum


def to_grain(costs: tf.Tensor) -> tf.Tensor:
    """Costs in whole grains."""
    return tf.round(costs / GRAIN) * GRAIN


def path_by_frame(steps: tf.Tensor, places: np.ndarray) -> tf.Tensor:
    """The cell of each frame [B, F] for costs [B, F, C] and the cells' places on a line [C]."""
    moves = tf.constant(_moves(places))

    def forward(total: tf.Tensor, here: tf.Tensor) -> tf.Tensor:
        return here + tf.reduce_min(total[:, None, :] + moves, axis=-1)

    def back(cell: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
        return tf.argmin(total + tf.gather(moves, cell), axis=-1)

    totals = tf.scan(forward, tf.transpose(steps, [1, 0, 2]))
    last = tf.argmin(totals[-1], axis=-1)
    path = tf.scan(back, totals[:-1], last, reverse=True)
    return tf.transpose(tf.concat([path, last[None]], axis=0))


def paths_in_blocks(many: Sequence[tf.Tensor], places: np.ndarray) -> list[tf.Tensor]:
    """The same for several lots of rows at once, however many frames each has."""
    counts = [-(-steps.shape[1] // BLOCK) for steps in many]
    blocks = tf.concat(
        [_in_blocks(steps, count) for steps, count in zip(many, counts, strict=True)], axis=1
    )  # [B, N, K, C]
    ways = _ways_through(blocks, places)  # [B, N, K, C, C]: from the cell before to each cell
    found, first = [], 0
    for steps, count in zip(many, counts, strict=True):
        totals = _totals(ways[:, first : first + count])[:, : steps.shape[1]]
        found.append(_follow(totals, places))
        first += count
    return found


def _moves(places: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(places[:, None] - places), np.float32)


def _in_blocks(steps: tf.Tensor, count: int) -> tf.Tensor:
    """Frames past the end cost nothing anywhere, so that the path stays where it is."""
    rows, frames, cells = steps.shape
    padded = tf.pad(steps, [[0, 0], [0, count * BLOCK - frames], [0, 0]])
    return tf.reshape(padded, [rows, count, BLOCK, cells])


def _ways_through(blocks: tf.Tensor, places: np.ndarray) -> tf.Tensor:
    """Costs from each cell before a block to each cell in each of its frames."""
    rows, count, frames, cells = blocks.shape
    line = np.asarray(places, np.float32)
    signs = np.stack([line, -line])  # [2, C]
    gains = tf.constant(np.broadcast_to(-_moves(places), [rows, count, cells, cells]))
    found = []
    for frame in range(frames):
        if frame:
            # max over c' of (gain[c'] - |x[c] - x[c']|) is two running maxima: of gain + x from the
            # left, of gain - x from the right. A pool whose window is the whole line runs both.
            lifted = tf.pad(
                gains[..., None, :] + signs,
                [[0, 0], [0, 0], [0, 0], [0, 0], [cells - 1, cells - 1]],
                constant_values=FAR,
            )
            image = tf.reshape(lifted, [rows, count * cells * 2, 3 * cells - 2, 1])
            pooled = tf.reshape(
                tf.nn.max_pool2d(image, [1, cells], 1, "VALID"),
                [rows, count, cells, 2, 2 * cells - 1],
            )
            left = pooled[..., 0, :cells] - line
            right = pooled[..., 1, cells - 1 :] + line
            gains = tf.maximum(left, right)
        gains -= blocks[:, :, frame, None, :]
        found.append(gains)
    return -tf.stack(found, axis=2)


def _totals(ways: tf.Tensor) -> tf.Tensor:
    """The cost of the cheapest way to every cell of every frame: [B, F, C]."""
    rows, count, frames, cells, _ = ways.shape
    size = math.isqrt(count - 1) + 1  # blocks of a group, and about as many groups
    groups = -(-count // size)
    stay = np.where(np.eye(cells, dtype=bool), 0.0, -FAR).astype(np.float32)
    whole = tf.pad(ways[:, :, -1], [[0, 0], [0, groups * size - count], [0, 0], [0, 0]])
    whole = tf.reshape(whole, [rows, groups, size, cells, cells])
    # From before a group to before each of its blocks, side by side for all groups.
    into = [tf.constant(np.broadcast_to(stay, [rows, groups, cells, cells]))]
    for block in range(size - 1):
        into.append(_product(into[-1], whole[:, :, block]))
    through = _product(into[-1], whole[:, :, -1])
    start = [tf.zeros([rows, cells])]
    for group in range(groups - 1):
        start.append(tf.reduce_min(start[-1][:, :, None] + through[:, group], axis=1))
    before = tf.reduce_min(
        tf.stack(start, axis=1)[:, :, None, :, None] + tf.stack(into, axis=2), axis=3
    )
    before = tf.reshape(before, [rows, groups * size, cells])[:, :count]
    totals = tf.reduce_min(before[:, :, None, :, None] + ways, axis=3)
    return tf.reshape(totals, [rows, count * frames, cells])


def _product(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """The cheapest of all ways over a cell in the middle."""
    return tf.reduce_min(first[..., :, :, None] + second[..., None, :, :], axis=-2)


def _follow(totals: tf.Tensor, places: np.ndarray) -> tf.Tensor:
    """The path back from the cheapest end: where each cell came from, joined two by two."""
    frames = totals.shape[1]
    last = tf.argmin(totals[:, -1], axis=-1)  # [B]
    came = tf.argmin(totals[:, :-1, None, :] + _moves(places), axis=-1)  # [B, F - 1, C]
    reach = 1
    while reach < frames - 1:
        further = tf.gather(came[:, :-reach], came[:, reach:], batch_dims=2)
        came = tf.concat([further, came[:, -reach:]], axis=1)
        reach *= 2
    ends = tf.broadcast_to(last[:, None, None], [last.shape[0], frames - 1, 1])
    return tf.concat([tf.gather(came, ends, batch_dims=2)[..., 0], last[:, None]], axis=1)
