"""What a data check sums up: lengths that can be told apart, and what the data is enough for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from myxtts.data.enough import enough_for
from myxtts.data.list_forms import Clip
from myxtts.data.manifests import Manifest
from myxtts.data.summary import MAX_HISTOGRAM_ROWS, summarise
from myxtts.data.verdicts import Verdict


def summary_of(seconds, speakers=("Ann",), **facts):
    manifest = Manifest(Path())
    for i in range(len(seconds)):
        manifest.append((Clip(f"{i}", "x", speakers[i % len(speakers)], "en"), ""))
    verdicts = [Verdict(seconds=each, **facts) for each in seconds]
    return summarise(manifest, verdicts, Counter())


@pytest.mark.parametrize(
    "seconds",
    [
        [1.9],
        [1.9, 1.9000001],
        np.linspace(1.86, 1.94, 50),
        np.linspace(0.3, 12, 500),
        np.linspace(0.3, 5000, 500),
        [0.3, 0.6, 0.9],
    ],
)
def test_no_two_rows_of_the_histogram_read_alike(seconds):
    rows = summary_of([float(each) for each in seconds]).histogram
    shown = [f"{low:.1f} to {high:.1f}" for low, high, _ in rows]
    assert len(set(shown)) == len(shown) <= MAX_HISTOGRAM_ROWS
    assert all(row.split(" to ")[0] != row.split(" to ")[1] for row in shown)
    assert sum(count for _, _, count in rows) == len(seconds)
    for low, high, count in rows:
        inside = sum(low - 1e-4 <= each < high + 1e-4 for each in seconds)
        assert count <= inside


def test_minutes_are_counted_for_each_speaker():
    summary = summary_of([60.0, 30.0, 60.0], speakers=("Ann", "Bob"), cancels=True)
    assert summary.speaker_minutes == {"Ann": 2.0, "Bob": 0.5}
    assert summary.cancelling == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("minutes", "speakers", "voice", "cloning"),
    [
        (3.25, 1, "Little for a voice: 3.2 minutes", "here: 1."),
        (4.96, 4, "Enough to be understood: 5.0 minutes", "here: 4."),
        (14.4, 47, "Enough to be understood: 14 minutes", "takes many speakers"),
        (36.0, 48, "Enough for a voice: 36 minutes", "Enough to try cloning"),
    ],
)
def test_what_data_is_enough_for_is_said(minutes, speakers, voice, cloning):
    said = enough_for({f"{i}": minutes if i == 0 else 0.1 for i in range(speakers)})
    assert str(said[0]).startswith(voice)
    assert cloning in str(said[1])
