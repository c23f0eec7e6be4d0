"""Clips played faster and slower: what becomes of pitch, length and mel, and what is left alone."""

import numpy as np
import pytest
import soxr
import tensorflow as tf

from myxtts.features import mels
from myxtts.features.device_stage import make_device_stage
from myxtts.features.playing import AS_RECORDED, at_speeds, draw_speeds, play

RATE = 22_050


def buzz(pitch: float, seconds: float) -> np.ndarray:
    """Twenty harmonics, falling off as a voice's do."""
    t = np.arange(round(seconds * RATE)) / RATE
    tones = [np.sin(2 * np.pi * pitch * k * t + k) / k for k in range(1, 21)]
    return (0.1 * np.sum(tones, axis=0)).astype(np.float32)


def played(wave: np.ndarray, speed: float, *, room: int) -> np.ndarray:
    waves = tf.constant(np.pad(wave, [0, room - len(wave)])[None], tf.float32)
    length = min(room, int(np.ceil(len(wave) / np.float32(speed))))
    made = play(waves, tf.constant([length]), tf.constant([speed])).numpy()[0]
    assert not made[length:].any()
    return made[:length]


@pytest.mark.parametrize("speed", [0.87, 0.95, 1.06, 1.15])
def test_a_wave_sounds_as_if_resampled(speed):
    wave = buzz(180.0, 1.0)
    expected = soxr.resample(wave, RATE * speed, RATE).astype(np.float32)
    made = played(wave, speed, room=len(wave) + 8000)
    assert abs(len(made) - len(expected)) <= 1
    length = min(len(made), len(expected))
    ours, theirs = (
        mels.log_mel(wave[None, :length], tf.constant([length])).numpy()[0]
        for wave in (made, expected)
    )
    heard = theirs > theirs.max() - 5.0
    assert np.abs(ours - theirs)[heard].mean() < 0.02


def test_at_the_speed_one_nothing_changes():
    wave = np.random.default_rng(0).normal(0, 0.1, 3000).astype(np.float32)
    np.testing.assert_array_equal(played(wave, 1.0, room=3000), wave)
    np.testing.assert_array_equal(played(wave, 1.0, room=4000), wave)


def test_a_place_far_into_a_clip_is_exact():
    """A slow tone and not a sample of noise in it, ten seconds on."""
    wave = np.sin(np.arange(230_000) / 50.0)
    made = played(wave, 1.1, room=len(wave))
    expected = np.sin(np.arange(len(made)) * float(np.float32(1.1)) / 50.0)
    assert np.abs(made - expected)[:-4].max() < 2e-5


def test_speeds_keep_to_their_bounds_and_a_clip_to_its_room():
    rows = 4000
    speeds = draw_speeds(np.random.default_rng(1), rows, most=0.2)
    assert (speeds.min(), speeds.max()) == pytest.approx((1 / 1.2, 1.2), abs=1e-3)
    assert np.mean(speeds == 1.0) == pytest.approx(AS_RECORDED, abs=0.03)
    assert np.mean(speeds < 1.0) == pytest.approx((1 - AS_RECORDED) / 2, abs=0.03)
    lengths = np.array([1000] * (rows // 2) + [1900] * (rows // 2 - 1) + [0])
    batch = {
        "waves": np.zeros([rows, 2000]),
        "wave_lengths": lengths,
        "references": np.zeros([rows, 1000]),
        "reference_lengths": lengths // 2,
    }
    made = at_speeds(batch, speeds)
    assert made["speeds"][lengths == 1900].min() == pytest.approx(0.95)
    assert made["wave_lengths"].max() == 2000
    np.testing.assert_allclose(made["wave_lengths"], lengths / made["speeds"], atol=1)
    assert made["wave_lengths"][-1] == made["reference_lengths"][-1] == 0
    assert made["reference_lengths"].max() == 1000


def test_without_augmentation_nothing_is_drawn():
    random = np.random.default_rng(1)
    assert draw_speeds(random, 8, most=0.0) is None
    assert random.random() == np.random.default_rng(1).random()
    batch = {"waves": None}
    assert at_speeds(batch, None) is batch


def test_the_stage_moves_pitch_and_length_of_clip_and_reference_alike():
    wave = (32767 * buzz(180.0, 1.5)).astype(np.int16)
    speeds = np.array([0.88, 1.0, 1.13], np.float32)
    waves = np.zeros([3, 256 * 160], np.int16)
    waves[:, : len(wave)] = wave
    lengths = np.full(3, len(wave), np.int32)
    batch = {
        "waves": waves,
        "wave_lengths": lengths,
        "references": waves,
        "reference_lengths": lengths,
        "tokens": np.ones([3, 4], np.int32),
        "token_lengths": np.full(3, 4, np.int32),
        "languages": np.zeros(3, np.int32),
        "seed": np.array([3, 4], np.int32),
    }
    stage = make_device_stage()
    found = {name: value.numpy() for name, value in stage(at_speeds(batch, speeds)).items()}
    frames = np.ceil(len(wave) / speeds).astype(int) // 256 + 1
    np.testing.assert_array_equal(found["mel_lengths"], frames)
    np.testing.assert_array_equal(found["reference_lengths"], frames)
    for row, speed in enumerate(speeds):
        for name in ("pitch", "reference_pitch"):
            told = found[name][row, : frames[row]]
            assert np.median(told[told > 0]) == pytest.approx(180 * speed, rel=0.02)
    plain = stage(batch)
    np.testing.assert_array_equal(found["mels"][1], plain["mels"][1])
