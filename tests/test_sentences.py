"""Where text is cut: sentences stay whole, and what is too long finds its best gap."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.errors import ConfigError, DataError
from myxtts.inference.script import PAUSES, Delivery, write_script, write_utterance
from myxtts.text.sentences import cut_in_two, split_sentences
from myxtts.text.tokenizers import CharacterTokenizer

# Each sentence ends at a bar.
ENGLISH = [
    "Hello there.|How are you?|Fine!",
    "Dr. Smith met Mrs. Jones at 5 p.m. on St. James St. yesterday.|They left.",
    "It costs 3.14 dollars, i.e. $3.14, in the U.S. Army.|Cheap.",
    "We met at 5 p.m.|He left at 6 a.m.|So it was.",
    "J. F. Kennedy was born in 1917.|He was 43.|Then he won.",
    "See No. 5 and Fig. 3 on p. 12.|No.|That is all.",
    "Wait... what?|Really?!|Yes… maybe.",
    '"Is it you?" he asked.|"It is."|She smiled.|(She did.)|Good.',
    "Visit example.com today.|Version 1.2.14 is out.",
    "1. First we cut.|2. Then we join.",
    "Acme Inc. is here.|Apples, pears, etc. are sold.|Nothing else.",
    "It was I.|He agreed.",
    "No mark at the end",
]
OTHERS = [
    ("fa", "سلام.|حال شما چطور است؟|خوبم!|شما؟|قیمت ۳٫۵ تومان است."),
    ("fa", "آمد.|رفت؟|نه!|بله۔|تمام"),
    ("ar", "كيف حالك؟|أنا بخير."),
    ("zh-cn", "你好。|你好吗？|很好！|他说：“走吧。”|好"),
    ("ja", "今日は。|「元気ですか？」|はい。"),
    ("hi", "नमस्ते।|आप कैसे हैं?|ठीक।"),
    ("de", "Am 3. Oktober kam Hr. Meier, z.B. mit dem Zug.|Er blieb bis 1990.|Dann ging er."),
    ("es", "¿Cómo está, Sr. García?|¡Bien!|Gracias."),
    ("fr", "M. Dupont est là.|« Oui. »|Merci."),
    ("ru", "Это дом им. Горького.|Да."),
]


@pytest.mark.parametrize(
    ("language", "marked"), [("en", text) for text in ENGLISH] + OTHERS, ids=lambda text: text[:20]
)
def test_sentences_end_where_a_reader_would_stop(language, marked):
    wanted = marked.split("|")
    spaces = [""] if language in ("zh-cn", "ja") else ["", " "] if language == "ar" else [" "]
    for space in spaces:
        sentences = split_sentences(space.join(wanted), language)
        assert [sentence.text for sentence in sentences] == wanted


@pytest.mark.parametrize("gap", ["\n\n", "\r\n\r\n", "\n \t\n\n", "\u2029"])
def test_an_empty_line_ends_a_paragraph_and_a_line_break_does_not(gap):
    sentences = split_sentences(f"One line\nand its end. Two.{gap}Three")
    assert [tuple(sentence) for sentence in sentences] == [
        ("One line and its end.", False),
        ("Two.", True),
        ("Three", True),
    ]


@pytest.mark.parametrize("text", ["", "  \n\n \t"])
def test_nothing_has_no_sentences(text):
    assert split_sentences(text) == []


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet=" \n.!?…,;:\"')ab.BI3؟。，—é\u0301", max_size=40))
def test_no_character_is_lost_whatever_the_text(text):
    joined = "".join("".join(sentence.text for sentence in split_sentences(text)).split())
    assert joined == "".join(text.split())
    if parts := cut_in_two(text):
        first, second, _ = parts
        assert "".join((first + second).split()) == "".join(text.split())
        assert len(first) < len(text)
        assert len(second) < len(text)


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        ("a, bb cc, dd ee ff, g", ("a, bb cc,", "dd ee ff, g", "clause")),
        ("one two three four", ("one two", "three four", "word")),
        ("1,5 2,5", ("1,5", "2,5", "word")),  # a decimal comma is no clause
        ("是的，我们走吧", ("是的，", "我们走吧", "clause")),
        ("abcdef", ("abc", "def", "character")),
        ("ae\u0301", ("ae\u0301", "", "character")),
        ("a", None),
    ],
)
def test_a_cut_is_made_at_the_best_gap_nearest_the_middle(sentence, wanted):
    found = cut_in_two(sentence)
    assert found == (wanted if wanted and wanted[1] else None)


def script(text, *, longest=60, language="en"):
    tokenizer = CharacterTokenizer()
    return write_script(text, tokenizer=tokenizer, language=language, max_text_length=longest).lines


def test_lines_are_sentences_with_longer_pauses_between_paragraphs():
    lines = script("One. Two!\n\n* * *\n\nThree?")
    assert [line.text for line in lines] == ["One.", "Two!", "Three?"]
    assert [line.pause for line in lines] == [PAUSES["sentence"], PAUSES["paragraph"], 0.0]


@pytest.mark.parametrize("longest", [12, 25, 60])
def test_every_line_fits_the_model_and_the_words_stay_in_order(longest):
    text = "This sentence, which is long; has clauses and words, supercalifragilistic. Short one. "
    lines = script(text * 3, longest=longest)
    assert max(len(line.ids) for line in lines) <= longest
    assert "".join(line.text for line in lines).replace(" ", "") == (text * 3).replace(" ", "")


def test_a_long_sentence_is_cut_at_its_clauses_before_its_words():
    lines = script("Seven words are in here, and seven words are in there.", longest=40)
    assert [line.text for line in lines] == [
        "Seven words are in here,",
        "and seven words are in there.",
    ]
    assert lines[0].pause == PAUSES["clause"]
    assert 0 < PAUSES["word"] < PAUSES["clause"] < PAUSES["sentence"] < PAUSES["paragraph"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" \n ", "The text is empty"),
        ("... !", "nothing this voice can say in '... !'"),
        ("سلام", "is in Arabic script"),
    ],
)
def test_a_text_without_words_is_refused(text, message):
    with pytest.raises(DataError, match=message):
        script(text)


def test_a_number_that_grows_too_long_is_refused_in_the_end():
    with pytest.raises(DataError, match="'7' has 7 symbols, and the voice was trained with 5"):
        script("7", longest=5)


def test_an_utterance_is_one_line_or_an_error():
    tokenizer = CharacterTokenizer()
    arguments = {"tokenizer": tokenizer, "language": "en", "max_text_length": 20}
    assert write_utterance("One. Two.", **arguments).text == "One. Two."
    with pytest.raises(DataError, match="trained with 20 at most"):
        write_utterance("One. Two. Three. Four.", **arguments)
    with pytest.raises(DataError, match="nothing to say"):
        write_utterance("...", **arguments)


@pytest.mark.parametrize(
    ("speed", "pitch_shift"), [(0.2, 0), (5, 0), (float("nan"), 0), (1, 25), (1, float("nan"))]
)
def test_a_delivery_nobody_can_give_is_refused(speed, pitch_shift):
    with pytest.raises(ConfigError):
        Delivery("en", speed=speed, pitch_shift=pitch_shift)
