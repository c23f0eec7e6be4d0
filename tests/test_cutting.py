"""Cuts lie in the middle of quiet places, between words, and make clips of a useful length."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.features.audio import SAMPLE_RATE
from myxtts.recordings.audio import LEVEL_S, levels
from myxtts.recordings.best_path import best_path
from myxtts.recordings.cutting import LEAST_S, MOST_S, Unit, cut_units, quietest, speech_units


def noise(spans, seconds, loud=3000.0):
    """Noise where somebody would speak, and next to nothing elsewhere."""
    random = np.random.default_rng(0)
    wave = random.normal(0, 3, int(seconds * SAMPLE_RATE))
    for start, end in spans:
        part = slice(int(start * SAMPLE_RATE), int(end * SAMPLE_RATE))
        wave[part] += random.normal(0, loud, len(wave[part]))
    return wave.astype(np.int16)


def test_the_quietest_place_is_found_and_its_middle_taken():
    level = levels(noise([(0.0, 1.0), (1.4, 2.4)], 2.4))
    middle, lowest, length = quietest(level, 0.5, 2.0)
    assert middle == pytest.approx(1.2, abs=0.03)
    assert length == pytest.approx(0.4, abs=0.06)
    assert lowest < -60


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.1, 1.2), st.one_of(st.floats(0.0, 0.1), st.floats(0.2, 4.0))),
        min_size=1,
        max_size=60,
    )
)
def test_every_word_is_in_one_clip_and_no_cut_is_inside_one(lengths):
    units, now = [], 0.3
    for lasts, pause in lengths:
        units.append(Unit(now, now + lasts))
        now += lasts + pause
    level = np.full(int((now + 0.5) / LEVEL_S), -70.0, np.float32)
    for unit in units:
        level[int(unit.start / LEVEL_S) : int(unit.end / LEVEL_S)] = -20.0
    cuts = cut_units(units, level)
    assert [cut.first for cut in cuts] == [0, *(cut.last for cut in cuts[:-1])]
    assert cuts[-1].last == len(units)
    for cut in cuts:
        assert cut.start <= units[cut.first].start + 0.05
        assert cut.end >= units[cut.last - 1].end - 0.05
        assert cut.end - cut.start <= MOST_S + 0.01
    for before, behind in pairwise(cuts):
        assert before.end <= behind.start + 1e-6, "clips never overlap"


def test_clips_are_neither_tiny_nor_too_long_where_pauses_allow():
    spans = [(2.0 * i, 2.0 * i + 1.6) for i in range(40)]
    level = levels(noise(spans, 80.0))
    cuts = cut_units([Unit(*span) for span in spans], level)
    lengths = [cut.end - cut.start for cut in cuts]
    assert min(lengths) >= LEAST_S
    assert max(lengths) <= MOST_S
    assert all(abs(cut.end - (2.0 * cut.last - 0.2)) < 0.15 for cut in cuts[:-1])


def test_speech_without_a_pause_is_cut_where_it_is_quietest():
    wave = noise([(0.0, 30.0)], 30.0)
    dip = slice(int(13.9 * SAMPLE_RATE), int(14.0 * SAMPLE_RATE))
    wave[dip] //= 30
    speech = np.ones(int(30 * SAMPLE_RATE / 256), bool)
    units = speech_units(speech, levels(wave))
    assert any(unit.end == pytest.approx(13.95, abs=0.04) for unit in units)
    assert all(unit.end - unit.start <= MOST_S for unit in units)


def test_the_best_path_is_the_same_in_a_band_and_may_leave_pauses_out():
    random = np.random.default_rng(0)
    means = random.normal(0, 1, [401, 8]).astype(np.float32)
    optional = np.arange(401) % 4 == 0
    silence = np.full(8, -3.0, np.float32)
    said = [i for i in range(401) if not optional[i] or i == 20]
    states = np.repeat(said, 3)
    mels = means[states] + random.normal(0, 0.1, [len(states), 8]).astype(np.float32)
    mels[states == 20] = silence
    whole, narrow = (best_path(mels, means, optional, silence, band=band) for band in (512, 220))
    assert whole is not None
    assert narrow is not None
    assert whole[0].tolist() == narrow[0].tolist() == states.tolist()
    assert best_path(mels[:10], means, optional, silence) is None, "too short for its text"
