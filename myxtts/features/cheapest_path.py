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

from myxtts.features.filters import GRAIN

BLOCK = 5  # frames
FAR = 1e4  # more than any sum


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
    """The same for several lots of rows at once, however many frames each has.

    What is taken apart stands first in a shape: such a slice is a view, and costs no launch.
    """
    counts = [-(-steps.shape[1] // BLOCK) for steps in many]
    blocks = tf.concat(
        [_in_blocks(steps, count) for steps, count in zip(many, counts, strict=True)], axis=2
    )  # [K, B, N, C]
    ways = _ways_through(blocks, places)  # [N, B, K, C, C]: from the cell before to each cell
    totals, first = [], 0
    for steps, count in zip(many, counts, strict=True):
        totals.append(_totals(ways[first : first + count])[: steps.shape[1]])
        first += count
    path, first, found = _follow(totals, places), 0, []
    for steps in many:
        found.append(tf.transpose(path[first : first + steps.shape[1]]))
        first += steps.shape[1]
    return found


def _moves(places: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(places[:, None] - places), np.float32)


def _in_blocks(steps: tf.Tensor, count: int) -> tf.Tensor:
    """Frames past the end cost nothing anywhere, so that the path stays where it is."""
    rows, frames, cells = steps.shape
    padded = tf.pad(steps, [[0, 0], [0, count * BLOCK - frames], [0, 0]])
    return tf.transpose(tf.reshape(padded, [rows, count, BLOCK, cells]), [2, 0, 1, 3])


def _ways_through(blocks: tf.Tensor, places: np.ndarray) -> tf.Tensor:
    """Costs from each cell before a block to each cell in each of its frames."""
    frames, rows, count, cells = blocks.shape
    line = np.asarray(places, np.float32)
    signs = np.stack([line, -line])  # [2, C]
    beyond = tf.fill([rows, count * cells * 2, cells - 1, 1], -FAR)
    gains = -_moves(places) - blocks[0][:, :, None, :]
    found = [gains]
    for frame in range(1, frames):
        # max over c' of (gain[c'] - |x[c] - x[c']|) is two running maxima: of gain + x from the
        # left, of gain - x from the right. A pool whose window is the whole line runs both.
        image = tf.reshape(gains[..., None, :] + signs, [rows, count * cells * 2, cells, 1])
        image = tf.concat([beyond, image, beyond], axis=2)  # XLA does not pad where it pools
        pooled = tf.nn.max_pool2d(image, [1, cells], 1, "VALID")
        pooled = tf.reshape(pooled, [rows, count, cells, 2, 2 * cells - 1])
        left, right = pooled[..., 0, :cells] - line, pooled[..., 1, cells - 1 :] + line
        gains = tf.maximum(left, right) - blocks[frame][:, :, None, :]
        found.append(gains)
    return tf.transpose(-tf.stack(found), [2, 1, 0, 3, 4])


def _totals(ways: tf.Tensor) -> tf.Tensor:
    """The cost of the cheapest way to every cell of every frame: [F, B, C]."""
    count, rows, frames, cells, _ = ways.shape
    size = math.isqrt(count - 1) + 1  # blocks of a group, and about as many groups
    groups = -(-count // size)
    stay = np.where(np.eye(cells, dtype=bool), 0.0, FAR).astype(np.float32)
    whole = tf.pad(ways[:, :, -1], [[0, groups * size - count], [0, 0], [0, 0], [0, 0]])
    whole = tf.reshape(whole, [groups, size, rows, cells, cells])
    whole = tf.transpose(whole, [1, 0, 2, 3, 4])  # [size, groups, B, C, C]
    # From before a group to before each of its blocks, side by side for all groups.
    into = [tf.constant(np.broadcast_to(stay, [groups, rows, cells, cells])), whole[0]]
    for block in range(1, size):
        into.append(_product(into[-1], whole[block]))
    through = into.pop()
    start = [tf.zeros([rows, cells])]
    for group in range(groups - 1):
        start.append(tf.reduce_min(start[-1][:, :, None] + through[group], axis=1))
    before = tf.stack(start)[:, None, :, :, None] + tf.stack(into, axis=1)
    before = tf.reshape(tf.reduce_min(before, axis=3), [groups * size, rows, 1, cells, 1])
    totals = tf.reduce_min(before[:count] + ways, axis=3)  # [N, B, K, C]
    return tf.reshape(tf.transpose(totals, [0, 2, 1, 3]), [count * frames, rows, cells])


def _product(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """The cheapest of all ways over a cell in the middle."""
    return tf.reduce_min(first[..., :, :, None] + second[..., None, :, :], axis=-2)


def _follow(many: Sequence[tf.Tensor], places: np.ndarray) -> tf.Tensor:
    """The paths back from the cheapest ends, one lot behind the other: [F, B].

    Where each cell of a frame came from is a map, and maps are joined two by two. That of a lot's
    last frame knows but one answer, so nothing leaks from the lot behind it.
    """
    maps = []
    for totals in many:
        last = tf.argmin(totals[-1], axis=-1)  # [B]
        came = tf.argmin(totals[:-1, :, None, :] + _moves(places), axis=-1)  # [F - 1, B, C]
        end = tf.broadcast_to(last[None, :, None], [1, *totals.shape[1:]])
        maps += [came, end]
    path, reach = tf.concat(maps, axis=0), 1
    while reach < max(totals.shape[0] for totals in many):
        further = tf.gather(path[:-reach], path[reach:], batch_dims=2)
        path = tf.concat([further, path[-reach:]], axis=0)
        reach *= 2
    return path[..., 0]
