"""The pitch of every frame, by YIN and a path that does not jump by octaves, in TensorFlow.

Shapes: B batch, S samples, F frames. Rows one by one on a CPU, all at once on a GPU, as the mels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from myxtts.features.audio import HOP
from myxtts.features.cheapest_path import path_by_frame, paths_in_blocks, to_grain
from myxtts.features.filters import (
    CELL,
    LAG_PREFERENCE,
    MAX_LAG,
    MIN_LAG,
    NO_OPINION,
    NUM_CELLS,
    OCTAVES,
    PITCH_FFT,
    PITCH_HOP,
    PITCH_RATE,
    PITCH_WINDOW,
    PLACES,
    STRETCH,
    YIN_VOICED,
    half_band,
)
from myxtts.features.mels import frame_mask, product, side_by_side


class Heard(NamedTuple):
    """Waves whose pitch is asked for: of every frame, or of the first of each `every`."""

    waves: tf.Tensor
    lengths: tf.Tensor
    every: int = 1  # more than 1 where a voice's statistics are all one needs


def pitch(waves: tf.Tensor, lengths: tf.Tensor, *, every: int = 1) -> tuple[tf.Tensor, tf.Tensor]:
    """Fundamental frequency [B, F] in Hz (0 where unvoiced) and the voicing [B, F] as booleans."""
    return pitches([Heard(waves, lengths, every)])[0]


def pitches(
    asked: Sequence[Heard], *, by_row: bool = True, exact: bool = False
) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """The pitch of several lots of waves.

    YIN with the cumulative mean normalised difference, and a path through the lags that does not
    jump by octaves (the octave is what YIN by itself gets wrong).
    """
    costs = [_costs(heard, by_row=by_row, exact=exact) for heard in asked]  # [B, F, lags]
    cells = [_cells(cost) for cost in costs]
    steps = [_steps(cell) for cell in cells]
    if by_row:
        paths = [path_by_frame(step, PLACES) for step in steps]
    else:
        paths = paths_in_blocks(steps, PLACES)
    found = []
    for heard, cost, cell, path in zip(asked, costs, cells, paths, strict=True):
        inside = tf.argmin(tf.gather(cell, path, batch_dims=2), axis=-1)
        aperiodicity, lag = _refine(cost, MIN_LAG + CELL * path + inside)
        voiced = (aperiodicity < YIN_VOICED) & frame_mask(heard.waves, heard.lengths)[
            :, :: heard.every
        ]
        found.append((tf.where(voiced, PITCH_RATE / lag, 0.0), voiced))
    return found


def _costs(heard: Heard, *, by_row: bool, exact: bool) -> tf.Tensor:
    span = PITCH_WINDOW + MAX_LAG
    padded = tf.pad(_halve_rate(heard.waves, exact=exact), [[0, 0], [span // 2, span]])
    count = -(-(1 + heard.waves.shape[1] // HOP) // heard.every)
    if by_row:
        return tf.map_fn(lambda row: _aperiodicity(row, count, heard.every, exact=exact), padded)
    return _aperiodicity(padded, count, heard.every, exact=exact)


def _aperiodicity(padded: tf.Tensor, count: int, every: int, *, exact: bool) -> tf.Tensor:
    """YIN's normalised difference in frames for lags 0 to MAX_LAG: near 0 at the period."""
    span, hop = PITCH_WINDOW + MAX_LAG, PITCH_HOP * every
    blocks = side_by_side(padded, count, size=span, hop=hop)
    heads = tf.signal.rfft(blocks[..., :PITCH_WINDOW], [PITCH_FFT])
    products = tf.signal.rfft(blocks, [PITCH_FFT]) * tf.math.conj(heads)
    correlation = tf.signal.irfft(products, [PITCH_FFT])[..., : MAX_LAG + 1]
    # The energy under the window changes with the lag by what comes in and what goes out.
    squares = tf.square(blocks)
    change = squares[..., PITCH_WINDOW:] - squares[..., :MAX_LAG]
    energy = tf.reduce_sum(squares[..., :PITCH_WINDOW], axis=-1, keepdims=True)
    nothing = tf.zeros_like(change[..., :1])
    energies = energy + tf.cumsum(tf.concat([nothing, change], axis=-1), axis=-1)
    difference = tf.maximum(energy + energies - 2.0 * correlation, 0.0)
    lags = np.arange(MAX_LAG + 1, dtype=np.float32)
    running_sum = np.triu(np.ones([len(lags), len(lags)], np.float32))  # cheaper than tf.cumsum
    # The small constant makes silence aperiodic instead of 0 / 0.
    return (difference * lags + 1e-7) / (product(difference, running_sum, exact=exact) + 1e-7)


def _cells(cost: tf.Tensor) -> tf.Tensor:
    """Costs of the lags in their cells: [B, F, C, CELL]."""
    local = cost[..., MIN_LAG : MIN_LAG + NUM_CELLS * CELL] + LAG_PREFERENCE * OCTAVES
    return tf.reshape(local, [*cost.shape[:2], NUM_CELLS, CELL])


def _steps(cells: tf.Tensor) -> tf.Tensor:
    return to_grain(tf.minimum(tf.reduce_min(cells, axis=-1), NO_OPINION))


def _refine(cost: tf.Tensor, lag: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The aperiodicity at each frame's lag, and the lag between samples by a parabola."""
    around = tf.gather(cost, lag[..., None] + np.array([-1, 0, 1]), batch_dims=2)
    left, here, right = tf.unstack(around, axis=-1)
    bend = left - 2.0 * here + right
    shift = tf.where(bend > 1e-6, 0.5 * (left - right) / tf.maximum(bend, 1e-6), 0.0)
    return here, tf.cast(lag, tf.float32) + tf.clip_by_value(shift, -0.5, 0.5)


def _halve_rate(waves: tf.Tensor, *, exact: bool) -> tf.Tensor:
    """Every second sample of the low-passed waves; a product is far cheaper than a convolution."""
    matrix = half_band()
    margin = (len(matrix) - STRETCH) // 2
    count = -(-waves.shape[1] // STRETCH)
    padded = tf.pad(waves, [[0, 0], [margin, margin + count * STRETCH - waves.shape[1]]])
    stretches = side_by_side(padded, count, size=len(matrix), hop=STRETCH)
    return tf.reshape(product(stretches, matrix, exact=exact), [waves.shape[0], -1])
