"""Batches: every clip, static shapes, the same order everywhere, little padding, little time."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.data.batching import BatchPlan
from myxtts.data.buckets import Bucket, choose_buckets
from myxtts.errors import ConfigError, DataError

relaxed = settings(deadline=None)  # a busy machine is not a defect

PINNED = [[8, 5, -1], [9, 6, 7], [3, 2, 4], [0, 1, -1]]

clip_lengths = st.lists(
    st.tuples(st.integers(1, 400), st.integers(1, 90)), min_size=1, max_size=120
).map(lambda pairs: (np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])))

plan_settings = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 9),
        "batch_frames": st.none() | st.integers(1, 2000),
        "seed": st.integers(0, 2**64),
        "epoch": st.integers(0, 1000),
    }
)


def build(lengths, *, max_buckets=4, **options) -> BatchPlan:
    frames, tokens = lengths
    buckets = choose_buckets(frames, tokens, max_buckets=max_buckets)
    return BatchPlan(frames, tokens, buckets=buckets, **options)


def clips_of(batches) -> list[int]:
    return [int(i) for batch in batches for i in batch.indices if i >= 0]


def as_values(batches) -> list[tuple[tuple[int, ...], Bucket]]:
    return [(tuple(batch.indices.tolist()), batch.bucket) for batch in batches]


def speech_lengths(num_clips: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths like LJ Speech: 20 to 190 characters, most near 100, six frames a character."""
    rng = np.random.default_rng(7)
    characters = np.rint(20 + 170 * rng.beta(2.2, 2.4, num_clips)).astype(np.int64)
    return characters * 6, characters


# Every clip


@relaxed
@given(clip_lengths, plan_settings, st.integers(1, 6))
def test_every_clip_comes_exactly_once_per_epoch(lengths, options, max_buckets):
    plan = build(lengths, max_buckets=max_buckets, **options)
    assert sorted(clips_of(plan)) == list(range(len(lengths[0])))


@relaxed
@given(clip_lengths, plan_settings)
def test_every_clip_fits_its_batch_shape(lengths, options):
    frames, tokens = lengths
    for batch in build(lengths, **options):
        clips = batch.indices[batch.mask]
        assert frames[clips].max() <= batch.bucket.frames
        assert tokens[clips].max() <= batch.bucket.tokens


