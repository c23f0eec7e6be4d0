"""Voices told apart by pitch and average spectrum: what counts, and what must not."""

from __future__ import annotations

import numpy as np
import pytest

from myxtts.evaluation.pitch import analyse, pitch_error
from myxtts.evaluation.voice_match import average_profile, distances, profile_of, rank
from myxtts.features.audio import SAMPLE_RATE


def buzz(pitch: float, *, tilt: float = 1.0, seconds: float = 0.9) -> np.ndarray:
    """Harmonics that fall off by `tilt`, with some noise: a voice without words."""
    time = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    orders = np.arange(1, int(6000 / pitch))
    tones = np.sin(2 * np.pi * pitch * orders[:, None] * time) * orders[:, None] ** -tilt
    wave = tones.sum(axis=0) + 1e-3 * np.random.default_rng(0).normal(size=len(time))
    return (0.1 * wave / wave.std()).astype(np.float32)


def voice_profile(wave):
    return profile_of(analyse(wave))


def test_the_median_pitch_is_found_and_compared():
    low, high, silence = (analyse(wave) for wave in (buzz(150), buzz(165), np.zeros(9000)))
    assert np.exp(voice_profile(buzz(150)).median_log_pitch) == pytest.approx(150, rel=0.01)
    assert pitch_error(high, low) == pytest.approx(0.10, abs=0.01)
    assert pitch_error(low, low) == 0
    assert np.isnan(pitch_error(silence, low))


def test_a_contour_has_a_value_a_frame_and_none_in_silence():
    wave = np.concatenate([buzz(200, seconds=0.4), np.zeros(SAMPLE_RATE // 3, np.float32)])
    contour = analyse(wave).pitch
    assert len(contour) == 1 + len(wave) // 256
    assert contour[5:25] == pytest.approx(200, rel=0.02)
    assert not contour[-20:].any()
    assert len(analyse(np.zeros(0)).pitch) == 0


def test_neither_level_nor_pauses_change_a_voice():
    wave = buzz(150)
    quiet = np.concatenate([np.zeros(3000, np.float32), 0.2 * wave])
    candidates = {"same": voice_profile(wave), "near": voice_profile(buzz(156, tilt=1.1))}
    far = distances(voice_profile(quiet), candidates)
    assert far["same"] < 0.25 * far["near"]


def test_pitch_alone_and_spectrum_alone_tell_voices_apart():
    candidates = {
        f"{pitch} {tilt}": voice_profile(buzz(pitch, tilt=tilt))
        for pitch in (110, 150, 220)
        for tilt in (0.8, 1.4)
    }
    for pitch, tilt in ((113, 0.85), (146, 1.35), (214, 1.45)):
        own = min(candidates, key=lambda name: abs(float(name.split()[0]) - pitch))
        nearest = rank(voice_profile(buzz(pitch, tilt=tilt)), candidates)
        assert nearest[0] == f"{own.split()[0]} {0.8 if tilt < 1.1 else 1.4}"
        assert sorted(nearest) == sorted(candidates)


def test_a_voice_without_pitch_is_far_from_those_with_one():
    noise = np.random.default_rng(1).normal(size=SAMPLE_RATE // 2)
    candidates = {str(pitch): voice_profile(buzz(pitch)) for pitch in (110, 150, 220)}
    assert rank(voice_profile(np.zeros(9000)), candidates)[0] == "110"  # the lowest, and finite
    assert all(np.isfinite(list(distances(voice_profile(noise), candidates).values())))


def test_an_average_lies_between_its_parts():
    low, high = voice_profile(buzz(120)), voice_profile(buzz(240))
    middle = average_profile([low, high])
    assert low.median_log_pitch < middle.median_log_pitch < high.median_log_pitch
    assert np.allclose(middle.spectrum, (low.spectrum + high.spectrum) / 2)
