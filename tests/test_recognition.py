"""The judge of intelligibility: it hears what was said, and cannot be talked into anything else."""

import random
import re
import sys
import types

import numpy as np
import pytest

from benchmarks import intelligibility
from myxtts.corpora import demo, demo_sentences
from myxtts.errors import DataError, MyXTTSError
from myxtts.evaluation.recognition import ClosedSetRecogniser
from myxtts.text import espeak

SLOTS = demo_sentences.SLOTS
VOICES = {voice.name: voice for voice in demo.DEMO_VOICES}
SENTENCES = demo_sentences.draw_slot_sentences(SLOTS, num_sentences=20, rng=random.Random(1))


@pytest.fixture(scope="module")
def recogniser():
    pytest.importorskip("pocketsphinx", reason="needs pip install pocketsphinx")
    return intelligibility.make_recogniser()


@pytest.fixture(scope="module")
def speech():
    if not espeak.is_available():
        pytest.skip("espeakng-loader is not installed: pip install espeakng-loader")
    return {
        (name, sentence): intelligibility.speak_original(sentence, VOICES[name])
        for name in ("f2", "m6")
        for sentence in SENTENCES
    }


@pytest.mark.parametrize("voice", ["f2", "m6"])
def test_original_audio_is_understood_and_is_not_another_sentence(recogniser, speech, voice):
    heard = [recogniser.words(*speech[voice, sentence]) for sentence in SENTENCES]
    right = [recogniser.compare(*pair) for pair in zip(heard, SENTENCES, strict=True)]
    others = SENTENCES[1:] + SENTENCES[:1]
    wrong = [recogniser.compare(*pair) for pair in zip(heard, others, strict=True)]
    assert np.mean(right) >= 0.95
    assert np.mean(wrong) <= 0.1


@pytest.mark.parametrize(
    "wave",
    [
        np.random.default_rng(0).normal(size=44_100),
        np.zeros(44_100),
        np.zeros(0),
        np.full(44_100, np.nan),
        np.ones(1),
        np.sin(np.arange(44_100) * 2 * np.pi * 200 / 22_050),
    ],
    ids=["noise", "silence", "nothing", "not a number", "a click", "a tone"],
)
def test_what_is_no_speech_scores_nothing(recogniser, wave):
    assert recogniser.score(wave, 22_050, SENTENCES[0]) == 0


def test_what_was_heard_before_changes_nothing(recogniser, speech):
    # Words are too coarse to show a leak: compare how well each of them fitted.
    def verdict(recogniser, key):
        recogniser.words(*speech[key])
        hypothesis = recogniser._decoder.hyp()
        return hypothesis.hypstr, hypothesis.best_score, hypothesis.prob

    keys = [("f2", SENTENCES[0]), ("m6", SENTENCES[1]), ("f2", SENTENCES[2])]
    expected = [verdict(intelligibility.make_recogniser(), key) for key in keys]
    noise = np.random.default_rng(0).normal(size=22_050)
    for order in ([0, 1, 2], [2, 1, 0], [1, 1, 0]):
        for index in order:
            assert verdict(recogniser, keys[index]) == expected[index]
        recogniser.words(noise, 22_050)


def test_level_and_number_format_do_not_matter(recogniser, speech):
    samples, rate = speech["f2", SENTENCES[0]]
    heard = recogniser.words(samples, rate)
    assert heard == recogniser.words(samples.astype(np.float32) / 32768 * 0.01, rate)
    assert recogniser.compare(heard, SENTENCES[0]) == 1


def test_a_missing_or_additional_word_scores_nothing(recogniser):
    words = SENTENCES[0].rstrip(".").lower().split()
    assert recogniser.compare(words, SENTENCES[0]) == 1
    assert recogniser.compare(["nobody", *words[1:]], SENTENCES[0]) == 0.8
    assert recogniser.compare(words[:4], SENTENCES[0]) == 0
    assert recogniser.compare([*words, "ships"], SENTENCES[0]) == 0
    assert recogniser.compare([], SENTENCES[0]) == 0


