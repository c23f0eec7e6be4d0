"""An ONNX export speaks without TensorFlow, as TensorFlow does; a damaged one is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from myxtts.errors import DataError
from myxtts.features.audio import REFERENCE_SAMPLES
from myxtts.inference.export import check_target
from myxtts.inference.loudness import CEILING, loudness_of
from myxtts.inference.opening import open_voice
from myxtts.inference.small import features
from myxtts.inference.small.files import config_checksum, is_onnx_export, load_small
from myxtts.inference.small.griffin_lim import SmallGriffinLim
from myxtts.inference.small.noise import flow_noise
from myxtts.inference.small.voice import SmallVoice
from myxtts.inference.timbre import speech_sounds
from myxtts.text import espeak
from tests.small_runs import hum
from tests.small_voice import FIXTURE, HELLO, small_voice
from tests.support import ROOT

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng reads the words")


@pytest.fixture(scope="module")
def voice():
    return small_voice().files.voices["default"]


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(FIXTURE, tmp_path / "copy")


def rewrite(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    config |= changes
    config["checksum"] = config_checksum(config)
    (folder / "config.json").write_text(json.dumps(config))


def test_it_speaks_and_repeats_itself(voice):
    wave = small_voice().say(HELLO, voice=voice)
    assert wave.dtype == np.float32
    assert len(wave) > 22_050
    assert 0.01 < np.abs(wave).max() <= CEILING
    np.testing.assert_array_equal(wave, small_voice().say(HELLO, voice=voice))


def test_it_hears_who_is_inside_of_it_again(voice):
    heard = small_voice().listen((hum(), 22_050))
    np.testing.assert_allclose(heard.vector, voice.vector, atol=1e-5)
    assert np.exp(heard.log_pitch[0]) == pytest.approx(140, abs=2)


def test_prosody_slows_and_lifts_the_words_it_is_for(voice):
    plain = "<speak>One two three four.</speak>"
    slowed = '<speak>One <prosody rate="50%">two three</prosody> four.</speak>'
    (first,), (second,) = (
        list(small_voice().stream_timed(text, voice=voice)) for text in (plain, slowed)
    )

    def lasting(chunk, index):
        word = chunk.sentence.words[index]
        return word.end - word.start

    assert lasting(second, 0) == pytest.approx(lasting(first, 0), abs=1e-6)
    assert lasting(second, 1) > 1.5 * lasting(first, 1)


def test_loudness_is_reached(voice):
    text = "Hello there, this is a test of loudness."
    wave = small_voice().say(text, voice=voice, loudness=-24.0)
    assert loudness_of(wave, 22_050) == pytest.approx(-24.0, abs=0.5)


def test_loading_it_needs_no_tensorflow_and_no_second(tmp_path):
    program = (
        "import sys, time\n"
        "from myxtts.inference.opening import open_voice\n"
        f"voice = open_voice({str(FIXTURE)!r})\n"
        "voice.say('Hello.', voice=voice.files.voices['default'])\n"
        "loaded = {'tensorflow', 'keras', 'torch', 'scipy'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env=environment)


def test_it_is_opened_for_what_it_is(copy):
    assert is_onnx_export(FIXTURE)
    assert not is_onnx_export(ROOT / "myxtts" / "base" / "tiny")
    assert isinstance(open_voice(FIXTURE), SmallVoice)
    check_target(copy)  # an earlier export may be replaced


@pytest.mark.parametrize("name", ["read.onnx", "utter.onnx", "listen.onnx"])
def test_a_graph_that_was_changed_cut_or_lost_is_refused(copy, name):
    file = copy / name
    whole = file.read_bytes()
    for bad in (whole[:-1], whole[:-1] + b"x"):
        file.write_bytes(bad)
        with pytest.raises(DataError, match="cannot be used"):
            load_small(copy)
    file.unlink()
    with pytest.raises(DataError, match="cannot be used"):
        load_small(copy)


def test_settings_that_were_changed_are_refused(copy):
    config = copy / "config.json"
    config.write_text(config.read_text().replace('"step": 7', '"step": 8'))
    with pytest.raises(DataError, match="it was changed"):
        load_small(copy)
    rewrite(copy, format_number=2)
    with pytest.raises(DataError, match="has format 2"):
        load_small(copy)
    rewrite(copy, format_number=1, languages_known=["de", "en"])
    with pytest.raises(DataError, match="languages otherwise"):
        load_small(copy)
    config.write_text("[" * 100_000)
    with pytest.raises(DataError, match="damaged"):
        load_small(copy)


def test_a_graph_that_is_none_is_refused_in_words(copy):
    import hashlib

    (copy / "read.onnx").write_bytes(b"nonsense")
    files = json.loads((copy / "config.json").read_text())["files"]
    files["read.onnx"] = {"size": 8, "sha256": hashlib.sha256(b"nonsense").hexdigest()}
    rewrite(copy, files=files)
    with pytest.raises(DataError, match="cannot be run"):
        SmallVoice.load(copy)


def test_the_command_speaks_with_it_and_writes_times(run_command, tmp_path):
    code, _, told = run_command(
        *("synthesize", "--model", FIXTURE, "--text", "Hello {Bob|/bˈɒb/}.", "--loudness", "-20"),
        *("--output", tmp_path / "hello.wav", "--times", tmp_path / "hello.json"),
    )
    assert code == 0, told
    wave, rate = soundfile.read(tmp_path / "hello.wav")
    times = json.loads((tmp_path / "hello.json").read_text())
    assert [word["text"] for word in times["words"]] == ["Hello", "Bob"]
    assert times["words"][-1]["end"] <= len(wave) / rate


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--times", "x.txt", "--output", "x.wav"], "unclear"),
        (["--times", "x.srt", "--output", "."], "many files"),
        (["--loudness", "3", "--output", "x.wav"], "cannot be reached"),
        (["--lexicon", "none.tsv", "--output", "x.wav"], "none.tsv cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_spoken(run_command, flags, problem):
    code, _, told = run_command("synthesize", "--model", FIXTURE, "--text", "Hi.", *flags)
    assert code == 2
    assert problem in told
    assert "try:" in told


# -- the same numbers as TensorFlow's --


def test_references_are_heard_as_tensorflow_hears_them():
    import tensorflow as tf

    from myxtts.features import mels, pitch

    samples, _ = espeak.speak("The weather was lovely.", voice="en-us+m3")
    wave = np.pad(samples / 32768.0, [0, REFERENCE_SAMPLES])[:REFERENCE_SAMPLES].astype(np.float32)
    length = min(len(samples), REFERENCE_SAMPLES)
    with tf.device("/CPU:0"):
        theirs = mels.log_mel(wave[None], tf.constant([length]))[0].numpy()
        contour = pitch.pitch(wave[None], tf.constant([length]))[0][0].numpy()
    ours = features.log_mel(wave[:length])
    np.testing.assert_allclose(ours, theirs[: len(ours)], atol=1e-3)
    found = features.pitch(wave, length)
    assert ((found > 0) == (contour > 0)).mean() > 0.99
    both = (found > 0) & (contour > 0)
    np.testing.assert_allclose(found[both], contour[both], rtol=1e-3)


def test_a_mel_sounds_as_tensorflow_makes_it_sound():
    from myxtts.inference.vocoder import GriffinLim

    samples, _ = espeak.speak("Nine old maps.", voice="en-us+f2")
    wave = samples.astype(np.float32) / 32768.0
    mel, contour = features.log_mel(wave), features.pitch(wave, len(wave))
    for pitches in ([contour], None):
        (theirs,) = GriffinLim()([mel], pitches)
        (ours,) = SmallGriffinLim()([mel], pitches)
        assert ours.shape == theirs.shape
        made = [speech_sounds([features.log_mel(each)]).mean(axis=0) for each in (ours, theirs)]
        np.testing.assert_allclose(made[0], made[1], atol=0.02)
        assert np.abs(features.log_mel(ours) - features.log_mel(theirs)).mean() < 0.1


def test_the_flow_starts_from_the_same_noise():
    import tensorflow as tf

    from myxtts.models.noise import normal, seed_key

    with tf.device("/CPU:0"):
        key = seed_key(tf.constant([77, 0]))[None]
        theirs = normal(key, 12 * 80, salt=4).numpy().reshape(1, 12, 80)
    np.testing.assert_allclose(flow_noise(77, 12), theirs, atol=2e-5)
