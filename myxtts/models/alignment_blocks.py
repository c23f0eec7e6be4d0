"""The path of greatest likelihood, many frames at a time: for a GPU, where a round of a loop costs
more than what it computes.

Not a bit differs from the search frame by frame. Every sum is added up in the same order, so the
sums of a block cannot be found side by side; but a block may be one kernel, if each token works out
by itself what its neighbours come to. The way back is whole numbers: where each token of a frame
came from is a map, and maps are joined two by two.
Shapes: B batch, T text, F frames; K frames of a block, N blocks.
"""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from myxtts.models.layers import counted
from myxtts.models.loops import scan

IMPOSSIBLE = -1e9
# A kernel computes K * K / 2 sums for each token, which takes a GPU less time than its launch.
BLOCK = 28


def search_in_blocks(
    likelihood: tf.Tensor, token_lengths: tf.Tensor, mel_lengths: tf.Tensor
) -> tf.Tensor:
    """The best path through [B, T, F] as zeros and ones [B, T, F]; sizes must be fixed."""
    tokens, frames = likelihood.shape[1:]
    compiled = is_compiled()
    steps = tf.transpose(likelihood, [2, 1, 0])  # [F, T, B]: slices of T are views
    start = tf.concat([steps[0, :1], _impossible(steps[0, 1:])], axis=0)
    totals = tf.concat([start[None], _totals(steps[1:], start, compiled=compiled)], axis=0)
    stay = totals[:-1]
    move = tf.concat([_impossible(stay[:, :1]), stay[:, :-1]], axis=1)
    spoken = tf.cast(mel_lengths, tf.float32)
    within = counted(frames)[1:, None, None] < spoken  # padding never moves the path
    moved = (move > stay) & within
    number = counted(tokens)[:, None]
    came = number - tf.cast(moved, tf.float32)  # [F - 1, T, B]: the token before, from each
    last = tf.maximum(tf.cast(token_lengths, tf.float32) - 1.0, 0.0)
    # Whole numbers of 32 bits take half the memory, but without XLA the host would compute them.
    kind = tf.int32 if compiled else tf.int64
    path = _follow(tf.cast(came, kind), tf.cast(last, kind))  # [B, F]
    silent = tf.cast(token_lengths, tf.float32) < 1.0  # a masked row says nothing
    real = (counted(frames) < spoken[:, None]) & ~silent[:, None]
    return tf.one_hot(path, tokens, axis=1) * tf.cast(real, tf.float32)[:, None, :]


def is_compiled() -> bool:
    """Whether XLA compiles what is traced now; asked as TensorFlow's own loops ask."""
    return bool(control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def _impossible(like: tf.Tensor) -> tf.Tensor:
    return tf.zeros_like(like) + IMPOSSIBLE


def _totals(steps: tf.Tensor, start: tf.Tensor, *, compiled: bool) -> tf.Tensor:
    """The likelihood of the best way to every token of every frame, [F - 1, T, B]."""
    frames, tokens = steps.shape[:2]
    count = -(-frames // BLOCK)
    # Nothing is added before the first token, so that what is impossible there stays it.
    around = [[0, count * BLOCK - frames], [BLOCK, 0], [0, 0]]
    blocks = tf.reshape(tf.pad(steps, around), [count, BLOCK, tokens + BLOCK, -1])
    work = _by_token if compiled else _by_frame
    nowhere = _impossible(blocks[0, 0, :BLOCK])

    def one_block(before: tf.Tensor, block: tf.Tensor) -> tf.Tensor:
        return work(tf.concat([nowhere, before[-1]], axis=0), block)

    found = scan(one_block, blocks, start + tf.zeros([BLOCK, 1, 1]))
    return tf.reshape(found, [count * BLOCK, tokens, -1])[:frames]


def _by_token(total: tf.Tensor, block: tf.Tensor) -> tf.Tensor:
    """The sums [K, T, B] of a block, each token by itself: XLA makes one kernel of it."""
    tokens = total.shape[0] - BLOCK

    def before(numbers: tf.Tensor, distance: int) -> tf.Tensor:
        return tf.slice(numbers, [BLOCK - distance, 0], [tokens, -1])

    reached = [before(total, distance) for distance in range(BLOCK + 1)]
    found = []
    for frame in range(BLOCK):
        here = block[frame]
        reached = [
            tf.maximum(reached[i], reached[i + 1]) + before(here, i) for i in range(BLOCK - frame)
        ]
        found.append(reached[0])
    return tf.stack(found)


def _by_frame(total: tf.Tensor, block: tf.Tensor) -> tf.Tensor:
    """The same for kernels that are launched one by one: two for each frame."""
    found = []
    for frame in range(BLOCK):
        total = tf.maximum(total[1:], total[:-1]) + block[frame][frame + 1 :]
        found.append(total[BLOCK - frame - 1 :])
    return tf.stack(found)


def _follow(came: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """The token of each frame [B, F], back from the last one [B]."""
    frames, tokens = came.shape[0] + 1, came.shape[1]
    # Wherever one comes from behind the end, it is this one.
    end = (last + tf.zeros([tokens, 1], last.dtype))[None]
    path = tf.transpose(tf.concat([came, end], axis=0), [2, 0, 1])  # [B, F, T]
    reach = 1
    while reach < frames:
        further = tf.gather(path[:, :-reach], path[:, reach:], batch_dims=2)
        path = tf.concat([further, path[:, -reach:]], axis=1)
        reach *= 2
    return path[..., 0]
