"""Clips are held out by fixed rules, measured the same every time, and never trained on."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from myxtts.data import training_data
from tests.training_clips import as_bytes, first_batches, prepare, speak, spoken_in, texts_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return speak(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def data(folder):
    return prepare(folder)


def test_held_out_clips_are_few_fixed_and_said(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    data = prepare(speak(tmp_path, 24))
    held_out = set(data.validation.paths)
    assert 1 <= len(held_out) <= 4
    assert not held_out & set(data.train.paths)
    assert len(data.train) + len(held_out) == 24
    assert f"{len(held_out)} of 24 training clips" in caplog.text
    more = prepare(speak(tmp_path, 16, first=24), seed=9)
    assert held_out <= set(more.validation.paths)  # new clips move none
    assert set(data.train.paths) <= set(more.train.paths)


def test_fewer_than_ten_clips_are_all_trained_on(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    data = prepare(speak(tmp_path, 9))
    assert data.validation is None
    assert len(data.train) == 9
    assert list(data.validation_batches()) == []
    assert "9 clips" in caplog.text
    (batch,) = data.heard_batches()  # so even a minute of recordings is heard while it trains
    rows = [row for row in data.heard if row is not None]
    assert len(spoken_in([batch])) == len(rows) == 2
    said = sorted(data.tokenizer.encode(row.text, row.language) for row in rows)
    assert [list(ids) for ids in said] == spoken_in([batch])
    assert prepare(speak(tmp_path, 1, first=9)).validation is not None


def test_a_speaker_never_loses_every_clip(tmp_path, data):
    alone = data.train.take(np.arange(12))
    alone = training_data.replace(
        alone, speakers=np.arange(12), speaker_names=tuple(map(str, range(12)))
    )
    kept, held_out = training_data.hold_out(alone)
    assert len(held_out) == 0
    pairs = training_data.replace(alone, speakers=np.arange(12) // 2)
    kept, held_out = training_data.hold_out(pairs)
    assert set(pairs.speakers[kept]) == set(range(6))


@pytest.mark.parametrize(("clips", "low", "high"), [(2000, 60, 140), (20_000, 200, 200)])
def test_about_a_twentieth_and_at_most_two_hundred_are_held_out(data, clips, low, high):
    rows = data.train.take(np.zeros(clips, np.int64))
    rows = training_data.replace(rows, paths=tuple(f"wavs/{i}.wav" for i in range(clips)))
    kept, held_out = training_data.hold_out(rows)
    assert low <= len(held_out) <= high
    assert sorted([*kept, *held_out]) == list(range(clips))


def test_validation_is_the_same_every_time_and_holds_every_clip_once(folder, data):
    batches = list(data.validation_batches())
    first = as_bytes(batches)
    assert as_bytes(data.validation_batches()) == first
    for settings in ({"cache": "memory"}, {"use_tf_native_loading": False, "num_workers": 2}):
        assert as_bytes(prepare(folder, seed=3, **settings).validation_batches()) == first
    assert spoken_in(batches) == texts_of(data.validation)


def test_references_of_held_out_clips_are_training_clips_of_the_speaker(data):
    source, plan = data._validation_source, data._validation_plan
    for position in range(len(plan)):
        request = source._request(plan, position)
        for clip, other in zip(request.clips, request.references, strict=True):
            if clip >= 0:
                assert 0 <= other < len(data.train)
                speaker = data.validation.speakers[clip - len(data.train)]
                assert data.train.speakers[other] == speaker


def test_training_never_hears_a_held_out_clip(data):
    for epoch in range(3):
        plan = data.plan.for_epoch(epoch)
        for position in range(len(plan)):
            request = data._source._request(plan, position)
            assert max(request.clips.max(), request.references.max()) < len(data.train)


def test_validation_data_of_its_own_uses_the_tokenizer_of_training(tmp_path):
    train = speak(tmp_path / "train", 12)
    val = speak(tmp_path / "val", 6, speakers=1, longest=1.5, name="v")
    with (val / "metadata.csv").open("a") as file:
        file.write("wavs/none.wav|Not there|s0\n")
    data = prepare(train, val_data=val)
    assert len(data.train) == 12
    assert len(data.validation) == 6
    assert data.listed == 19 == len(data.train) + len(data.validation) + len(data.dropped)
    batches = list(data.validation_batches())
    assert spoken_in(batches) == texts_of(data.validation)
    assert first_batches(data, 3) == first_batches(prepare(train, val_data=train), 3)


def test_validation_adds_a_shape_only_for_clips_that_fit_none(tmp_path):
    train, val = speak(tmp_path / "train", 12), speak(tmp_path / "val", 7, longest=2.0)
    data = prepare(train, val_data=val)
    shapes = {batch.bucket for batch in data._validation_plan.batches}
    assert len(shapes - set(data.plan.buckets)) == 1
    one = prepare(train, val_data=val, static_shapes="one")
    assert {batch.bucket for batch in one._validation_plan.batches} == set(one.plan.buckets)
    assert len(one.plan.buckets) == 1
    alike = prepare(train, val_data=train)
    assert {b.bucket for b in alike._validation_plan.batches} <= set(alike.plan.buckets)
