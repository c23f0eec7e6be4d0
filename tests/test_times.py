"""When each word is said: found for every word, in order, inside its sentence, in three formats."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from myxtts.errors import ConfigError
from myxtts.inference.times import Sentence, Span, check_times_file, render_times
from myxtts.text import espeak
from myxtts.text.places import place_words, split_words
from myxtts.text.tokenizers import CharacterTokenizer, PhonemeTokenizer
from tests.small_voice import small_voice

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng reads the words")

PHONEMES = PhonemeTokenizer()
HEARD = (
    "Alice borrows twelve dark bottles.",
    "The weather was lovely this morning.",
    "The old lighthouse keeper counted seven bright ships at noon.",
    "Thomas sees ninety red houses.",
)


def said(text: str, language: str = "en", tokenizer=PHONEMES) -> dict[str, str]:
    ids = tokenizer.encode(text, language)
    places = place_words(split_words(text), ids, tokenizer=tokenizer, language=language)
    return {p.word: tokenizer.decode(ids[p.begin : p.end]) for p in places}


def test_words_that_are_said_as_one_are_told_apart():
    assert said("One of the men") == {"One": "wˈʌn", "of": "ʌv", "the": "ðə", "men": "mˈɛn"}


def test_a_number_is_one_word_however_many_are_said():
    found = said("In 1984 it was 3:30.")
    assert found["1984"] == "nˈaɪntiːn ˈeɪɾifˈɔːɹ"
    assert found["3:30."] == "θɹˈiː θˈɜːɾi"


def test_persian_words_keep_their_ezafe():
    assert said("کتاب من اینجاست", "fa")["کتاب"] == "ketˈɑbe"


def test_scripts_without_gaps_are_timed_by_character():
    assert list(said("我喜欢你。", "zh-cn")) == ["我", "喜", "欢", "你。"]


def test_letters_are_placed_too():
    tokenizer = CharacterTokenizer()
    assert said("Two 2 (too)!", tokenizer=tokenizer) == {"Two": "Two", "2": "two", "(too)!": "too"}


def test_marks_alone_join_the_word_before():
    assert split_words("Well — yes ... no") == ["Well—", "yes...", "no"]


TEXT = "Hello there, {Nguyen|/wˈɪn/}. It is 5 o'clock.\n\nGood bye."


@pytest.fixture(scope="module")
def chunks():
    voice = small_voice()
    return list(voice.stream_timed(TEXT, voice=voice.files.voices["default"]))


def test_every_word_has_its_time_in_order_and_within_its_chunk(chunks):
    rate, begun = small_voice().sample_rate, 0.0
    words = [word for chunk in chunks for word in chunk.sentence.words]
    expected = "Hello there Nguyen It is 5 o'clock Good bye"
    assert [word.text for word in words] == expected.split()
    for chunk in chunks:
        end = begun + len(chunk.wave) / rate
        edges = [edge for word in chunk.sentence.words for edge in (word.start, word.end)]
        assert edges == sorted(edges)
        assert begun <= edges[0] < edges[-1] <= end
        begun = end


def test_times_change_nothing_of_the_audio(chunks):
    voice = small_voice()
    plain = voice.say(TEXT, voice=voice.files.voices["default"])
    np.testing.assert_array_equal(plain, np.concatenate([chunk.wave for chunk in chunks]))


def test_twice_the_speed_is_half_the_time():
    voice = small_voice()
    slow, fast = (
        list(voice.stream_timed("One two three.", voice=voice.files.voices["default"], speed=s))
        for s in (0.5, 2.0)
    )
    # Tokens of few frames are rounded up, so it is not quite four times.
    assert slow[0].sentence.end > 2.0 * fast[0].sentence.end


SENTENCES = [
    Sentence("One <two>.", 0.0, 1.25, (Span("One", 0.0, 0.5), Span("<two>", 0.75, 1.25))),
    Sentence("Three --> four.", 3661.5, 3662.0, ()),
]


def test_json_holds_words_and_sentences():
    found = json.loads(render_times(SENTENCES, "json"))
    assert found["words"][1] == {"text": "<two>", "start": 0.75, "end": 1.25}
    assert found["sentences"][1]["start"] == 3661.5


def test_subtitles_are_as_players_read_them():
    srt = render_times(SENTENCES, "srt")
    assert srt.startswith("1\n00:00:00,000 --> 00:00:01,250\nOne <two>.\n\n2\n01:01:01,500 -->")
    assert "Three → four." in srt
    vtt = render_times(SENTENCES, "vtt")
    assert vtt.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.250\n<00:00:00.000>One ")
    assert "&lt;two&gt;" in vtt
    assert re.search(r"^Three → four\.$", vtt, re.MULTILINE)


def test_the_name_of_the_file_says_what_it_holds(tmp_path):
    assert check_times_file(tmp_path / "a.SRT") == "srt"
    with pytest.raises(ConfigError, match="unclear"):
        check_times_file(tmp_path / "a.txt")


@pytest.mark.slow
def test_words_begin_where_a_recogniser_finds_them():
    pocketsphinx = pytest.importorskip("pocketsphinx")
    import soxr

    from myxtts.base import base_folder, base_sizes
    from myxtts.inference.synthesizer import Synthesizer

    off = []
    for size in base_sizes():
        base = Synthesizer.load(base_folder(size))
        voice = base.listen([espeak.speak(text, voice="en-us+f2") for text in HEARD])
        for text in HEARD:
            (chunk,) = base.stream_timed(text, voice=voice)
            wave = soxr.resample(chunk.wave, base.sample_rate, 16_000)
            noise = np.random.default_rng(0).normal(size=len(wave) + 6400) * 1e-4
            wave = np.pad(0.6 * wave / np.abs(wave).max(), 3200) + noise  # 0.2 s at both ends
            words = chunk.sentence.words
            decoder = pocketsphinx.Decoder(loglevel="FATAL")
            decoder.set_align_text(" ".join(word.text.lower() for word in words))
            decoder.start_utt()
            decoder.process_raw((wave * 32767).astype(np.int16).tobytes(), full_utt=True)
            decoder.end_utt()
            found = [s.start_frame / 100 - 0.2 for s in decoder.seg() if s.word[0] not in "<["]
            off += [word.start - start for word, start in zip(words, found, strict=True)]
    assert np.median(np.abs(off)) < 0.035
    assert np.mean(np.abs(off) <= 0.05) > 0.9
