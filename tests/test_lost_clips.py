"""Clips that vanish, shrink or rot while they are read: masked, named once, at no cost in speed."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from myxtts.config.config import DataConfig
from myxtts.data import native_wav
from myxtts.data.loader import HostBatches, LoaderState
from myxtts.data.lost import least_samples
from myxtts.data.training_data import prepare_training
from myxtts.errors import DataError
from myxtts.features.audio import SAMPLE_RATE
from tests import runs
from tests.clips import as_bytes, clips_in, open_clips, plan_of, speak

WAYS = [{"use_tf": True}, {"use_tf": False}]


def prepare(folder, **settings):
    config = DataConfig(
        train_data=folder, tokenizer="characters", batch_size=2, max_buckets=1, **settings
    )
    return prepare_training(config, seed=0)


@pytest.fixture
def table(tmp_path):
    return open_clips(speak(tmp_path / "data"))


def damage(path, how):
    if how == "removed":
        path.unlink()
    elif how == "shrunk":
        soundfile.write(path, np.full(1000, 0.1), SAMPLE_RATE)
    elif how == "halved":
        wave, rate = soundfile.read(path)
        soundfile.write(path, wave[: len(wave) // 2], rate)
    else:
        contents = {"emptied": b"", "garbled": os.urandom(3000), "zeroed": bytes(200_000)}
        path.write_bytes(contents[how])


@pytest.mark.parametrize("how", ["removed", "emptied", "garbled", "zeroed", "shrunk", "halved"])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_clip_that_breaks_is_masked_and_named_once(table, how, way, caplog):
    plans = [plan_of(table, epoch=epoch) for epoch in (0, 1)]
    batches = HostBatches(table, plans[0], **way)
    damage(table.folder / table.paths[0], how)
    for plan in plans:
        clips = [clip for batch in batches.for_plan(plan, **way) for clip in clips_in(batch, table)]
        assert sorted(clips) == list(range(1, len(table)))
    assert [clip for clip in range(len(table)) if clip in batches.lost] == [0]
    (named,) = [r.message for r in caplog.records if "can no longer be read" in r.message]
    assert table.paths[0] in named


def test_what_is_left_is_the_same_however_it_is_read(table):
    damage(table.folder / table.paths[2], "shrunk")
    damage(table.folder / table.paths[4], "removed")
    seen = []
    for way in WAYS:
        batches = HostBatches(table, plan_of(table), **way)
        seen += [as_bytes(batches), as_bytes(batches)]  # found while reading, then known
    seen.append(as_bytes(HostBatches(table, plan_of(table), cache="memory")))
    seen.append(as_bytes(HostBatches(table, plan_of(table), cache="disk")))
    assert all(each == seen[0] for each in seen)


def test_one_graph_reads_all_batches_whatever_is_lost(table, monkeypatch):
    built, traced = [], []
    read, load = native_wav.read_batches, native_wav._load
    monkeypatch.setattr(
        native_wav, "read_batches", lambda *a, **k: built.append(1) or read(*a, **k)
    )
    monkeypatch.setattr(native_wav, "_load", lambda *a: traced.append(1) or load(*a))
    for clip in (0, 2, 5, 7):
        damage(table.folder / table.paths[clip], "removed")
    batches = HostBatches(table, plan_of(table)).batches(epochs=4)
    clips = [clip for batch in batches for clip in clips_in(batch, table)]
    assert len(clips) == 4 * (len(table) - 4)
    assert len(built) == len(traced) == 1


def test_a_lost_clip_is_not_touched_again(table, monkeypatch):
    damage(table.folder / table.paths[0], "removed")
    batches = HostBatches(table, plan_of(table))
    list(batches)
    monkeypatch.setattr(HostBatches, "_read", None)  # TensorFlow alone: nothing fails any more
    assert len(list(batches)) == len(plan_of(table))
    for position in range(len(batches)):
        request = batches._request(plan_of(table), position)
        assert 0 not in request.clips
        assert 0 not in request.references


def test_a_large_file_of_zeros_takes_no_time(table, tmp_path):
    path = tmp_path / "zeros.wav"
    for head in (b"", (table.folder / table.paths[0]).read_bytes()[:36]):  # with and without format
        path.write_bytes(head + bytes(2_000_000))
        began = time.monotonic()
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.function(native_wav._find_samples)(tf.constant([path.read_bytes()]))
        assert time.monotonic() - began < 5  # 30 s at 8 bytes a turn


# -- too much of it --


def test_more_than_the_share_stops_the_reading_and_says_so(tmp_path):
    folder = runs.make_clips(tmp_path, 9)
    for most, gone, stops in ((0.2, 1, False), (0.2, 2, True), (1.0, 2, False)):
        data = prepare(folder, max_lost_share=most)
        lost = [data.train.folder / data.train.paths[clip] for clip in (0, 4)[:gone]]
        kept = [path.read_bytes() for path in lost]
        for path in lost:
            path.write_bytes(b"rotten")
        batches = data.batches(epochs=2)
        if stops:
            with pytest.raises(DataError, match=r"2 of 9 training clips \(22.2 %\)") as end:
                list(batches)
            assert "data.max_lost_share allows (20.0 %)" in end.value.problem
            assert str(data.train.folder) in end.value.remedy
            assert "the same command" in end.value.remedy
        else:
            assert sum(np.count_nonzero(b["token_lengths"]) for b in batches) == 2 * (9 - gone)
        assert data.num_lost == gone
        for path, content in zip(lost, kept, strict=True):
            path.write_bytes(content)


@pytest.mark.parametrize("native", [True, False])
def test_an_empty_batch_stops_the_reading(tmp_path, native):
    data = prepare(runs.make_clips(tmp_path, 9), max_lost_share=0.9, use_tf_native_loading=native)
    full = [position for position, batch in enumerate(data.plan) if batch.mask.all()]
    for clip in data.plan[full[2]].indices:
        (data.train.folder / data.train.paths[clip]).unlink()
    batches = data.batches()
    for _ in range(full[2]):
        next(batches)
    with pytest.raises(DataError, match=f"Batch {full[2] + 1} of epoch 1 has none of its 2 clips"):
        next(batches)
    assert batches.get_state() == LoaderState(0, full[2])


def test_a_batch_of_one_clip_is_passed_over_with_it(tmp_path):
    """Else a run would end, some night, because the one clip it lost came last in its bucket."""
    data = prepare(runs.make_clips(tmp_path, 9), max_lost_share=0.2)
    (lone,) = [position for position, batch in enumerate(data.plan) if batch.mask.sum() == 1]
    (data.train.folder / data.train.paths[data.plan[lone].indices[0]]).unlink()
    batches, states = data.batches(epochs=2), []
    for batch in batches:
        assert batch["token_lengths"].any()
        states.append(batches.get_state())
    assert LoaderState(0, lone + 1) not in states
    assert len(states) in (2 * len(data.plan) - 1, 2 * len(data.plan) - 2)


def test_a_disk_that_goes_away_is_noticed_at_the_first_clip(tmp_path, caplog):
    """The batch during which it went still has a clip; it must not be trained on all the same."""
    data = prepare(runs.make_clips(tmp_path, 9), max_lost_share=0.5)
    first = int(data.plan[0].indices[0])
    for clip, path in enumerate(data.train.paths):
        if clip != first:
            (data.train.folder / path).unlink()
    with pytest.raises(DataError, match="8 of 9 training clips"):
        next(data.batches())
    assert caplog.text.count("can no longer be read") <= 3  # those of one batch, not all


def test_clips_that_went_together_are_found_together(tmp_path, monkeypatch):
    data = prepare(runs.make_clips(tmp_path, 40), max_lost_share=0.5)
    for path in data.train.paths[::3]:
        (data.train.folder / path).unlink()
    failed, read = [], HostBatches._read
    monkeypatch.setattr(HostBatches, "_read", lambda *a: failed.append(1) or read(*a))
    list(data.batches(epochs=1))
    assert data.num_lost == len(data.train.paths[::3])
    assert len(failed) <= 1 + 2 * native_wav.READ_AHEAD + 1  # those that were under way


def test_validation_passes_over_what_is_lost(tmp_path):
    folder = runs.make_clips(tmp_path / "train", 9)
    data = prepare(folder, val_data=runs.make_clips(tmp_path / "val", 4))
    assert len(list(data.validation_batches())) == 2
    for path in data.validation.paths[:3]:
        (data.validation.folder / path).unlink()
    (left,) = data.validation_batches()
    assert np.count_nonzero(left["token_lengths"]) == 1
    assert data.num_lost == 3
    next(data.batches())  # training is not concerned


# -- caches and converted files --


@pytest.mark.parametrize("cache", ["memory", "disk"])
def test_a_clip_gone_bad_since_its_check_is_left_out_of_the_cache(table, cache, caplog):
    first, second = (table.folder / table.paths[clip] for clip in (0, 3))
    whole, stamp = first.read_bytes(), first.stat()

    def write_unnoticed(contents):
        """As a failing disk does: neither size nor time tell of it."""
        first.write_bytes(contents)
        os.utime(first, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    write_unnoticed(os.urandom(len(whole)))
    second.unlink()
    for _ in range(2):  # made, then found
        batches = HostBatches(table, plan_of(table), cache=cache)
        clips = [clip for batch in batches for clip in clips_in(batch, table)]
        assert sorted(clips) == [1, 2, *range(4, len(table))]
        assert len(batches.lost) == 2
    assert caplog.text.count(f"{table.paths[0]} can no longer") == 2  # once each time
    write_unnoticed(whole)
    batches = HostBatches(table, plan_of(table), cache=cache)
    clips = [clip for batch in batches for clip in clips_in(batch, table)]
    assert sorted(clips) == [0, 1, 2, *range(4, len(table))]


def test_a_disk_cache_cut_short_in_mid_run_loses_clips_and_not_the_process(table):
    batches = HostBatches(table, plan_of(table), cache="disk")
    (store,) = table.cache_folder.glob("clips-*.i16")
    os.truncate(store, store.stat().st_size // 2)
    assert 0 < len([clip for batch in batches for clip in clips_in(batch, table)]) < len(table)
    assert len(batches.lost) > 0


@pytest.mark.parametrize("when", ["before a start", "in mid run"])
@pytest.mark.parametrize("how", ["emptied", "zeroed", "shrunk", "removed"])
def test_a_damaged_converted_clip_is_made_anew(table, how, when):
    expected = as_bytes(HostBatches(table, plan_of(table)))
    batches = HostBatches(table, plan_of(table))
    for path in (table.cache_folder / "converted").iterdir():
        damage(path, how)
    if when == "before a start":
        batches = HostBatches(table, plan_of(table))
    assert as_bytes(batches) == expected
    assert len(batches.lost) == 0
    lengths = [soundfile.info(path).frames for path in (table.cache_folder / "converted").iterdir()]
    assert sorted(lengths) == sorted(table.samples[~table.native])


def test_a_clip_that_cannot_be_converted_any_more_is_lost_and_no_traceback(table):
    (table.folder / table.paths[3]).unlink()
    batches = HostBatches(table, plan_of(table))
    assert sum(len(clips_in(batch, table)) for batch in batches) == len(table) - 1
    assert 3 in batches.lost


def test_as_much_of_a_clip_must_be_there_as_its_text_needs(table):
    least = least_samples(table)
    assert (least <= table.samples).all()
    assert (1 + least // 256 >= table.token_lengths).all()
    assert (1 + least // 256 >= table.frames - 1).all()


def test_a_disk_cache_that_cannot_be_finished_leaves_nothing(table, monkeypatch):
    from myxtts.data import wave_cache

    decode, done = wave_cache.try_decode, []

    def fill_up(*arguments, **more):
        done.append(1)
        if len(done) > 5:
            raise OSError(28, "No space left on device")
        return decode(*arguments, **more)

    monkeypatch.setattr(wave_cache, "try_decode", fill_up)
    with pytest.raises(DataError, match="cannot be written: .*No space left"):
        HostBatches(table, plan_of(table), cache="disk")
    assert not list(table.cache_folder.glob("clips-*"))


def test_what_a_killed_writer_left_goes_with_the_next_start_but_a_living_ones_stays(table):
    import fcntl

    HostBatches(table, plan_of(table), cache="disk")
    dead, alive = (table.cache_folder / f"clips-{name}.tmp" for name in ("a.123", "b.456"))
    dead.write_bytes(bytes(1000))
    with alive.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        HostBatches(table, plan_of(table), cache="disk")
        assert not dead.exists()
        assert alive.exists()
