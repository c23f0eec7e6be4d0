"""Recordings of a speaker: heard whole, in pieces as training's, or refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from myxtts.errors import DataError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference.references import read_references
from tests.small_runs import hum


def test_long_recordings_are_heard_whole_but_for_their_silence():
    wave = np.concatenate([hum(6.0), np.zeros(6 * SAMPLE_RATE)])
    pieces = read_references([(wave, SAMPLE_RATE)])
    assert [len(piece) for piece in pieces] == [3 * SAMPLE_RATE] * 2
    assert len(read_references((hum(7.0), SAMPLE_RATE))) == 3


@pytest.mark.parametrize(
    ("recording", "message"),
    [
        ((hum(1.0), SAMPLE_RATE), "holds 1.00 s of sound, and 2 s are needed"),
        ((np.zeros(99_999), SAMPLE_RATE), "number 1 is silent"),
        ((np.zeros(0), SAMPLE_RATE), "number 1 is silent"),
        ((np.full(99_999, np.nan), SAMPLE_RATE), "not finite"),
        ((hum() * 32768, SAMPLE_RATE), "far beyond ±1"),
        ((hum(), 0), "the rate 0"),
        ((np.zeros([2, 3, 4]), 16_000), r"shape \[2, 3, 4\]"),
        ([hum()], "neither a file nor samples"),
        ("nowhere.wav", "nowhere.wav does not exist"),
        (".", "is a folder"),
    ],
)
def test_a_reference_that_cannot_be_used_says_why(recording, message):
    with pytest.raises(DataError, match=message):
        read_references(recording)


def test_a_file_with_samples_that_are_no_numbers_is_refused(tmp_path):
    wave = hum(6.0)
    wave[1000] = np.nan
    soundfile.write(tmp_path / "nan.wav", wave, SAMPLE_RATE, subtype="FLOAT")
    with pytest.raises(DataError, match=r"nan.wav holds samples that are not finite"):
        read_references(tmp_path / "nan.wav")


def test_channels_that_cancel_each_other_out_are_heard_by_one(tmp_path, caplog):
    wave = hum(3.0)
    soundfile.write(tmp_path / "stereo.wav", np.stack([wave, -wave], axis=1), SAMPLE_RATE)
    (piece,) = read_references(tmp_path / "stereo.wav")
    assert np.abs(piece).max() == pytest.approx(32768 * np.abs(wave).max(), rel=0.01)
    assert "cancel each other out" in caplog.text
