"""The path in blocks, for a GPU, is the path frame by frame, to the last cell."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.features.cheapest_path import GRAIN, path_by_frame, paths_in_blocks, to_grain

PLACES = np.round(0.6 * np.log2(np.arange(1, 9) / 2 + 1) / GRAIN) * np.float32(GRAIN)


def draw(rng: np.random.Generator, rows: int, frames: int) -> tf.Tensor:
    """Costs like those of speech: voiced stretches, and frames without an opinion."""
    costs = rng.random([rows, frames, len(PLACES)]) * rng.choice([0.2, 1.0, 9.0], [rows, frames, 1])
    return to_grain(tf.constant(np.minimum(costs, 0.6), tf.float32))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 70), st.integers(1, 20))
def test_blocks_find_the_same_path(seed, frames, fewer):
    rng = np.random.default_rng(seed)
    many = [draw(rng, 2, frames), draw(rng, 2, fewer)]
    for steps, path in zip(many, paths_in_blocks(many, PLACES), strict=True):
        np.testing.assert_array_equal(path, path_by_frame(steps, PLACES))


def test_it_is_the_cheapest_of_all_paths():
    steps = draw(np.random.default_rng(3), 1, 4)
    moves = np.abs(PLACES[:, None] - PLACES)
    cells = np.stack(np.meshgrid(*[np.arange(len(PLACES))] * 4, indexing="ij"), -1).reshape(-1, 4)
    costs = steps.numpy()[0, np.arange(4), cells].sum(1) + moves[cells[:, :-1], cells[:, 1:]].sum(1)
    found = path_by_frame(steps, PLACES).numpy()[0]
    cost = steps.numpy()[0, np.arange(4), found].sum() + moves[found[:-1], found[1:]].sum()
    assert cost == pytest.approx(costs.min(), abs=1e-6)


def test_silence_in_between_keeps_the_path_where_it_was():
    steps = np.full([1, 40, len(PLACES)], 0.6, np.float32)
    steps[0, :5, 2] = steps[0, 30:, 2] = 0.0
    (path,) = paths_in_blocks([to_grain(tf.constant(steps))], PLACES)
    assert set(path.numpy()[0]) == {2}
