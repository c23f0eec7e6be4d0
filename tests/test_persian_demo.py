"""The Persian demo: what its corpus says, that espeak-ng says our phonemes, and its command."""

from __future__ import annotations

import re

import numpy as np
import pytest
import typer

from benchmarks import persian_speech
from myxtts.cli import demo as command
from myxtts.corpora import demo
from myxtts.corpora.base_texts import sentences_of
from myxtts.corpora.demo_sentences import draw_texts
from myxtts.corpora.persian_sentences import PERSIAN
from myxtts.data.manifests import read_manifest
from myxtts.errors import DataError
from myxtts.text import espeak
from myxtts.text.persian.lexicon import own_words, package_words
from myxtts.text.persian.phonemes import to_espeak, to_ipa
from myxtts.text.recital import persian_for_espeak, recite
from myxtts.text.tokenizers import PhonemeTokenizer, read_words
from tests.support import run_python

needs_espeak = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng is not installed")
needs_tagger = pytest.mark.skipif(
    not package_words(), reason="gruut-lang-fa is not installed: pip install gruut-lang-fa"
)


def words_of(sentences):
    return set(re.findall(r"[^\W\d_]+(?:\u200c[^\W\d_]+)*", " ".join(sentences)))


# What is said


def test_slots_hold_words_that_sound_different_and_are_in_the_tables():
    assert list(PERSIAN.slots) == list(PERSIAN.held_out_slots)
    for slot, words in PERSIAN.slots.items():
        alternatives = words + PERSIAN.held_out_slots[slot]
        assert (len(words), len(alternatives)) == (24, 32)
        read = [read_words(word, "fa")[0] for word in alternatives]
        assert len({word.reading for word in read}) == len(alternatives)
        assert not [word.text for word in read if word.source == "guess"]


def test_held_out_words_are_new_to_the_corpus_and_to_the_base_voice():
    texts = draw_texts(num_sentences=400, num_held_out=40, seed=0, vocabulary=PERSIAN)
    held_out = {word for words in PERSIAN.held_out_slots.values() for word in words}
    assert words_of(texts.new_words) <= held_out
    assert not held_out & words_of([*texts.train, *sentences_of("fa")])
    assert {word for words in PERSIAN.slots.values() for word in words} <= words_of(texts.train)


@needs_espeak
@needs_tagger
def test_nearly_every_thing_has_its_ezafe_and_nobody_else():
    texts = draw_texts(num_sentences=400, num_held_out=0, seed=0, vocabulary=PERSIAN)
    read = [read_words(text, "fa") for text in texts.train if text not in PERSIAN.everyday]
    marked = np.array([[word.ezafe for word in words[:5]] for words in read])
    assert marked[:, 2].mean() > 0.97
    assert not np.delete(marked, 2, axis=1).any()


@needs_espeak
def test_new_words_use_no_sound_that_training_lacks():
    texts = draw_texts(
        num_sentences=PERSIAN.min_sentences, num_held_out=40, seed=0, vocabulary=PERSIAN
    )
    tokenizer = PhonemeTokenizer()
    heard = set("".join(tokenizer.transcribe(text, "fa") for text in texts.train))
    assert set("".join(tokenizer.transcribe(t, "fa") for t in texts.new_words)) <= heard


# How it is said


def test_espeak_has_a_name_for_every_sound_of_the_tables():
    for word, reading in own_words().items():
        assert to_espeak(to_ipa(reading, silent_h=word.endswith("ه"))) is not None
    assert to_espeak("θɪs") is None


@needs_espeak
@needs_tagger
def test_persian_is_handed_over_as_phonemes_with_the_ezafe():
    assert persian_for_espeak("کتابِ من، خانه؟") == "[[ket'Abe]] [[m'an]], [[xAn'e:]]?"
    assert persian_for_espeak("مریم سه کتاب قدیمی خرید.").split()[2] == "[[ket'Abe]]"
    assert persian_for_espeak("سلام hello") == "[[sal'Am]] hello"


@needs_espeak
def test_the_same_phonemes_are_the_same_samples_and_an_ezafe_is_heard():
    own, _ = espeak.speak("قلم.", voice="fa+f2")
    named, _ = espeak.speak("[[q1al'am]].", voice="fa+f2", brackets=True)
    assert own.tobytes() == named.tobytes()
    letters, _ = espeak.speak("[[q1al'am]].", voice="fa+f2")
    assert letters.tobytes() != named.tobytes()
    recited, _ = recite("کتابِ بزرگ.", voice="fa")
    by_itself, _ = espeak.speak("کتاب بزرگ.", voice="fa")
    assert len(recited) > len(by_itself) + 500


@needs_espeak
def test_other_languages_are_read_by_espeak_itself():
    texts = {"en-us+f2": "Two [[ old ]] ships.", "de": "Zwei Schiffe."}
    for voice, text in texts.items():
        assert (
            recite(text, voice=voice)[0].tobytes() == espeak.speak(text, voice=voice)[0].tobytes()
        )


# The corpus and the command


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("persian") / "corpus"
    settings = {"voices": 1, "sentences": PERSIAN.min_sentences, "held_out": 4}
    return demo.make_demo_corpus(folder, **settings, language="fa").folder


@needs_espeak
def test_the_corpus_is_persian_and_another_one_than_the_english(corpus):
    clips = list(read_manifest(corpus / demo.TRAIN_MANIFEST))
    assert {clip.language for clip in clips} == {"fa"}
    assert len(clips) == PERSIAN.min_sentences
    with pytest.raises(DataError, match="other settings"):
        demo.make_demo_corpus(corpus, voices=1, sentences=PERSIAN.min_sentences, held_out=4)
    with pytest.raises(DataError, match="no demo corpus in 'ja'"):
        demo.make_demo_corpus(corpus, language="ja")


@needs_espeak
def test_what_is_said_and_typed_in_the_end_is_persian(corpus, tmp_path):
    sayings = command._held_out(corpus, many=False)
    assert {saying.language for saying in sayings} == {"fa"}
    assert sayings[0].by_base().name == f"base_{sayings[0].name}"
    typed = command._speaking_command(
        tmp_path / "run", corpus, tmp_path / "mine.wav", language="fa", many=False
    )
    assert "--language fa" in typed
    assert read_words(command.TO_TYPE["fa"], "fa")[2].reading == "ketâb-e"


def test_a_language_without_a_demo_is_refused():
    assert list(command.TO_TYPE) == list(demo.VOCABULARIES)
    with pytest.raises(typer.BadParameter, match="one of en, fa"):
        command._read_language("de")


@needs_espeak
@needs_tagger
def test_the_judge_takes_away_the_ezafe_and_nothing_else():
    text = "داوود شش خانه زرد داد."
    assert persian_speech.without_ezafe(text) == persian_for_espeak(text).replace("eje]]", "e]]")
    changed = persian_speech.with_other_words(text, persian_speech.random.Random(0))
    assert [len(set(place) - {text}) for place in changed] == [persian_speech.OTHERS] * 5


@needs_espeak
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_minute_of_the_persian_demo_ends_well(tmp_path):
    result = run_python(
        [
            "-m",
            "myxtts",
            "demo",
            "--language",
            "fa",
            "--minutes",
            "1",
            "--output-dir",
            str(tmp_path),
        ],
        timeout=900,
    )
    assert result.returncode == 0, result.stderr
    assert "What the base voice says before any training" in result.stdout
    assert len(list((tmp_path / "speech").glob("*.wav"))) == 5
