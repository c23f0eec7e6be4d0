"""Log-mels and pitch against librosa, and padding that never leaks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from myxtts.features import mels
from myxtts.features.pitch import pitch as find_pitch
from myxtts.text import espeak

librosa = pytest.importorskip("librosa")

MEL = {
    "sr": 22_050,
    "n_fft": 1024,
    "hop_length": 256,
    "window": "hann",
    "center": True,
    "pad_mode": "reflect",
    "power": 1.0,
    "n_mels": 80,
    "fmin": 0,
    "fmax": 8000,
    "htk": False,
    "norm": "slaney",
}
REAL_SPEECH = os.environ.get("MYXTTS_REAL_SPEECH")  # a folder in LJ Speech's layout, if at hand


def librosa_log_mel(wave: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(librosa.feature.melspectrogram(y=wave, **MEL), 1e-5)).T


def padded(waves: list[np.ndarray], samples: int, filling: float = 0.0):
    batch = np.full([len(waves), samples], filling, np.float32)
    for row, wave in zip(batch, waves, strict=True):
        row[: len(wave)] = wave
    return tf.constant(batch), tf.constant([len(wave) for wave in waves], tf.int32)


@pytest.fixture(scope="module")
def clips() -> list[np.ndarray]:
    """Real speech where it is at hand, else espeak's, else hums that glide."""
    if REAL_SPEECH:
        paths = sorted(Path(REAL_SPEECH).glob("wavs/*.wav"))[:6]
        return [soundfile.read(path, dtype="float32")[0] for path in paths]
    if espeak.is_available():
        said = [espeak.speak(t, voice="en-us+f2")[0] for t in ("Hello there.", "Nine old maps.")]
        return [wave.astype(np.float32) / 32768 for wave in said]
    t = np.arange(30_000) / 22_050
    return [0.3 * np.sin(2 * np.pi * (120 + 40 * t) * t).astype(np.float32)]


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("filling", [0.0, 0.7])
def test_log_mels_equal_librosas_whatever_stands_in_the_padding(clips, filling, jit_compile):
    waves, lengths = padded(clips, max(map(len, clips)) + 3000, filling)
    ours = tf.function(mels.log_mel, jit_compile=jit_compile)(waves, lengths).numpy()
    for row, wave in zip(ours, clips, strict=True):
        expected = librosa_log_mel(wave)
        assert len(expected) == mels.num_frames(len(wave))
        np.testing.assert_allclose(row[: len(expected)], expected, atol=1e-3)
        assert (row[len(expected) :] == np.float32(np.log(1e-5))).all()


@pytest.mark.parametrize("length", [600, 1024, 5000, 5119, 5120, 5121])
def test_log_mels_of_any_length_equal_librosas(length):
    wave = np.random.default_rng(length).normal(0, 0.1, length).astype(np.float32)
    waves, lengths = padded([wave], 8192, 0.3)
    expected = librosa_log_mel(wave)
    ours = mels.log_mel(waves, lengths)[0, : len(expected)].numpy()
    np.testing.assert_allclose(ours, expected, atol=1e-3)


def test_a_masked_row_is_silence():
    waves, _ = padded([np.ones(5000, np.float32)], 8192)
    silence = mels.log_mel(waves, tf.constant([0]))
    assert (silence.numpy() == np.float32(np.log(1e-5))).all()
    assert not find_pitch(waves, tf.constant([0]))[1].numpy().any()


@pytest.mark.parametrize("jit_compile", [False, True])
def test_pitch_agrees_with_pyin_where_both_hear_a_voice(clips, jit_compile):
    clips = clips[:3]
    waves, lengths = padded(clips, max(map(len, clips)) + 3000, 0.7)
    find = tf.function(find_pitch, jit_compile=jit_compile)
    pitch, voiced = (t.numpy() for t in find(waves, lengths))
    errors = []
    for row, heard, wave in zip(pitch, voiced, clips, strict=True):
        f0, pyin_heard, _ = librosa.pyin(
            wave, fmin=60, fmax=500, sr=22_050, hop_length=256, frame_length=1024
        )
        both = pyin_heard & heard[: len(f0)]
        assert both.sum() > 0.4 * pyin_heard.sum()
        errors.append(np.abs(row[: len(f0)][both] / f0[both] - 1))
        assert not heard[len(f0) :].any()
    assert np.mean(np.concatenate(errors) <= 0.05) >= 0.90


@pytest.mark.parametrize("hertz", [70, 110, 200, 333, 450])
def test_pitch_of_a_steady_hum_is_its_frequency(hertz):
    t = np.arange(22_050) / 22_050
    wave = sum(np.sin(2 * np.pi * hertz * k * t) / k for k in (1, 2, 3)).astype(np.float32) / 3
    pitch, voiced = find_pitch(*padded([wave], 24_000))
    inside = slice(5, 80)
    assert voiced.numpy()[0, inside].all()
    np.testing.assert_allclose(pitch.numpy()[0, inside], hertz, rtol=0.01)


def test_pitch_of_every_second_frame_is_that_of_the_frames_it_names(clips):
    waves, lengths = padded(clips[:2], max(map(len, clips[:2])) + 3000)
    pitch, voiced = (t.numpy()[:, ::2] for t in find_pitch(waves, lengths))
    fewer, heard = (t.numpy() for t in find_pitch(waves, lengths, every=2))
    assert fewer.shape == pitch.shape
    assert (heard == voiced).mean() > 0.97
    both = heard & voiced
    assert np.mean(np.abs(fewer[both] / pitch[both] - 1) < 0.05) > 0.97


def test_noise_and_silence_have_no_pitch():
    noise = np.random.default_rng(0).normal(0, 0.1, 22_050).astype(np.float32)
    _, voiced = find_pitch(*padded([noise, np.zeros(22_050, np.float32)], 22_050))
    assert voiced.numpy()[0].mean() < 0.1
    assert not voiced.numpy()[1].any()
