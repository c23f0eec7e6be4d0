"""Loudness is measured as the standard says, reached as asked, and peaks are limited."""

from __future__ import annotations

import numpy as np
import pytest

from myxtts.errors import ConfigError
from myxtts.inference.loudness import CEILING, Leveller, limit, loudness_of

RATE = 22_050


def tone(seconds: float, level: float, pitch: float = 997.0, rate: int = RATE) -> np.ndarray:
    return (level * np.sin(2 * np.pi * pitch * np.arange(round(seconds * rate)) / rate)).astype("f")


def babble(seconds: float, level: float, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=round(seconds * RATE))
    swell = 0.6 + 0.4 * np.sin(2 * np.pi * 3.0 * np.arange(len(noise)) / RATE)
    return (level * noise * swell).astype(np.float32)


@pytest.mark.parametrize("rate", [22_050, 48_000])
def test_a_full_tone_has_the_loudness_that_the_standard_gives_it(rate):
    assert loudness_of(tone(5, 1.0, rate=rate), rate) == pytest.approx(-3.01, abs=0.05)
    assert loudness_of(tone(5, 0.1, rate=rate), rate) == pytest.approx(-23.01, abs=0.05)


def test_pauses_do_not_count_and_silence_has_no_loudness():
    spoken = tone(3, 0.1)
    paused = np.concatenate([spoken, np.zeros(5 * RATE, np.float32), spoken])
    assert loudness_of(paused, RATE) == pytest.approx(loudness_of(spoken, RATE), abs=0.5)
    assert loudness_of(np.zeros(RATE, np.float32), RATE) is None
    assert loudness_of(np.zeros(0, np.float32), RATE) is None


def test_bass_counts_for_less():
    assert loudness_of(tone(3, 0.1, 40.0), RATE) < loudness_of(tone(3, 0.1, 997.0), RATE) - 3


@pytest.mark.parametrize("target", [-30.0, -23.0, -16.0])
def test_lines_come_out_at_the_target_one_by_one_and_as_a_whole(target):
    level = Leveller(target, RATE)
    lines = [level(babble(2.0, 0.02 * (1 + n % 3), n)) for n in range(12)]
    assert loudness_of(lines[0], RATE) == pytest.approx(target, abs=0.1)
    assert loudness_of(np.concatenate(lines), RATE) == pytest.approx(target, abs=1.0)
    louder = loudness_of(lines[11], RATE) - loudness_of(lines[9], RATE)
    assert louder > 6.0, "a loud line stays louder than a soft one"


def test_silence_stays_silence():
    assert not Leveller(-16.0, RATE)(np.zeros(1000, np.float32)).any()


@pytest.mark.parametrize("target", [-60.0, 0.0, float("nan")])
def test_a_loudness_that_cannot_be_is_refused(target):
    with pytest.raises(ConfigError, match="cannot be reached"):
        Leveller(target, RATE)


def test_nothing_passes_the_ceiling_and_what_is_below_it_is_not_touched():
    quiet = babble(1.0, 0.05)
    assert limit(quiet, RATE) is quiet
    loud = quiet.copy()
    loud[10_000:10_040] = 1.9
    limited = limit(loud, RATE)
    assert np.abs(limited).max() <= CEILING
    np.testing.assert_array_equal(limited[:9_000], quiet[:9_000])
    np.testing.assert_array_equal(limited[11_000:], quiet[11_000:])


def test_a_loud_tone_keeps_its_shape_instead_of_being_cut_off():
    wave = tone(1.0, 1.6, 200.0)
    limited, clipped = limit(wave, RATE), wave.clip(-CEILING, CEILING)

    def distortion(made: np.ndarray) -> float:
        made = made[2000:-2000]
        like = np.dot(made, wave[2000:-2000]) / np.dot(wave[2000:-2000], wave[2000:-2000])
        return float(np.linalg.norm(made - like * wave[2000:-2000]) / np.linalg.norm(made))

    assert distortion(limited) < 0.2 * distortion(clipped)


def test_the_gain_moves_without_a_click():
    wave = np.ones(RATE, np.float32) * 0.5
    wave[RATE // 2] = 2.0
    gain = limit(wave, RATE) / wave
    assert np.abs(np.diff(gain)).max() < 0.02
