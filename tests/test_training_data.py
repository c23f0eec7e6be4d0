"""What a trainer is fed: the same batches from any place on, and clips held out by fixed rules."""

from __future__ import annotations

import csv
import itertools
import logging
import threading

import numpy as np
import pytest
import soundfile

from myxtts.config.config import DataConfig
from myxtts.corpora.demo import make_demo_corpus
from myxtts.data import training_data
from myxtts.data.buckets import Bucket
from myxtts.data.loader import LoaderState
from myxtts.data.training_data import prepare_training
from myxtts.errors import ConfigError, DataError

RATE = 22_050


def speak(folder, clips=24, speakers=2, first=0, longest=0.4, name="c"):
    """Hums of different lengths; every sixth as a stereo FLAC at another rate."""
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    rows = []
    for i in range(first, first + clips):
        rate, ending, channels = (16_000, "flac", 2) if i % 6 == 5 else (RATE, "wav", 1)
        t = np.arange(int((0.4 + longest * (i % 7) / 6) * rate)) / rate
        wave = np.repeat(0.4 * np.sin(2 * np.pi * (100 + i) * t)[:, None], channels, 1)
        soundfile.write(folder / "wavs" / f"{name}{i:03d}.{ending}", wave, rate)
        rows.append(f"wavs/{name}{i:03d}.{ending}|Clip {'x' * (i % 5 + 1)}.|s{i % speakers}\n")
    listed = folder / "metadata.csv"
    if not listed.exists():
        listed.write_text("audio_file|text|speaker_name\n")
    with listed.open("a") as file:
        file.writelines(rows)
    return folder


def prepare(folder, *, seed=3, steps=None, tokenizer=None, buckets=None, **settings):
    config = DataConfig(
        train_data=folder,
        **{"tokenizer": "characters", "batch_size": 4, "max_buckets": 2, **settings},
    )
    return prepare_training(config, seed=seed, steps=steps, tokenizer=tokenizer, buckets=buckets)


def as_bytes(batches):
    return [{key: np.asarray(value).tobytes() for key, value in b.items()} for b in batches]


def first_batches(data, count, *, states=None, **start):
    """The first batches from a state on, as bytes; the state behind each goes into `states`."""
    batches = data.batches(LoaderState(**start))
    found = []
    try:
        for batch in itertools.islice(batches, count):
            found += as_bytes([batch])
            if states is not None:
                states.append(batches.get_state())
        return found
    finally:
        batches.close()


def spoken_in(batches):
    """The texts of all rows that are not masked, sorted."""
    return sorted(
        tokens[:length].tolist()
        for batch in batches
        for tokens, length in zip(batch["tokens"], batch["token_lengths"], strict=True)
        if length
    )


