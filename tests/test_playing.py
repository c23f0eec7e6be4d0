"""Clips played faster and slower: what becomes of pitch, length and mel, and what is left alone."""

import numpy as np
import pytest
import soxr
import tensorflow as tf

from myxtts.features import mels
from myxtts.features.device_stage import Augmentation, make_device_stage
from myxtts.features.playing import AS_RECORDED, draw_speeds, play

RATE = 22_050


def buzz(pitch: float, seconds: float) -> np.ndarray:
    """Twenty harmonics, falling off as a voice's do."""
    t = np.arange(round(seconds * RATE)) / RATE
    tones = [np.sin(2 * np.pi * pitch * k * t + k) / k for k in range(1, 21)]
    return (0.1 * np.sum(tones, axis=0)).astype(np.float32)


@pytest.mark.parametrize("speed", [0.87, 0.95, 1.06, 1.15])
def test_a_wave_sounds_as_if_resampled(speed):
    wave = buzz(180.0, 1.0)
    waves = tf.constant(np.pad(wave, [0, 8000])[None])
    played, lengths = play(waves, tf.constant([len(wave)]), tf.constant([speed]))
    expected = soxr.resample(wave, RATE * speed, RATE).astype(np.float32)
    assert abs(int(lengths[0]) - len(expected)) <= 1
    length = min(int(lengths[0]), len(expected))
    ours, theirs = (
        mels.log_mel(wave[None, :length], tf.constant([length])).numpy()[0]
        for wave in (played.numpy()[0], expected)
    )
    heard = theirs > theirs.max() - 5.0
    assert np.abs(ours - theirs)[heard].mean() < 0.02
    assert not played.numpy()[0, int(lengths[0]) :].any()


def test_at_the_speed_one_nothing_changes():
    waves = np.random.default_rng(0).normal(0, 0.1, [2, 4000]).astype(np.float32)
    waves[1, 3000:] = 0.0
    lengths = tf.constant([4000, 3000])
    played, same = play(tf.constant(waves), lengths, tf.constant([1.0, 1.0]))
    np.testing.assert_array_equal(played, waves)
    np.testing.assert_array_equal(same, lengths)


def test_a_place_far_into_a_clip_is_exact():
    """A slow tone and not a sample of noise in it, ten seconds on."""
    places = np.arange(230_000, dtype=np.float64)
    waves = tf.constant(np.sin(places / 50.0)[None], tf.float32)
    played, lengths = play(waves, tf.constant([len(places)]), tf.constant([1.1]))
    expected = np.sin(np.arange(int(lengths[0])) * float(np.float32(1.1)) / 50.0)
    assert np.abs(played.numpy()[0, : len(expected)] - expected)[:-4].max() < 2e-5


def test_speeds_keep_to_their_bounds_and_a_full_clip_is_not_cut():
    lengths = tf.constant([1000] * 2000 + [1900] * 2000 + [0])
    speeds = draw_speeds(lengths, 2000, tf.constant([1, 2]), most=0.2).numpy()
    assert speeds[:2000].min() >= 1 / 1.2 - 1e-6
    assert speeds.max() <= 1.2 + 1e-6
    assert speeds[2000:4000].min() >= 0.95 - 1e-6
    assert np.mean(speeds == 1.0) == pytest.approx(AS_RECORDED, abs=0.05)
    assert np.mean(speeds[:2000] < 1.0) == pytest.approx((1 - AS_RECORDED) / 2, abs=0.05)


def test_the_stage_moves_pitch_and_length_of_clip_and_reference_alike():
    wave = (32767 * buzz(180.0, 1.5)).astype(np.int16)
    rows, samples = 8, 256 * 160
    waves = np.zeros([rows, samples], np.int16)
    waves[:, : len(wave)] = wave
    lengths = np.full(rows, len(wave), np.int32)
    batch = {
        "waves": waves,
        "wave_lengths": lengths,
        "references": waves,
        "reference_lengths": lengths,
        "tokens": np.ones([rows, 4], np.int32),
        "token_lengths": np.full(rows, 4, np.int32),
        "languages": np.zeros(rows, np.int32),
        "seed": np.array([3, 4], np.int32),
    }
    stage = make_device_stage(Augmentation(speed=0.15))
    found = {name: value.numpy() for name, value in stage(batch).items()}
    plain_frames = len(wave) // 256 + 1
    speeds = plain_frames / found["mel_lengths"]
    assert np.ptp(speeds) > 0.05
    np.testing.assert_array_equal(found["mel_lengths"], found["reference_lengths"])
    for row, speed in enumerate(speeds):
        for name in ("pitch", "reference_pitch"):
            told = found[name][row, : found["mel_lengths"][row]]
            assert np.median(told[told > 0]) == pytest.approx(180 * speed, rel=0.02)
    again = stage(batch)
    np.testing.assert_array_equal(again["mels"], found["mels"])
