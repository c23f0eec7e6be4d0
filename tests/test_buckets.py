"""Few static shapes for many lengths: as good as trying all, and worth their compilation."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.data.batching import BatchPlan
from myxtts.data.buckets import choose_buckets
from myxtts.errors import ConfigError

relaxed = settings(deadline=None)  # a busy machine is not a defect

clip_lengths = st.lists(
    st.tuples(st.integers(1, 400), st.integers(1, 90)), min_size=1, max_size=120
).map(lambda pairs: (np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])))


def speech_lengths(num_clips: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths like LJ Speech: 20 to 190 characters, most near 100, six frames a character."""
    rng = np.random.default_rng(7)
    characters = np.rint(20 + 170 * rng.beta(2.2, 2.4, num_clips)).astype(np.int64)
    return characters * 6, characters


def padded_frames(lengths: np.ndarray, edges: tuple[int, ...], *, rows: int) -> int:
    counts = np.bincount(np.searchsorted(edges, lengths), minlength=len(edges))
    return int((-(-counts // rows) * rows * np.array(edges)).sum())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=40).map(np.array),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_the_buckets_chosen_are_as_good_as_trying_all(frames, max_buckets, rows):
    buckets = choose_buckets(frames, frames, max_buckets=max_buckets, batch_size=rows)
    edges = np.unique(-(-frames // 8) * 8)
    best = min(
        padded_frames(frames, (*cuts, edges[-1]), rows=rows)
        for number in range(min(max_buckets, len(edges)))
        for cuts in itertools.combinations(edges[:-1], number)
    )
    assert padded_frames(frames, tuple(b.frames for b in buckets), rows=rows) == best
    assert len(buckets) <= max_buckets


@relaxed
@given(clip_lengths, st.integers(1, 8), st.integers(1, 16), st.integers(1, 16))
def test_shapes_are_few_distinct_and_multiples(lengths, max_buckets, by_frames, by_tokens):
    frames, tokens = lengths
    buckets = choose_buckets(
        frames, tokens, max_buckets=max_buckets, frame_multiple=by_frames, token_multiple=by_tokens
    )
    assert 1 <= len(buckets) <= max_buckets
    assert list(buckets) == sorted(set(buckets))
    assert all(b.frames % by_frames == 0 and b.tokens % by_tokens == 0 for b in buckets)
    assert buckets[-1].frames == -(-frames.max() // by_frames) * by_frames


def test_one_bucket_is_one_static_shape_that_holds_all():
    frames, tokens = speech_lengths(1000)
    (shape,) = choose_buckets(frames, tokens, max_buckets=1)
    assert 0 <= shape.frames - frames.max() < 8
    assert 0 <= shape.tokens - tokens.max() < 4
    plan = BatchPlan(frames, tokens, buckets=(shape,))
    assert plan.padding_waste == plan.static_shape_waste


def test_a_longer_run_affords_more_shapes_and_a_short_one_only_one():
    frames, tokens = speech_lengths(5000)
    numbers = [
        len(choose_buckets(frames, tokens, max_buckets=8, steps=steps))
        for steps in (0, 50, 500, 2000, 10_000, 1_000_000)
    ]
    assert numbers == sorted(numbers)
    assert numbers[:2] == [1, 1]
    assert numbers[-1] == 8
    free = choose_buckets(frames, tokens, max_buckets=8, steps=50, compile_steps=0)
    assert len(free) == 8


def test_small_data_gets_no_bucket_that_masked_rows_would_eat_up():
    frames = np.array([80] * 16 + [160])
    assert len(choose_buckets(frames, frames, max_buckets=6, batch_size=17)) == 1
    assert len(choose_buckets(frames, frames, max_buckets=6, batch_size=1)) == 2


def test_very_many_different_lengths_are_cut_quickly_and_still_covered():
    lengths = np.arange(1, 60_001)
    began = time.perf_counter()
    buckets = choose_buckets(lengths, lengths, max_buckets=6)
    assert time.perf_counter() - began < 3
    assert BatchPlan(lengths, lengths, buckets=buckets).padding_waste < 0.16  # even cuts: 1/7


@pytest.mark.parametrize("name", ["max_buckets", "frame_multiple", "token_multiple", "batch_size"])
def test_bucket_settings_out_of_range_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name} is 0"):
        choose_buckets([8], [8], **{"max_buckets": 1, name: 0})