def texts_of(table):
    return sorted(ids.tolist() for ids in table.tokens)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return speak(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def data(folder):
    return prepare(folder)


@pytest.fixture(scope="module")
def stream(data):
    """Three epochs without an interruption."""
    return first_batches(data, 3 * len(data.plan))


def test_the_stream_goes_on_through_the_epochs_and_tells_its_state(data, stream):
    length, states = len(data.plan), []
    assert first_batches(data, 3 * length, states=states) == stream
    assert states == [(e, p + 1) for e in range(3) for p in range(length)]
    for epoch in range(3):
        names = [clip for state in states if state.epoch == epoch for clip in names_of(data, state)]
        assert sorted(names) == sorted(str(data.train.folder / path) for path in data.train.paths)
    assert stream[:length] != stream[length : 2 * length]


def test_a_number_of_epochs_ends_the_stream(data):
    batches = data.batches(LoaderState(1, 1), epochs=2)
    assert len(list(batches)) == len(data.plan) - 1
    assert batches.get_state() == (1, len(data.plan))


def names_of(data, state):
    """The clips of the batch before a state, which its tokens confirm."""
    names = data.clips_before(state)
    batches = data.batches(LoaderState(state.epoch, state.position - 1))
    batch = next(batches)
    batches.close()
    paths = [str(data.train.folder / path) for path in data.train.paths]
    wanted = [data.train.tokens[paths.index(name)].tolist() for name in names]
    lengths = batch["token_lengths"]
    assert [t[:n].tolist() for t, n in zip(batch["tokens"], lengths, strict=True) if n] == wanted
    return names


@pytest.mark.parametrize(
    "settings",
    [
        {"num_workers": 1},
        {"num_workers": 5},
        {"use_tf_native_loading": False, "num_workers": 1},
        {"use_tf_native_loading": False, "num_workers": 3},
        {"cache": "memory"},
        {"cache": "disk"},
    ],
    ids=str,
)
def test_a_restart_gives_the_batches_of_the_uninterrupted_stream(folder, stream, settings):
    again = prepare(folder, **settings)
    length = len(again.plan)
    for epoch, position in ((0, 0), (0, 2), (0, length - 1), (0, length), (1, 1), (2, 0)):
        at = epoch * length + position
        wanted = stream[at : at + length]  # over the end of the epoch, where there is more
        assert first_batches(again, len(wanted), epoch=epoch, position=position) == wanted


def test_a_place_outside_the_epoch_is_refused_at_once(data):
    with pytest.raises(ConfigError, match="outside this epoch"):
        data.batches(LoaderState(0, len(data.plan) + 1))


def test_epochs_of_different_length_follow_each_other_exactly(tmp_path):
    folder = speak(tmp_path, 14)
    listed = folder / "metadata.csv"
    listed.write_text(listed.read_text().replace("|s1", "|s0", 4))  # one speaker has fewer
    data = prepare(folder, balance="speakers", batch_size=3, max_buckets=3)
    assert len({len(data.plan.for_epoch(epoch)) for epoch in range(4)}) > 1
    states = []
    whole = first_batches(data, 30, states=states)
    assert states == list(
        itertools.islice(
            ((e, p + 1) for e in itertools.count() for p in range(len(data.plan.for_epoch(e)))), 30
        )
    )
    for at in range(1, 28, 4):
        epoch, position = states[at - 1]
        assert first_batches(data, 2, epoch=epoch, position=position) == whole[at : at + 2]


@pytest.mark.parametrize("settings", [{}, {"use_tf_native_loading": False}, {"cache": "disk"}])
def test_files_are_converted_and_read_into_caches_once(tmp_path, settings, monkeypatch):
    data = prepare(speak(tmp_path, 12), **settings)
    monkeypatch.setattr("myxtts.data.loader.native_paths", None)
    monkeypatch.setattr("myxtts.data.loader.open_cache", None)
    first_batches(data, 2 * len(data.plan))
    list(data.validation_batches())


def test_no_thread_is_left_when_the_stream_is_closed(data, folder):
    before = set(threading.enumerate())
    first_batches(prepare(folder, use_tf_native_loading=False), 3)
    assert {t for t in threading.enumerate() if t.name.startswith("data-read")} <= before


def test_a_clip_that_breaks_in_mid_training_is_masked_in_every_epoch(tmp_path, caplog):
    data = prepare(speak(tmp_path, 12), max_lost_share=0.1)
    (data.train.folder / data.train.paths[0]).unlink()
    wanted = sorted(2 * [ids.tolist() for ids in data.train.tokens[1:]])
    assert spoken_in(data.batches(epochs=2)) == wanted
    assert data.num_lost == 1
    assert caplog.text.count("can no longer be read") == 1


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


@pytest.mark.parametrize("settings", [{}, {"batch_frames": 300}, {"static_shapes": "one"}], ids=str)
def test_the_spec_is_that_of_the_largest_batch(tmp_path, settings):
    train, val = speak(tmp_path / "train", 14), speak(tmp_path / "val", 7, longest=1.0)
    data = prepare(train, val_data=val, **settings)
    spec = data.largest_batch_spec()
    batches = [*itertools.islice(data.batches(), len(data.plan)), *data.validation_batches()]
    largest = max(batches, key=lambda b: sum(np.asarray(value).nbytes for value in b.values()))
    assert {name: (tuple(s.shape), s.dtype.as_numpy_dtype) for name, s in spec.items()} == {
        name: (np.asarray(v).shape, np.asarray(v).dtype.type) for name, v in largest.items()
    }


def test_without_static_shapes_there_is_no_spec(folder):
    data = prepare(folder, static_shapes="off")
    assert data.largest_batch_spec() is None
    widths = {b["waves"].shape[1] for b in itertools.islice(data.batches(), len(data.plan))}
    assert len(widths) > len(data.plan.buckets)


def test_the_fingerprint_follows_what_decides_the_batches(tmp_path):
    folder = speak(tmp_path / "data", 12)
    own = prepare(folder)
    same = [
        {"num_workers": 2},
        {"use_tf_native_loading": False},
        {"cache": "memory"},
        {"prefetch_buffer_size": 7},
    ]
    assert {prepare(folder, **each).fingerprint for each in same} == {own.fingerprint}
    moved = tmp_path / "moved"
    folder.rename(moved)
    assert prepare(moved).fingerprint == own.fingerprint
    other = [
        {"seed": 4},
        {"batch_size": 3},
        {"batch_frames": 300},
        {"max_buckets": 1},
        {"balance": "speakers"},
        {"static_shapes": "off"},
        {"val_data": moved},
        {"language": "de"},
    ]
    prints = [own.fingerprint, *(prepare(moved, **each).fingerprint for each in other)]
    assert len(set(prints)) == len(prints)
    listed = moved / "metadata.csv"
    listed.write_text(listed.read_text().replace("Clip x.", "Clap x."))
    reworded = prepare(moved, tokenizer=own.tokenizer)
    assert reworded.fingerprint != own.fingerprint
    speak(moved, 1, first=12)
    assert prepare(moved).fingerprint not in {*prints, reworded.fingerprint}


def test_saved_buckets_keep_the_places_of_a_run_that_is_made_longer(folder, stream):
    short = prepare(folder, steps=10)
    longer = prepare(folder, steps=100_000, buckets=[tuple(b) for b in short.plan.buckets])
    assert longer.fingerprint == short.fingerprint
    assert longer.plan.buckets == short.plan.buckets
    assert prepare(folder, steps=100_000).fingerprint != short.fingerprint


def test_dropped_clips_are_listed_with_reason_and_remedy(tmp_path):
    train, val = speak(tmp_path / "train", 12), speak(tmp_path / "val", 2)
    (train / "wavs" / "broken.wav").write_bytes(b"RIFF")
    with (train / "metadata.csv").open("a") as file:
        file.write("wavs/broken.wav|Broken|s0\n")
    (val / "wavs" / "c000.wav").unlink()
    data = prepare(train, val_data=val)
    data.write_dropped(tmp_path / "dropped.csv")
    with (tmp_path / "dropped.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(r["data"], r["audio_file"], r["row"], r["reason"]) for r in rows] == [
        (str(train), "wavs/broken.wav", "13", "unreadable"),
        (str(val), "wavs/c000.wav", "1", "missing"),
    ]
    assert all(row["remedy"] for row in rows)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["dropped.csv"]
    with pytest.raises(DataError, match="cannot be written"):
        data.write_dropped(tmp_path / "absent" / "dropped.csv")


def test_nothing_dropped_gives_an_empty_table(tmp_path, data):
    data.write_dropped(tmp_path / "dropped.csv")
    assert (tmp_path / "dropped.csv").read_text().split() == [
        "data,audio_file,row,reason,detail,remedy"
    ]


def test_a_clip_with_fewer_frames_than_tokens_is_dropped_by_that_name(tmp_path):
    folder = speak(tmp_path, 12)
    soundfile.write(folder / "wavs" / "short.wav", np.full(RATE // 2, 0.1), RATE)  # 44 frames
    with (folder / "metadata.csv").open("a") as file:
        file.write(f"wavs/short.wav|{'a' * 43}|s0\n")  # 45 tokens with begin and end
        file.write(f"wavs/short.wav|{'a' * 42}|s0\n")
    data = prepare(folder)
    assert [clip.reason for clip in data.dropped] == ["text too long for its audio"]
    assert data.dropped[0].detail == "45 tokens, 44 mel frames"
    assert data.listed == len(data.train) + len(data.validation) + len(data.dropped)
    assert (data.train.frames >= data.train.token_lengths).all()


def test_missing_and_empty_data_is_said_in_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match="No training data") as raised:
        prepare(None)
    assert "--train-data" in raised.value.remedy
    with pytest.raises(DataError, match="does not exist"):
        prepare(tmp_path / "absent")
    folder = speak(tmp_path / "data", 2)
    with pytest.raises(DataError, match="does not exist"):
        prepare(folder, val_data=tmp_path / "absent")
    (tmp_path / "metadata.csv").write_text("gone|Nobody is here.\n")
    with pytest.raises(DataError, match="No clip of"):
        prepare(folder, val_data=tmp_path)


def test_shapes_of_an_earlier_run_are_chosen_anew_where_a_clip_fits_none(tmp_path):
    folder = speak(tmp_path / "data", 2)
    fresh = prepare(folder).plan.buckets
    assert prepare(folder, buckets=[Bucket(8, 8)]).plan.buckets == fresh
    assert prepare(folder, buckets=[Bucket(800, 80)]).plan.buckets == (Bucket(800, 80),)


def test_progress_is_told_of_every_pass(tmp_path):
    folder = speak(tmp_path, 12)
    lists, clips = [], []
    config = DataConfig(train_data=folder, tokenizer="characters", batch_size=4)
    prepare_training(config, seed=0, on_list=lists.append, on_clip=lambda: clips.append(1))
    assert lists == [12, 2]  # the list, then the two FLAC files that are converted
    assert len(clips) == 14


def test_the_demo_corpus_feeds_a_run(tmp_path):
    make_demo_corpus(tmp_path / "demo", voices=2, sentences=64, held_out=4)
    data = prepare(tmp_path / "demo")
    assert len(data.train) + len(data.validation) == 64
    assert data.dropped == ()
    assert set(data.train.speakers) == {0, 1}
    whole = first_batches(data, len(data.plan) + 3)
    assert first_batches(data, 3, epoch=1) == whole[-3:]