@relaxed
@given(clip_lengths, plan_settings)
def test_rows_are_static_per_bucket_and_keep_to_the_size_or_budget(lengths, options):
    for batch in build(lengths, **options):
        budget = options["batch_frames"]
        rows = max(1, budget // batch.bucket.frames) if budget else options["batch_size"]
        assert batch.indices.shape == (rows,)
        assert batch.indices.dtype == np.int64


@relaxed
@given(clip_lengths, plan_settings)
def test_only_the_last_batch_of_a_bucket_has_masked_rows_and_they_come_last(lengths, options):
    partial = [batch for batch in build(lengths, **options) if not batch.mask.all()]
    assert len({batch.bucket for batch in partial}) == len(partial)
    for batch in partial:
        assert batch.mask.any()
        assert (np.diff(batch.mask.astype(int)) <= 0).all()


# The same everywhere


@relaxed
@given(clip_lengths, plan_settings)
def test_the_same_inputs_give_the_same_batches_in_any_reading_order(lengths, options):
    plan, again = build(lengths, **options), build(lengths, **options)
    backwards = [again[position] for position in reversed(range(len(again)))]
    assert as_values(plan) == as_values(reversed(backwards))
    assert as_values(pickle.loads(pickle.dumps(plan))) == as_values(plan)


def test_the_order_is_pinned_so_that_a_resumed_run_survives_upgrades():
    plan = build((np.arange(1, 11) * 8, np.full(10, 4)), max_buckets=2, batch_size=3, seed=5)
    assert [batch.indices.tolist() for batch in plan] == PINNED


def test_another_process_makes_the_same_batches():
    code = (
        "import numpy as np; from myxtts.data.batching import BatchPlan\n"
        "f = np.arange(1, 200); p = BatchPlan(f, f, buckets=((100, 100), (200, 200)), seed=3)\n"
        "print([b.indices.tolist() for b in p])\n"
        "import sys; assert 'tensorflow' not in sys.modules"
    )
    frames = np.arange(1, 200)
    plan = BatchPlan(frames, frames, buckets=(Bucket(100, 100), Bucket(200, 200)), seed=3)
    said = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    assert said.stdout.strip() == str([batch.indices.tolist() for batch in plan])


def test_epochs_and_seeds_differ_in_order_and_membership():
    plan = build(speech_lengths(500))
    for other in (plan.for_epoch(1), build(speech_lengths(500), seed=1)):
        assert len(other) == len(plan)
        members = [{frozenset(clips_of([batch])) for batch in p} for p in (plan, other)]
        assert len(members[0] & members[1]) < len(plan) / 10
    assert as_values(plan.for_epoch(1).for_epoch(0)) == as_values(plan)


def test_buckets_are_mixed_through_the_epoch():
    plan = build(speech_lengths(2000), max_buckets=3)
    halves = [Counter(b.bucket for b in itertools.islice(plan, s, s + 60)) for s in (0, 60)]
    assert all(half[bucket] > 5 for half in halves for bucket in plan.buckets)


def test_later_edits_of_the_callers_arrays_do_not_change_a_plan():
    frames, tokens = speech_lengths(100)
    plan = build((frames, tokens))
    before = as_values(plan.for_epoch(1))
    frames[:] = 1
    assert as_values(plan.for_epoch(1)) == before
    with pytest.raises(ValueError, match="read-only"):
        plan.frames[0] = 3
    with pytest.raises(AttributeError):
        plan.seed = 4


def test_the_order_of_the_buckets_given_does_not_matter():
    frames, tokens = speech_lengths(100)
    buckets = choose_buckets(frames, tokens, max_buckets=4)
    mixed = BatchPlan(frames, tokens, buckets=(*buckets[::-1], buckets[1]))
    assert as_values(mixed) == as_values(BatchPlan(frames, tokens, buckets=buckets))


# Places


def test_an_index_outside_the_epoch_is_refused():
    plan = build(speech_lengths(50))
    for position in (len(plan), -len(plan) - 1):
        with pytest.raises(IndexError):
            plan[position]
    plan.check_position(len(plan))  # where a run may have stopped
    with pytest.raises(ConfigError, match="outside this epoch"):
        plan.check_position(len(plan) + 1)


# Mixing and balancing


@relaxed
@given(clip_lengths, plan_settings, st.data())
def test_balanced_groups_get_equal_shares_and_keep_every_clip(lengths, options, data):
    size = len(lengths[0])
    groups = data.draw(st.lists(st.sampled_from("abcd"), min_size=size, max_size=size))
    drawn = clips_of(build(lengths, **options, groups=groups, balance=True))
    assert set(drawn) == set(range(size))
    assert set(Counter(groups[clip] for clip in drawn).values()) == {max(Counter(groups).values())}


def test_over_many_epochs_each_clip_of_a_group_is_repeated_equally_often():
    frames = np.full(70, 80)
    plan = BatchPlan(
        frames, frames, buckets=((80, 80),), groups=["a"] * 50 + ["b"] * 20, balance=True
    )
    times = sum(np.bincount(clips_of(plan.for_epoch(e)), minlength=70) for e in range(200))
    assert (times[:50] == 200).all()
    assert np.abs(times[50:] / 200 - 2.5).max() < 0.2


@pytest.mark.parametrize(
    ("groups", "message"), [(None, "0 groups for 3"), ("ab", "2 groups for 3")]
)
def test_balancing_without_a_group_for_each_clip_is_refused(groups, message):
    lengths = np.array([8, 16, 24])
    with pytest.raises(DataError, match=message):
        BatchPlan(lengths, lengths, buckets=((24, 24),), groups=groups, balance=True)


def test_groups_too_uneven_to_balance_are_refused():
    lengths = np.full(200, 8)
    groups = ["common"] * 100 + [f"rare {i}" for i in range(100)]
    with pytest.raises(ConfigError, match="epoch of 10100 rows from 200 clips"):
        BatchPlan(lengths, lengths, buckets=((8, 8),), groups=groups, balance=True)


# Waste, words and time


@relaxed
@given(clip_lengths, plan_settings)
def test_padding_waste_is_what_the_batches_show(lengths, options):
    plan = build(lengths, **options)
    batches = list(plan)
    room = sum(len(b.indices) * b.bucket.frames for b in batches)
    of_clips = sum(int(b.mask.sum()) * b.bucket.frames for b in batches)
    assert plan.padding_waste == pytest.approx(1 - lengths[0].sum() / room)
    assert plan.padding_waste_of_clips == pytest.approx(1 - lengths[0].sum() / of_clips)
    assert sum(stats.clips for stats in plan.bucket_stats()) == len(lengths[0])


def test_six_buckets_waste_at_most_12_percent_of_read_speech():
    plan = build(speech_lengths(13_100), max_buckets=6)
    assert plan.padding_waste_of_clips < plan.padding_waste <= 0.12
    assert plan.static_shape_waste > 0.4


def test_the_description_names_every_bucket_the_waste_and_the_one_static_shape():
    plan = build(speech_lengths(1000), max_buckets=3, groups=[0] * 900 + [1] * 100, balance=True)
    text = plan.describe()
    assert all(f"{b.frames} x {b.tokens}" in text for b in plan.buckets)
    assert f"{plan.padding_waste:.1%} with masked rows" in text
    assert f"one static shape would waste {plan.static_shape_waste:.1%}" in text
    assert "1000 clips give 1800 rows" in text
    assert max(map(len, text.splitlines())) <= 100
    assert len(repr(plan)) < 500


def test_an_unused_bucket_has_no_batches_and_no_waste():
    lengths = np.array([8, 8])
    plan = BatchPlan(lengths, lengths, buckets=((8, 8), (80, 80)), batch_size=2)
    assert [(s.batches, s.waste) for s in plan.bucket_stats()] == [(1, 0.0), (0, 0.0)]


def test_a_million_clips_are_planned_within_3_s_and_skipped_within_10_ms():
    frames, tokens = speech_lengths(1_000_000)
    began = time.perf_counter()
    plan = build((frames, tokens), max_buckets=6)
    planned = time.perf_counter()
    first = plan[len(plan) // 2]
    skipped = time.perf_counter()
    assert planned - began <= 3
    assert skipped - planned <= 0.01
    assert len(first.indices) == 16


# What is refused


@pytest.mark.parametrize(
    ("frames", "tokens", "message"),
    [
        ([], [], "no clips"),
        ([8, 0], [1, 1], "Clip 1 has 0 frames"),
        ([8, 8], [1, -2], "Clip 1 has -2 tokens"),
        ([8, 8], [1], "2 frame counts but 1 token"),
        ([8.5], [1], "whole number of frames"),
        ([[8]], [1], "whole number of frames"),
        ([8, 99], [1, 1], "1 clips fit no bucket; the first is clip 1"),
        ([8, 9], [99, 1], "the first is clip 0 with 8 frames and 99 tokens"),
    ],
)
def test_lengths_that_cannot_be_planned_name_the_clip(frames, tokens, message):
    with pytest.raises(DataError, match=message):
        BatchPlan(frames, tokens, buckets=(Bucket(16, 16),))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_frames": 0}, "batch_frames is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"epoch": -1}, "epoch is -1"),
        ({"buckets": ()}, "buckets is"),
        ({"buckets": ((0, 8),)}, "buckets is"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        BatchPlan([8], [8], **{"buckets": ((8, 8),), **options})
