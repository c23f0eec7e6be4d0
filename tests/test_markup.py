"""What a text asks for beside its words is done; what is not supported is named, never read out."""

from __future__ import annotations

import pytest

from myxtts.errors import DataError
from myxtts.inference.script import PAUSES, write_script
from myxtts.text import espeak
from myxtts.text.lexicon import Lexicon
from myxtts.text.markup import parse_markup
from myxtts.text.ssml import STRENGTHS
from myxtts.text.tokenizers import CharacterTokenizer, PhonemeTokenizer

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng reads the words")

PHONEMES = PhonemeTokenizer()


def read(text: str, language: str = "en", lexicon: Lexicon | None = None) -> str:
    marked = parse_markup(text, language)
    tokenizer = marked.tokenizer(PHONEMES, lexicon)
    return " | ".join(
        tokenizer.decode(tokenizer.encode(passage.text, language)) for passage in marked.passages
    )


def script(text: str, **how):
    how = {"tokenizer": PHONEMES, "language": "en", "max_text_length": 200, **how}
    return write_script(text, **how)


def ssml(inside: str):
    return parse_markup(f"<speak>{inside}</speak>", "en")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{Nguyen|/wˈɪn/} came.", "wˈɪn kˈeɪm."),
        ("{Nguyen|w ˈɪ n} came.", "wˈɪn kˈeɪm."),
        ("{Nguyen|win} came.", "wˈɪn kˈeɪm."),
        ("{Nguyen|/wˈɪn/}'s cat.", "wˈɪnz kˈæt."),
    ],
)
def test_a_word_is_said_as_the_text_says(written, said):
    assert read(written) == said


def test_the_same_word_may_be_said_in_two_ways():
    assert read("{read|/ɹˈiːd/} or {read|/ɹˈɛd/}") == "ɹˈiːd ɔːɹ ɹˈɛd"


def test_a_persian_word_too():
    assert "ʔælˈiː" in read("سلام {علی|/ʔælˈiː/} خوبی؟", "fa")


def test_a_lexicon_of_the_request_comes_before_that_of_the_voice():
    own = PhonemeTokenizer(lexicon=Lexicon({"Nguyen": "/aaa/", "Kyiv": "/kˈiːv/"}))
    marked = parse_markup("Nguyen in Kyiv", "en")
    tokenizer = marked.tokenizer(own, Lexicon({"nguyen": "/wˈɪn/"}))
    assert tokenizer.decode(tokenizer.encode("Nguyen in Kyiv", "en")) == "wˈɪn ˈɪn kˈiːv"
    assert own.decode(own.encode("Nguyen", "en")) == "aaa", "the voice's own is as it was"


def test_other_braces_are_text():
    assert parse_markup("{a} {b|} {|c} a|b", "en").said == {}


def test_letters_cannot_be_said_as_ipa():
    with pytest.raises(DataError, match="cannot say 'Nguyen'"):
        parse_markup("{Nguyen|/wˈɪn/}", "en").tokenizer(CharacterTokenizer())


def test_an_error_shows_the_word_and_not_its_stand_in():
    lines = script("{Nguyen|/wˈɪn/} came.", with_words=True).lines
    assert lines[0].text == "Nguyen came."
    assert [place.word for place in lines[0].words] == ["Nguyen", "came."]


def test_breaks_are_pauses():
    lines = script('<speak>One<break time="500ms"/>two <break strength="strong"/> three</speak>')
    assert [(line.text, line.pause) for line in lines.lines] == [
        ("One", 0.5),
        ("two", STRENGTHS["strong"]),
        ("three", 0.0),
    ]
    assert script('<speak>Hi.<break time="2s"/></speak>').lines[0].pause == 2.0


def test_a_marked_sentence_ends_as_every_other_and_a_break_behind_one_is_no_shorter():
    plain, marked = "One. Two.", "<speak><s>One.</s><s>Two.</s></speak>"
    broken = "<speak>One.<break/>Two.</speak>"
    pauses = [script(text).lines[0].pause for text in (plain, marked, broken)]
    assert pauses[0] == pauses[1] == PAUSES["sentence"] <= pauses[2]


def test_prosody_is_of_its_own_words_only():
    text = '<speak>One <prosody rate="50%" pitch="+3st">two three</prosody> four.</speak>'
    (line,) = script(text, with_words=True).lines
    slow = {
        place.word: {line.styles[i] for i in range(place.begin, place.end)} for place in line.words
    }
    assert slow["One"] == slow["four."] == {(1.0, 0.0)}
    assert slow["two"] == slow["three"] == {(0.5, 3.0)}


@pytest.mark.parametrize(
    ("attributes", "style"),
    [
        ('rate="fast"', (1.25, 0.0)),
        ('rate="+20%"', (1.2, 0.0)),
        ('rate="2"', (2.0, 0.0)),
        ('pitch="-100%"', (1.0, 0.0)),
        ('pitch="+100%"', (1.0, 12.0)),
        ('pitch="low"', (1.0, -3.0)),
    ],
)
def test_rates_and_pitches_in_every_spelling(attributes, style):
    (passage,) = ssml(f"<prosody {attributes}>word</prosody>").passages
    assert (passage.styles or ((1.0, 0.0),))[0] == pytest.approx(style)


def test_say_as_spells_and_orders():
    def said(kind: str, text: str) -> str:
        return ssml(f'<say-as interpret-as="{kind}">{text}</say-as>').passages[0].text

    assert said("characters", "ab3") == "A B 3"
    assert said("telephone", "555-12") == "5 5 5 1 2"
    assert said("ordinal", "3") == "third"
    assert said("cardinal", "42") == "42"


def test_phonemes_and_substitutes():
    assert read('<speak><phoneme alphabet="ipa" ph="wˈɪn">Nguyen</phoneme></speak>') == "wˈɪn"
    assert ssml('<sub alias="World Wide Web">WWW</sub>').passages[0].text == "World Wide Web"


@pytest.mark.parametrize(
    ("inside", "named"),
    [
        ("<emphasis>now</emphasis>", "<emphasis>"),
        ('<audio src="x.wav">now</audio>', "<audio>"),
        ('<say-as interpret-as="date">now</say-as>', '<say-as interpret-as="date">'),
        ('<prosody volume="loud">now</prosody>', '<prosody volume="loud">'),
        ('<phoneme alphabet="x-sampa" ph="n">now</phoneme>', '<phoneme alphabet="x-sampa">'),
    ],
)
def test_what_is_not_supported_is_named_and_its_words_are_read(inside, named):
    marked = ssml(inside)
    assert marked.unsupported == [named]
    assert [passage.text for passage in marked.passages] == ["now"]


@pytest.mark.parametrize(
    "text",
    [
        "<speak>unclosed",
        "<speak>a & b</speak>",
        '<!DOCTYPE x [<!ENTITY a "b">]><speak>&a;</speak>',
        "<speak>" + "<p>" * 60 + "deep" + "</p>" * 60 + "</speak>",
        "<speaker>no</speaker>",
    ],
)
def test_what_is_no_ssml_is_refused_in_words(text):
    if not text.startswith("<speak"):
        text = text.replace("<!DOCTYPE", "<speak><!DOCTYPE")
    with pytest.raises(DataError, match=r"SSML|outermost|nested"):
        parse_markup(text, "en")


def test_a_text_without_markup_is_as_it_was():
    marked = parse_markup("a < b and {c} \ue123", "en")
    assert marked.passages[0].text == "a < b and {c}  "
    assert marked.unsupported == []
