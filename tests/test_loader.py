"""The same bytes in every batch, whatever the cache, the workers and the place of resuming."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from myxtts.config.config import DataConfig
from myxtts.data.loader import HostBatches, LoaderState
from myxtts.data.prepare import plan_batches, prepare_data
from myxtts.data.wave_cache import open_cache
from myxtts.errors import DataError
from myxtts.features import mels
from myxtts.features.device_stage import Augmentation, make_device_stage
from myxtts.pipeline import ProducerConsumerPipeline
from tests.clips import as_bytes, open_clips, plan_of, speak

RATE = 22_050


@pytest.fixture
def table(tmp_path):
    return open_clips(speak(tmp_path / "data"))


@pytest.fixture(scope="module")
def plain_features(tmp_path_factory):
    """A batch of these clips and what the device stage makes of it."""
    table = open_clips(speak(tmp_path_factory.mktemp("plain") / "data"))
    (batch,) = list(HostBatches(table, plan_of(table, max_buckets=1), cache="memory"))[:1]
    return batch, make_device_stage()(batch)


def test_the_delimiter_of_a_list_can_be_told_where_it_cannot_be_found_out(tmp_path):
    folder = speak(tmp_path / "data")
    clips = sorted(path.name for path in (folder / "wavs").iterdir())
    rows = [f"wavs/{name},A text with a | in it\n" for name in clips]
    (folder / "metadata.csv").write_text("".join(rows))
    told = DataConfig(tokenizer="characters", delimiter="comma")
    assert len(prepare_data(folder, told).table()) == len(clips)
    with pytest.raises(DataError, match="can be used"):
        prepare_data(folder, DataConfig(tokenizer="characters")).table()


def test_every_cache_and_number_of_workers_gives_the_same_bytes(table):
    plan = plan_of(table)
    reference = as_bytes(HostBatches(table, plan, num_workers=1))
    assert len(reference) == len(plan)
    assert as_bytes(HostBatches(table, plan, num_workers=8)) == reference
    assert as_bytes(HostBatches(table, plan, cache="memory")) == reference
    assert as_bytes(HostBatches(table, plan, cache="disk")) == reference
    assert as_bytes(HostBatches(table, plan_of(table, epoch=1), cache="disk")) != reference


def test_soundfile_and_tensorflow_decode_alike(table):
    plan = plan_of(table)
    reference = as_bytes(HostBatches(table, plan))
    for workers in (1, 4):
        batches = HostBatches(table, plan, use_tf=False, num_workers=workers)
        assert as_bytes(batches) == reference


def rewrite_header(path, kind):
    """The same samples as other programs write them."""
    data = path.read_bytes()
    assert data[36:40] == b"data"
    if kind == "tags behind the format":
        data = data[:36] + b"LIST" + (5).to_bytes(4, "little") + b"INFOx\0" + data[36:]
    elif kind == "filling before the format":
        data = data[:12] + b"JUNK" + (28).to_bytes(4, "little") + bytes(28) + data[12:]
    elif kind == "tags at the end":
        data = data + b"LIST" + (4).to_bytes(4, "little") + b"INFO"
    elif kind == "length left open":
        data = data[:40] + b"\xff" * 4 + data[44:]
    elif kind == "extensible":
        soundfile.write(path, soundfile.read(path, dtype="int16")[0], RATE, format="WAVEX")
        return
    path.write_bytes(data)


@pytest.mark.parametrize(
    "kind",
    [
        "tags behind the format",
        "filling before the format",
        "tags at the end",
        "length left open",
        "extensible",
    ],
)
def test_headers_of_other_programs_are_read_natively_and_exactly(tmp_path, kind, monkeypatch):
    folder = speak(tmp_path / "data")
    for path in (folder / "wavs").glob("*.wav"):
        rewrite_header(path, kind)
    table = open_clips(folder)
    assert table.native.sum() == 9
    plan = plan_of(table)
    expected = as_bytes(HostBatches(table, plan, cache="memory"))
    assert as_bytes(HostBatches(table, plan, use_tf=False)) == expected
    batches = HostBatches(table, plan)
    monkeypatch.setattr(HostBatches, "_read", None)  # TensorFlow alone
    assert as_bytes(batches) == expected


@pytest.mark.parametrize("use_tf", [True, False])
def test_a_file_that_becomes_another_kind_is_still_read_right(table, use_tf):
    wave, _ = soundfile.read(table.folder / table.paths[0])
    batches = HostBatches(table, plan_of(table), use_tf=use_tf)
    soundfile.write(table.folder / table.paths[0], wave, RATE, "FLOAT")
    expected = as_bytes(HostBatches(table, plan_of(table), cache="memory"))
    assert as_bytes(batches) == expected
    assert len(batches.lost) == 0


@pytest.mark.parametrize("cache", [None, "memory"])
def test_another_plan_shares_what_was_read(table, cache):
    first = HostBatches(table, plan_of(table), cache=cache)
    plan = plan_of(table, epoch=1)
    other = first.for_plan(plan, use_tf=True)
    assert other.waves is first.waves
    assert other.lost is first.lost
    assert as_bytes(other) == as_bytes(HostBatches(table, plan))
    assert len(first) == len(plan_of(table))


def test_speeds_are_a_batchs_own_whoever_reads_it_and_change_nothing_else(table):
    plan, varied = plan_of(table), {"augment_speed": 0.2}
    made = HostBatches(table, plan, cache="memory", **varied)
    batches = list(made)
    assert as_bytes(HostBatches(table, plan, **varied)) == as_bytes(batches)
    assert as_bytes(HostBatches(table, plan, use_tf=False, **varied)) == as_bytes(batches)
    plain = list(HostBatches(table, plan))
    assert as_bytes(made.for_plan(plan, use_tf=False)) == as_bytes(plain)  # as validation is
    drawn = np.concatenate([batch["speeds"] for batch in batches])
    assert len(set(drawn)) > len(drawn) / 2
    for batch, unvaried in zip(batches, plain, strict=True):
        for name in ("waves", "references", "tokens", "seed"):
            np.testing.assert_array_equal(batch[name], unvaried[name])
        for name in ("wave_lengths", "reference_lengths"):
            expected = np.minimum(
                np.asarray(unvaried[name]) / batch["speeds"],
                batch["waves" if name == "wave_lengths" else "references"].shape[1],
            )
            np.testing.assert_allclose(batch[name], expected, atol=1)


@pytest.mark.parametrize("cache", [None, "disk"])
def test_resuming_in_the_middle_gives_the_same_batches(table, cache):
    plan = plan_of(table)
    batches = iter(HostBatches(table, plan, cache=cache))
    whole = as_bytes([next(batches), next(batches)])
    state = batches.get_state()
    assert state == LoaderState(epoch=0, position=2)
    whole += as_bytes(batches)
    again = HostBatches(table, plan, cache=cache).batches(state, epochs=1)
    assert again.get_state() == state
    assert as_bytes(again) == whole[2:]


@pytest.mark.parametrize("settings", [{}, {"use_tf": False}, {"cache": "memory"}], ids=str)
def test_each_batch_is_planned_once(table, settings, monkeypatch):
    planned, plan_one = [], HostBatches._request
    monkeypatch.setattr(
        HostBatches,
        "_request",
        lambda self, plan, at: planned.append(at) or plan_one(self, plan, at),
    )
    batches = HostBatches(table, plan_of(table), **settings)
    assert len(list(batches)) == len(batches)
    assert planned == list(range(len(batches)))


def test_batches_hold_their_clips_padded_to_the_bucket(table):
    plan = plan_of(table)
    for position, batch in enumerate(HostBatches(table, plan)):
        planned = plan[position]
        samples = planned.bucket.frames * 256 - 1
        assert np.asarray(batch["waves"]).shape == (len(planned.indices), samples)
        for row, clip in enumerate(planned.indices):
            wave = np.asarray(batch["waves"])[row]
            length = int(batch["wave_lengths"][row])
            if clip < 0:
                assert length == 0
                assert batch["token_lengths"][row] == 0
                continue
            assert length == table.samples[clip]
            assert not wave[length:].any()
            assert np.abs(wave[:length]).max() > 5000
            ids = table.tokens[clip]
            assert batch["tokens"][row, : len(ids)].tolist() == ids.tolist()


def test_without_static_shapes_a_batch_is_padded_to_its_own_length(table, caplog):
    plan = plan_of(table, max_buckets=1)
    shapes = set()
    for position, batch in enumerate(HostBatches(table, plan, static_shapes=False)):
        clips = plan[position].indices
        longest = table.frames[clips[clips >= 0]].max()
        assert np.asarray(batch["waves"]).shape[1] == longest * 256 - 1
        shapes.add(np.asarray(batch["waves"]).shape)
    assert len(shapes) > 1
    assert "compiles anew" in caplog.text


def test_the_reference_is_another_clip_of_the_same_speaker(table):
    plan = plan_of(table)
    batches = HostBatches(table, plan)
    for position in range(len(batches)):
        request = batches._request(plan, position)
        for clip, other in zip(request.clips, request.references, strict=True):
            if clip < 0:
                assert other == -1
            else:
                assert other != clip
                assert table.speakers[other] == table.speakers[clip]


def test_a_lone_clip_is_its_own_reference(tmp_path):
    table = open_clips(speak(tmp_path / "data", 2, speakers=2))
    plan = plan_of(table)
    request = HostBatches(table, plan)._request(plan, 0)
    real = request.clips >= 0
    assert (request.references[real] == request.clips[real]).all()


def test_the_disk_cache_is_rebuilt_when_a_file_changed_or_it_was_cut_short(table):
    made = []

    def note():
        made.append(1)

    open_cache(table, "disk", on_clip=note)
    assert len(made) == len(table)
    open_cache(table, "disk", on_clip=note)
    assert len(made) == len(table)  # nothing read again
    soundfile.write(table.folder / table.paths[0], np.full([12_000], 0.25), RATE)
    waves, _ = open_cache(table, "disk", on_clip=note)
    assert len(made) == 2 * len(table)
    assert waves.read(0).tolist() == [8192] * 12_000
    store = next((table.folder / ".myxtts").glob("clips-*.i16"))
    store.write_bytes(store.read_bytes()[:-10])  # as if the disk had filled up
    open_cache(table, "disk", on_clip=note)
    assert len(made) == 3 * len(table)


def test_a_store_without_its_index_does_not_count(table):
    open_cache(table, "disk", on_clip=lambda: None)
    next((table.folder / ".myxtts").glob("clips-*.json")).unlink()  # killed before it was written
    made = []
    open_cache(table, "disk", on_clip=lambda: made.append(1))
    assert len(made) == len(table)


def test_settings_choose_the_shapes_and_the_balance(table):
    one = plan_batches(table, DataConfig(static_shapes="one", batch_size=4))
    assert len({batch.bucket for batch in one}) == 1
    assert one.buckets[0].frames >= table.frames.max()
    several = plan_batches(table, DataConfig(max_buckets=3, batch_size=2))
    assert 1 < len({batch.bucket for batch in several}) <= 3
    short_run = plan_batches(table, DataConfig(max_buckets=3, batch_size=2), steps=10)
    assert len({batch.bucket for batch in short_run}) == 1  # compiling costs more than padding
    budget = plan_batches(table, DataConfig(batch_frames=400))
    assert all(len(b.indices) * b.bucket.frames <= 400 for b in budget if len(b.indices) > 1)
    rare = dataclasses.replace(table, speakers=np.where(np.arange(len(table)) < 2, 0, 1))
    balanced = plan_batches(rare, DataConfig(balance="speakers", batch_size=4))
    clips = np.concatenate([batch.indices for batch in balanced])
    shares = np.bincount(rare.speakers[clips[clips >= 0]])
    assert shares[0] == pytest.approx(shares[1], rel=0.1)


def test_a_folder_with_nothing_usable_is_an_error(tmp_path):
    (tmp_path / "metadata.csv").write_text("a|text\n")
    with pytest.raises(DataError, match="No clip of"):
        open_clips(tmp_path)


def test_the_device_stage_makes_features_on_the_data_device_through_the_pipeline(table, plan):
    stage = make_device_stage()
    batch_plan = plan_of(table, max_buckets=1)
    batches = HostBatches(table, batch_plan, cache="memory")
    with ProducerConsumerPipeline(batches, plan=plan, process=stage) as ready:
        for position, batch in enumerate(ready):
            assert batch["mels"].device.endswith("CPU:1")
            assert batch["seed"].shape == [2]
            assert ready.state == LoaderState(0, position + 1)
            assert batch["reference_pitch"].shape == batch["reference_mels"].shape[:2]
            frames = batch["mels"].shape[1]
            assert batch["pitch"].shape == batch["voiced"].shape == [4, frames]
            for row, clip in enumerate(batch_plan[position].indices):
                length = int(batch["mel_lengths"][row])
                assert length == (table.frames[clip] if clip >= 0 else 0)
                floor = np.float32(np.log(1e-5))
                assert (batch["mels"][row, length:].numpy() == floor).all()
                told = batch["reference_pitch"][row].numpy()
                if clip < 0:
                    assert not told.any()
                else:
                    other = 100 + 10 * np.arange(clip % 2, len(table), 2)  # of the same speaker
                    off = np.abs(np.median(told[told > 0]) / other - 1)
                    assert off.min() < 0.03
                    assert other[off.argmin()] != 100 + 10 * clip
                    voiced = batch["voiced"][row, :length].numpy()
                    pitch = batch["pitch"][row, :length].numpy()[voiced]
                    assert np.median(pitch) == pytest.approx(100 + 10 * clip, rel=0.03)
    assert stage.experimental_get_tracing_count() == 1


def test_augmentation_repeats_with_the_seed(plain_features):
    batch, plain = plain_features
    varied = make_device_stage(Augmentation(gain_db=6, noise_db=20, colour_db=3), jit_compile=True)
    first, again = varied(batch), varied(batch)
    other = varied({**batch, "seed": batch["seed"] + 1})
    for name in ("mels", "reference_mels"):
        assert np.array_equal(first[name], again[name])
        assert not np.allclose(first[name], other[name])
        assert not np.allclose(first[name], plain[name], atol=0.1)
    np.testing.assert_allclose(first["pitch"], plain["pitch"], rtol=1e-3)
    padding = ~mels.frame_mask(
        tf.zeros(batch["waves"].shape), tf.constant(batch["wave_lengths"])
    ).numpy()
    assert padding.any()
    assert (first["mels"].numpy()[padding] == np.float32(np.log(1e-5))).all()


def test_colour_moves_clip_and_reference_by_one_smooth_curve_and_leaves_the_pitch(plain_features):
    batch, plain = plain_features
    coloured = make_device_stage(Augmentation(colour_db=3))(batch)
    np.testing.assert_array_equal(coloured["pitch"], plain["pitch"])
    curves = []
    for row, length in enumerate(plain["mel_lengths"].numpy()):
        if length:
            heard = plain["reference_lengths"].numpy()[row]
            moves = []
            for name, frames in (("mels", length), ("reference_mels", heard)):
                before = plain[name][row, :frames].numpy()
                moved = coloured[name][row, :frames].numpy() - before
                loudest = before.argmax(axis=0)  # of each band: those are above the floor
                moves.append(np.take_along_axis(moved, loudest[None], axis=0)[0])
                moves.append(before.max(axis=0) > -8)
            both = moves[1] & moves[3]
            np.testing.assert_allclose(moves[0][both], moves[2][both], atol=1e-3)
            curves.append(moves[0])
    assert np.abs(curves).max() > 0.1
    assert not np.allclose(curves[0], curves[1], atol=0.05)  # each clip its own


def test_gain_shifts_whole_clips_and_noise_reaches_the_reference_alone(plain_features):
    batch, plain = plain_features
    lengths = plain["mel_lengths"].numpy()
    louder = make_device_stage(Augmentation(gain_db=6))(batch)
    for row, length in enumerate(lengths):
        if length:
            loud = plain["mels"][row, :length].numpy() > -5  # well above the floor
            shift = (louder["mels"] - plain["mels"])[row, :length].numpy()[loud]
            assert np.ptp(shift) < 1e-2
            assert abs(shift[0]) <= np.log(10 ** (6 / 20)) + 1e-3
    noisy = make_device_stage(Augmentation(noise_db=0))(batch)
    np.testing.assert_array_equal(noisy["mels"], plain["mels"])
    np.testing.assert_array_equal(noisy["reference_pitch"], plain["reference_pitch"])
    assert (noisy["reference_mels"] - plain["reference_mels"]).numpy().mean() > 0.1
