"""The built-in corpus: what it says, that it repeats byte for byte, and that it appears whole."""

import csv
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.corpora import demo, demo_sentences
from myxtts.errors import DataError
from myxtts.text import espeak

needs_espeak = pytest.mark.skipif(
    not espeak.is_available(),
    reason="espeakng-loader is not installed: pip install espeakng-loader",
)

SMALL = {"sentences": demo_sentences.MIN_SENTENCES, "held_out": 8}

GENERAL_AMERICAN = (  # as espeak-ng writes them
    "p b t d k ɡ tʃ dʒ f v θ ð s z ʃ ʒ h m n ŋ l ɹ j w "
    "iː ɪ eɪ ɛ æ ɑː ɔː oʊ ʊ uː ʌ ə ɚ ɜː aɪ aʊ ɔɪ i ɾ ᵻ"
).split()


def words_of(sentences):
    return set(re.findall(r"[a-z]+", " ".join(sentences).lower()))


def held_out_words():
    return {word.lower() for slot in demo_sentences.HELD_OUT_SLOTS.values() for word in slot}


def read_manifest(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="|"))


def content(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "corpus"
    return demo.make_demo_corpus(folder, **SMALL)


# The texts


def test_slots_hold_enough_different_words_for_a_closed_set():
    assert list(demo_sentences.SLOTS) == ["name", "verb", "number", "adjective", "noun"]
    assert list(demo_sentences.HELD_OUT_SLOTS) == list(demo_sentences.SLOTS)
    for slot, words in demo_sentences.SLOTS.items():
        alternatives = words + demo_sentences.HELD_OUT_SLOTS[slot]
        assert 20 <= len(words) <= len(alternatives) <= 35
        assert len(set(alternatives)) == len(alternatives)


def test_training_says_every_slot_word_and_no_held_out_word():
    texts = demo_sentences.draw_texts(seed=3, num_sentences=SMALL["sentences"], num_held_out=50)
    trained = words_of(texts.train)
    assert {w.lower() for slot in demo_sentences.SLOTS.values() for w in slot} <= trained
    assert not trained & held_out_words()


def test_held_out_sentences_are_new():
    texts = demo_sentences.draw_texts(seed=0, num_sentences=400, num_held_out=200)
    assert len(set(texts.train)) == 400
    assert not set(texts.new_sentences) & set(texts.train)
    assert words_of(texts.new_sentences) <= words_of(texts.train)
    assert words_of(texts.new_words) == held_out_words()
    assert len(set(texts.new_words)) == 200


def test_another_seed_draws_other_sentences():
    first, second = (
        demo_sentences.draw_texts(seed=seed, num_sentences=100, num_held_out=5) for seed in (0, 1)
    )
    assert first != second


@pytest.mark.parametrize(
    "settings",
    [
        {"sentences": 10},
        {"held_out": -1},
        {"voices": 0},
        {"voices": 5},
        {"voices": []},
        {"voices": [demo.DemoVoice("../f2", "en-us+f2")]},
        {"voices": [demo.DemoVoice("a", "en-us"), demo.DemoVoice("a", "en-us+f2")]},
    ],
)
def test_settings_that_cannot_be_met_are_refused_before_anything_is_written(tmp_path, settings):
    with pytest.raises(DataError):
        demo.make_demo_corpus(tmp_path / "corpus", **settings)
    assert not list(tmp_path.iterdir())


@needs_espeak
def test_smallest_corpus_covers_the_phonemes_of_general_american():
    texts = demo_sentences.draw_texts(seed=0, num_sentences=SMALL["sentences"], num_held_out=0)
    spoken = " ".join(espeak.phonemize(text, "en-us") for text in texts.train)
    spoken = spoken.replace("ˈ", "").replace("ˌ", "")
    for affricate_or_diphthong in sorted(GENERAL_AMERICAN, key=len, reverse=True):
        assert affricate_or_diphthong in spoken
        spoken = spoken.replace(affricate_or_diphthong, "-")  # tʃ must not count as t and ʃ


@needs_espeak
def test_held_out_words_use_no_symbol_that_training_lacks():
    texts = demo_sentences.draw_texts(seed=0, num_sentences=SMALL["sentences"], num_held_out=40)
    heard = set("".join(espeak.phonemize(text, "en-us") for text in texts.train))
    assert set("".join(espeak.phonemize(text, "en-us") for text in texts.new_words)) <= heard


@needs_espeak
def test_words_of_a_slot_sound_different():
    for slot, words in demo_sentences.SLOTS.items():
        alternatives = words + demo_sentences.HELD_OUT_SLOTS[slot]
        assert len({espeak.phonemize(word, "en-us") for word in alternatives}) == len(alternatives)


# The folder


@needs_espeak
def test_manifests_list_every_clip_and_nothing_else(corpus):
    listed = set()
    for name in (demo.TRAIN_MANIFEST, demo.NEW_SENTENCES_MANIFEST, demo.NEW_WORDS_MANIFEST):
        rows = read_manifest(corpus.folder / name)
        assert {row["language"] for row in rows} == {"en"}
        assert {row["speaker_name"] for row in rows} == set(corpus.speakers)
        listed |= {(corpus.folder / name).parent / row["audio_file"] for row in rows}
    assert listed == set(corpus.folder.rglob("*.wav"))
    assert corpus.num_clips == SMALL["sentences"]
    assert corpus.num_held_out == 2 * SMALL["held_out"]
    assert len(listed) == corpus.num_clips + corpus.num_held_out


@needs_espeak
def test_clips_are_short_mono_22050_and_equally_loud(corpus):
    seconds = 0.0
    for row in read_manifest(corpus.folder / demo.TRAIN_MANIFEST):
        path = corpus.folder / row["audio_file"]
        info = soundfile.info(str(path))
        assert (info.samplerate, info.channels, info.subtype) == (22050, 1, "PCM_16")
        assert 1.0 < info.duration < 3.0
        samples = soundfile.read(path)[0]
        assert np.max(np.abs(samples)) <= 0.951
        assert np.sqrt(np.mean(samples**2)) == pytest.approx(0.1, abs=0.015)
        seconds += info.duration
    assert corpus.seconds == pytest.approx(seconds, abs=0.01)


@needs_espeak
def test_same_seed_gives_the_same_bytes_in_another_process(corpus, tmp_path):
    code = (
        "from pathlib import Path; from myxtts.corpora import demo; from myxtts.text import espeak;"
        "espeak.speak('Something else first.', voice='en-us+m3', rate=300);"
        f"demo.make_demo_corpus(Path({str(tmp_path / 'again')!r}), **{SMALL!r})"
    )
    root = str(Path(demo.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert content(tmp_path / "again") == content(corpus.folder)


@needs_espeak
def test_a_finished_corpus_is_reused_without_speaking(corpus, monkeypatch):
    monkeypatch.setattr(espeak, "speak", None)
    again = demo.make_demo_corpus(corpus.folder, **SMALL)
    assert again.reused
    assert not corpus.reused
    assert (again.num_clips, again.seconds) == (corpus.num_clips, corpus.seconds)


@needs_espeak
def test_single_voice_and_progress(tmp_path):
    told = []
    summary = demo.make_demo_corpus(
        tmp_path / "deep" / "corpus",
        voices=1,
        sentences=SMALL["sentences"],
        held_out=0,
        progress=lambda done, total: told.append((done, total)),
    )
    assert summary.speakers == ("f2",)
    assert told == [(done, summary.num_clips) for done in range(1, summary.num_clips + 1)]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["corpus"]


@needs_espeak
def test_other_settings_and_lost_clips_are_refused(corpus, tmp_path):
    with pytest.raises(DataError, match="other settings"):
        demo.make_demo_corpus(corpus.folder, **SMALL, seed=1)
    folder = tmp_path / "corpus"
    settings = {"voices": 1, "sentences": SMALL["sentences"], "held_out": 0}
    demo.make_demo_corpus(folder, **settings)
    next(folder.glob("wavs/*.wav")).unlink()
    with pytest.raises(DataError, match="gone"):
        demo.make_demo_corpus(folder, **settings)


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="something else"):
        demo.make_demo_corpus(tmp_path)
    with pytest.raises(DataError, match="is a file"):
        demo.make_demo_corpus(tmp_path / "notes.txt")
    (tmp_path / demo.SETTINGS_FILE).write_text(json.dumps([1]))
    with pytest.raises(DataError, match="cannot be read"):
        demo.make_demo_corpus(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_the_current_folder_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="current folder"):
        demo.make_demo_corpus(Path())


def test_a_failure_half_way_leaves_nothing(tmp_path, monkeypatch):
    spoken = []

    def speak(text, **_):
        spoken.append(text)
        if len(spoken) == 5:
            raise OSError(28, "No space left on device")
        return np.ones(2205, np.int16), 22050

    monkeypatch.setattr(espeak, "speak", speak)
    with pytest.raises(DataError, match="No space left"):
        demo.make_demo_corpus(tmp_path / "corpus", **SMALL)
    assert not list(tmp_path.iterdir())


def test_leftovers_of_killed_runs_are_removed_and_young_ones_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(espeak, "speak", lambda text, **_: (np.ones(4410, np.int16), 44100))
    monkeypatch.setattr(espeak, "library_version", lambda: "none")
    old, young = tmp_path / ".corpus.partial-old", tmp_path / ".corpus.partial-young"
    old.mkdir()
    young.mkdir()
    os.utime(old, times=(time.time() - 7200,) * 2)
    summary = demo.make_demo_corpus(tmp_path / "corpus", **SMALL)
    assert {path.name for path in tmp_path.iterdir()} == {"corpus", young.name}
    assert summary.seconds == pytest.approx(0.1 * summary.num_clips)  # 44 100 Hz was resampled


# espeak-ng itself


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    monkeypatch.setattr(espeak, "_library", None)
    with pytest.raises(DataError, match=re.escape("pip install espeakng-loader")):
        espeak.phonemize("hello", "en-us")
    assert not espeak.is_available()


@needs_espeak
def test_phonemes_carry_stress_and_length_and_clauses_are_joined():
    assert espeak.phonemize("Good day, three sheep.", "en-us") == "ɡˈʊd dˈeɪ θɹˈiː ʃˈiːp"
    assert "(" not in espeak.phonemize("hello", "fa")  # no "(en)" where the language changes
    assert espeak.phonemize("", "en-us") == espeak.phonemize(" … ", "en-us") == ""


@needs_espeak
def test_text_with_nul_and_lone_surrogates_is_read_to_its_end():
    assert espeak.phonemize("one\0two", "en-us").endswith("tˈuː")
    assert espeak.phonemize("one \ud800 two", "en-us").endswith("tˈuː")


@needs_espeak
@pytest.mark.parametrize("voice", ["xx-yy", "en-us+nobody", "", "en-us+"])
def test_an_unknown_voice_is_named(voice):
    with pytest.raises(DataError, match=re.escape(repr(voice))):
        espeak.phonemize("hello", voice)
    with pytest.raises(DataError, match=re.escape(repr(voice))):
        espeak.speak("hello", voice=voice)


@needs_espeak
def test_a_setting_out_of_range_is_refused_instead_of_clipped():
    with pytest.raises(DataError, match="pitch 101"):
        espeak.speak("hello", voice="en-us", pitch=101)


@needs_espeak
def test_threads_and_history_change_neither_samples_nor_phonemes():
    # Reed draws its breath from libc's rand(), f2 flutters: both remember what came before.
    voices = ["en-us+f2", "en-us+Reed", "de", "en-us+m6"]
    text = "Peter sees three old ships, and smiles."
    expected = {
        voice: (espeak.phonemize(text, voice), speak_bytes(text, voice)) for voice in voices
    }
    different = []

    def work(offset):
        for turn in range(8):
            voice = voices[(turn + offset) % len(voices)]
            espeak.speak("Noise in between.", voice=voices[turn % 3], rate=250, pitch=80)
            if (espeak.phonemize(text, voice), speak_bytes(text, voice)) != expected[voice]:
                different.append(voice)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not different


def speak_bytes(text, voice):
    samples, sample_rate = espeak.speak(text, voice=voice)
    assert sample_rate == 22050
    assert samples.dtype == np.int16
    return samples.tobytes()
