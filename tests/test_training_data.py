"""What a trainer is fed: the same batches from any place on, and a word on every clip left out."""

from __future__ import annotations

import csv
import itertools
import threading

import numpy as np
import pytest
import soundfile

from myxtts.config.config import DataConfig
from myxtts.corpora.demo import make_demo_corpus
from myxtts.data.buckets import Bucket
from myxtts.data.loader import LoaderState
from myxtts.data.training_data import prepare_training
from myxtts.errors import ConfigError, DataError
from tests.training_clips import RATE, first_batches, prepare, speak, spoken_in


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
        of_epoch = [state for state in states if state.epoch == epoch]
        tell = names_of if epoch == 1 else type(data).clips_before  # to confirm takes its time
        names = [clip for state in of_epoch for clip in tell(data, state)]
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
    whole = first_batches(data, 18, states=states)
    assert states == list(
        itertools.islice(
            ((e, p + 1) for e in itertools.count() for p in range(len(data.plan.for_epoch(e)))), 18
        )
    )
    for at in range(1, 16, 4):
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
