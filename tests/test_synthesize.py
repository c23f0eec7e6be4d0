"""Speaking: the same audio on every way to it, no clicks, no half files, and errors in words."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from myxtts.errors import DataError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference import Synthesizer, audio_files
from myxtts.inference.audio_files import write_stream
from myxtts.inference.script import PAUSES
from myxtts.inference.synthesizer import FADE_S
from myxtts.models import xtts
from tests.small_runs import hum, save_run, save_voice
from tests.support import ROOT

TEXT = "One two. Three four?\n\nFive, six."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_voice(tmp_path_factory.mktemp("speaking"))


@pytest.fixture(scope="module")
def synthesizer(folder):
    return Synthesizer.load(folder / "run")


@pytest.fixture(scope="module")
def voice(synthesizer, folder):
    return synthesizer.listen(folder / "reference.wav")


# -- Python --


def test_a_text_sounds_the_same_alone_among_others_and_as_a_stream(synthesizer, voice):
    texts = [TEXT, "Seven.", "Eight nine ten eleven."]
    together = synthesizer.speak(texts, voice=voice)
    for text, wave in zip(texts, together, strict=True):
        assert wave.dtype == np.float32
        np.testing.assert_array_equal(synthesizer.say(text, voice=voice), wave)
        np.testing.assert_array_equal(
            np.concatenate(list(synthesizer.stream(text, voice=voice))), wave
        )
    np.testing.assert_array_equal(synthesizer.speak("Seven.", voice=voice)[0], together[1])
    assert synthesizer.speak([]) == []


def test_an_export_sounds_as_its_run_does(synthesizer, folder, voice):
    other = Synthesizer.load(folder / "voice")
    np.testing.assert_array_equal(
        other.say(TEXT, references=folder / "reference.wav", seed=3),
        synthesizer.say(TEXT, voice=voice, seed=3),
    )


def test_the_first_chunk_does_not_wait_for_the_rest(synthesizer, voice, monkeypatch):
    spoken = []
    vocoder = synthesizer.vocoder

    class Listening:
        sample_rate = vocoder.sample_rate

        def __call__(self, mels, pitches):
            spoken.append(len(mels))
            return vocoder(mels, pitches)

    monkeypatch.setattr(synthesizer, "vocoder", Listening())
    stream = synthesizer.stream(TEXT * 5, voice=voice)
    assert spoken == []
    next(stream)
    assert spoken == [1]
    next(stream)
    assert spoken == [1, 1]


def test_lines_are_joined_by_pauses_without_clicks(synthesizer, voice):
    chunks = list(synthesizer.stream(TEXT, voice=voice))
    pauses = [PAUSES["sentence"], PAUSES["paragraph"], 0.0]
    for chunk, pause in zip(chunks, pauses, strict=True):
        silence = round(pause * SAMPLE_RATE)
        spoken = chunk[: len(chunk) - silence]
        assert not chunk[len(spoken) :].any()
        steps = np.abs(np.diff(spoken)).max()
        assert abs(spoken[0]) < 0.01 * steps + 1e-6
        assert abs(spoken[-1]) < 0.01 * steps + 1e-6
    (speech,) = synthesizer.perform(["One two."], voice=voice)
    fade = round(FADE_S * SAMPLE_RATE)
    inner = slice(fade, len(speech.wave) - fade)
    np.testing.assert_array_equal(chunks[0][inner], speech.wave[inner])


def test_what_speech_was_made_from_fits_together(synthesizer, voice):
    speech, other = synthesizer.perform(["One two.", "Three."], voice=voice)
    frames = len(speech.mel)
    assert len(speech.wave) == frames * 256
    assert speech.pitch.shape == (frames,)
    assert speech.alignment.shape == (len(speech.symbols), frames)
    assert "".join(speech.symbols[1:-1]) == "One two."
    np.testing.assert_array_equal(synthesizer.perform(["Three."], voice=voice)[0].mel, other.mel)
    assert synthesizer.perform([]) == []


def test_speed_and_pitch_do_what_they_say(synthesizer, voice):
    (usual,) = synthesizer.perform(["One two three four."], voice=voice)
    (slow,) = synthesizer.perform(["One two three four."], voice=voice, speed=0.25)
    assert len(slow.wave) > 2 * len(usual.wave)
    (high,) = synthesizer.perform(["One two three four."], voice=voice, pitch_shift=12)
    np.testing.assert_allclose(high.pitch, 2 * usual.pitch, rtol=1e-4)


def test_the_seed_decides_what_the_flow_head_says(tmp_path, monkeypatch):
    monkeypatch.setattr(xtts, "FLOW_STEPS", 2)  # each is traced
    synthesizer = Synthesizer.load(save_run(tmp_path, head="flow"))
    voice = synthesizer.listen((hum(), SAMPLE_RATE))
    first, again, other = (synthesizer.say("One.", voice=voice, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["One.", " "], "The text is empty"),
        (["One.", "..."], "nothing this voice can say"),
        (["سلام"], "is in Arabic script"),
        (["ħŧ"], "nothing this voice can say"),
    ],
)
def test_every_text_is_checked_before_the_first_is_spoken(synthesizer, voice, texts, message):
    with pytest.raises(DataError, match=message):
        synthesizer.speak(texts, voice=voice)
    with pytest.raises(DataError, match="the language 'xx' is unknown"):
        synthesizer.stream("One.", voice=voice, language="xx")
    with pytest.raises(DataError, match="no reference"):
        synthesizer.stream("One.")


# -- references --


@pytest.mark.parametrize("kind", ["int16", "int32", "uint8", "float64", "stereo", "turned"])
def test_a_recording_is_the_same_voice_as_samples_of_any_kind(synthesizer, folder, voice, kind):
    wave = soundfile.read(folder / "reference.wav")[0]
    samples = {
        "int16": (wave * 2**15).astype(np.int16),
        "int32": (wave * 2**31).astype(np.int32),
        "uint8": ((wave + 1) * 127.5).astype(np.uint8),
        "float64": wave,
        "stereo": np.stack([wave, wave], axis=1),
        "turned": np.stack([wave, wave], axis=0),
    }[kind]
    heard = synthesizer.listen((samples, SAMPLE_RATE))
    if kind != "uint8":  # whose noise fills the gaps between the harmonics
        np.testing.assert_allclose(heard.vector, voice.vector, atol=1e-3)
    np.testing.assert_allclose(heard.log_pitch, voice.log_pitch, atol=1e-3)


@pytest.mark.parametrize("rate", [8_000, 16_000, 48_000])
def test_any_rate_gives_the_same_pitch(synthesizer, voice, rate):
    heard = synthesizer.listen([(hum(rate=rate), rate)])
    np.testing.assert_allclose(heard.log_pitch, voice.log_pitch, atol=0.01)
    assert abs(np.exp(float(heard.log_pitch[0])) - 140) < 2


def test_several_references_are_averaged_by_their_length(synthesizer):
    low, high = (hum(2.0, pitch=110), SAMPLE_RATE), (hum(3.0, pitch=220), SAMPLE_RATE)
    alone = [synthesizer.listen(one) for one in (low, high)]
    both = synthesizer.listen([low, high])
    for name in ("vector", "log_pitch"):
        wanted = 0.4 * getattr(alone[0], name) + 0.6 * getattr(alone[1], name)
        np.testing.assert_allclose(getattr(both, name), wanted, atol=1e-5)


# -- the command line --


@pytest.fixture
def flags(folder):
    return ["synthesize", "--model", folder / "run", "--reference", folder / "reference.wav"]


def as_wav(wave, kind="WAV"):
    file = io.BytesIO()
    write_stream(file, [wave], sample_rate=SAMPLE_RATE, kind=kind)
    return file.getvalue()


def test_file_stream_export_and_python_give_the_same_audio(
    run_command, flags, folder, tmp_path, synthesizer, voice
):
    wanted = as_wav(synthesizer.say(TEXT, voice=voice, seed=5))
    (tmp_path / "text.txt").write_text("\ufeff" + TEXT, encoding="utf-8")
    output = tmp_path / "out.wav"
    flags += ["--seed", 5]
    code, out, err = run_command(*flags, "--text-file", tmp_path / "text.txt", "--output", output)
    assert (code, out) == (0, b""), err
    assert output.read_bytes() == wanted
    assert "s of speech, made in" in err
    flags += ["--model", folder / "voice", "-", "--output", "-"]
    piped = subprocess.run(  # as users have it: a process of its own, from the export
        [sys.executable, "-m", "myxtts", *map(str, flags)],
        cwd=ROOT,
        input=TEXT.encode(),
        capture_output=True,
        check=True,
    )
    assert piped.stdout == wanted
    assert piped.stderr.startswith(b"standard output: ")
    assert b"I0000" not in piped.stderr


@pytest.fixture
def loaded(monkeypatch, synthesizer):
    """The voice as if just loaded, which takes seconds."""
    monkeypatch.setattr("myxtts.inference.synthesizer.Synthesizer", lambda files, **_: synthesizer)


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("source", ["-", "--text -", "--text-file -"])
def test_a_dash_is_standard_input_or_output(run_command, flags, source, synthesizer, voice):
    code, out, err = run_command(*flags, *source.split(), "--output", "-", stdin=TEXT.encode())
    assert code == 0, err
    assert out == as_wav(synthesizer.say(TEXT, voice=voice))


@pytest.mark.usefixtures("loaded")
def test_several_references_and_a_shifted_pitch_reach_the_voice(
    run_command, flags, folder, tmp_path, synthesizer
):
    both = [folder / "reference.wav", folder / "short.wav"]  # together they are long enough
    soundfile.write(both[1], hum(1.25), SAMPLE_RATE)
    wanted = synthesizer.say("One two.", references=both, pitch_shift=-5, speed=1.5)
    flags += ["--reference", both[1], "--pitch-shift", "-5", "--speed", "1.5"]
    code, out, err = run_command(*flags, "--text", "One two.", "--output", "-")
    assert code == 0, err
    assert out == as_wav(wanted)
    assert out != as_wav(synthesizer.say("One two.", references=both[0]))


@pytest.mark.usefixtures("loaded")
def test_flac_and_a_folder_with_a_file_for_each_line(
    run_command, flags, tmp_path, synthesizer, voice
):
    run_command(*flags, "--text", "One. Two.", "--output", tmp_path / "out.FLAC")
    flac, rate = soundfile.read(tmp_path / "out.FLAC", dtype="int16")
    wanted = soundfile.read(
        io.BytesIO(as_wav(synthesizer.say("One. Two.", voice=voice))), dtype="int16"
    )[0]
    np.testing.assert_array_equal(flac, wanted)
    assert rate == SAMPLE_RATE
    text = "One. Two.\n\nThree.\n"
    code, _, err = run_command(*flags, "--text", text, "--output", tmp_path / "lines")
    assert code == 0
    assert "2 files" in err
    files = sorted((tmp_path / "lines").iterdir())
    assert [file.name for file in files] == ["0001.wav", "0002.wav"]
    assert files[0].read_bytes() == as_wav(synthesizer.say("One. Two.", voice=voice))
    assert files[1].read_bytes() == as_wav(synthesizer.say("Three.", voice=voice))


@pytest.mark.usefixtures("loaded")
def test_a_write_that_fails_leaves_the_old_file_and_nothing_half(
    run_command, flags, tmp_path, monkeypatch
):
    output = tmp_path / "out.wav"
    output.write_text("old")

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(audio_files.os, "fsync", fail)
    code, _, err = run_command(*flags, "--text", "One.", "--output", output)
    assert code == 2
    assert "No space left" in err
    assert [path.name for path in tmp_path.iterdir()] == ["out.wav"]
    assert output.read_text() == "old"