@pytest.mark.parametrize("sentence", ["Peter sees three old.", "Peter sees three old sheep.", ""])
def test_a_sentence_outside_the_slots_is_refused(recogniser, sentence):
    with pytest.raises(DataError, match=re.escape(repr(sentence))):
        recogniser.compare([], sentence)


@pytest.mark.usefixtures("recogniser")
def test_a_word_that_the_dictionary_lacks_is_named(capfd):
    with pytest.raises(DataError, match="'xttsword'"):
        ClosedSetRecogniser([["two", "three"], ["ships", "XTTSword"]])
    assert capfd.readouterr() == ("", "")  # pocketsphinx's log would fill a screen


def test_a_slot_without_words_is_refused():
    with pytest.raises(DataError, match="no words"):
        ClosedSetRecogniser([["two"], []])


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    with pytest.raises(MyXTTSError, match=re.escape("pip install pocketsphinx")):
        ClosedSetRecogniser([["two", "three"]])


# The benchmark, with a stand-in for the model


class Parrot:
    """Speaks with espeak-ng in the voice that the references are named after, or says `only`."""

    sample_rate = 22_050

    def __init__(self, only=None):
        self.only = only
        self.texts, self.references = [], []

    def speak(self, texts, *, references, language, seed):
        (name,) = {path.stem.rpartition("_")[2] for path in references}
        assert language == "en"
        assert all("heldout" in path.parts and path.is_file() for path in references)
        self.texts += texts
        self.references += references
        return [
            intelligibility.speak_original(self.only or text, VOICES[name])[0] / np.float32(32768)
            for text in texts
        ]


@pytest.fixture(scope="module")
def corpus_folder(tmp_path_factory):
    if not espeak.is_available():
        pytest.skip("espeakng-loader is not installed: pip install espeakng-loader")
    folder = tmp_path_factory.mktemp("run") / "corpus"
    demo.make_demo_corpus(
        folder, voices=2, sentences=demo_sentences.MIN_SENTENCES, held_out=4, seed=0
    )
    return folder


@pytest.fixture(scope="module")
def corpus(corpus_folder):
    return intelligibility.read_corpus(corpus_folder)


@pytest.mark.usefixtures("recogniser")
def test_benchmark_passes_a_speaker_that_says_the_texts(corpus, capsys):
    parrot = Parrot()
    assert intelligibility.run(parrot, corpus, num_sentences=5, num_seeds=2)
    printed = capsys.readouterr().out
    for row in ("seed 0", "seed 1", "voice f2", "voice m6", "mean"):
        assert row in printed
    assert "MISSED" not in printed
    assert len(set(parrot.texts)) == len(parrot.texts) == 2 * 2 * 5
    assert not set(parrot.texts) & corpus.texts


@pytest.mark.usefixtures("recogniser")
@pytest.mark.parametrize(("only", "exit_code", "missed"), [(None, 0, 0), (SENTENCES[0], 1, 2)])
def test_benchmark_exits_with_its_verdict(
    corpus_folder, monkeypatch, capsys, only, exit_code, missed
):
    module = types.ModuleType("synthesizer")
    module.Synthesizer = types.SimpleNamespace(load=lambda run_dir: Parrot(only=only))
    monkeypatch.setitem(sys.modules, "myxtts.inference.synthesizer", module)
    arguments = [str(corpus_folder.parent / "run"), "--sentences", "2", "--seeds", "1"]
    with pytest.raises(SystemExit) as exit_info:
        intelligibility.main(arguments)
    assert exit_info.value.code == exit_code
    assert capsys.readouterr().out.count("MISSED") == missed


def test_bars_include_their_limits_and_refuse_what_is_no_number():
    assert intelligibility.meets(intelligibility.NEW, 0.90)
    assert not intelligibility.meets(intelligibility.NEW, 0.899)
    assert intelligibility.meets(intelligibility.WRONG, 0.10)
    assert not intelligibility.meets(intelligibility.WRONG, 0.101)
    assert not intelligibility.meets(intelligibility.WRONG, float("nan"))


def test_benchmark_says_what_is_wrong_with_the_corpus(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        intelligibility.main([str(tmp_path / "run")])
    assert "corpus" in capsys.readouterr().err
