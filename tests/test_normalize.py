"""Text becomes speakable, the same each time, in the words of its language and of a lexicon."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.errors import DataError
from myxtts.text.languages import LANGUAGES, check_language
from myxtts.text.lexicon import Lexicon
from myxtts.text.normalize import normalize_text
from myxtts.text.tokenizers import CharacterTokenizer
from tests.test_tokenizers import SENTENCES

# --- Languages -----------------------------------------------------------------------------------


def test_the_xtts_languages_and_persian_are_known():
    assert len(LANGUAGES) == 18
    assert set(SENTENCES) == set(LANGUAGES)
    assert [check_language(tag) for tag in LANGUAGES] == list(LANGUAGES)
    assert check_language(" ZH_CN ") == "zh-cn"


@pytest.mark.parametrize(
    ("tag", "near"),
    [("en-us", "en"), ("zh", "zh-cn"), ("Persian", "fa"), ("farsi", "fa"), ("germann", "de")],
)
def test_an_unknown_language_is_refused_with_the_near_match_and_the_list(tag, near):
    with pytest.raises(DataError) as caught:
        check_language(tag)
    assert repr(tag) in caught.value.problem
    assert caught.value.remedy.startswith(f"{near} ({LANGUAGES[near]})")
    assert "hu" in caught.value.remedy


def test_a_language_like_no_other_still_gets_the_list():
    with pytest.raises(DataError, match="one of en, es"):
        normalize_text("x", "qqq")


# --- Characters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("  two\t words\n\u00a0here ", "two words here"),
        ("“Hello”, ‘he’ said… it’s", "\"Hello\", 'he' said... it's"),
        ("wait--what – or—this", "wait — what — or — this"),
        ("cafe\u0301", "café"),
        ("soft\u00adhyphen\u200b\ufeff\x07 and\ud800", "softhyphen and"),
        ("zero\u200cwidth", "zerowidth"),
        ("Ｗｉｄｅ", "Wide"),
        ("a gap , here !", "a gap, here!"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_characters_are_unified(written, expected):
    assert normalize_text(written, "en") == expected


# --- English -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0 and 42", "zero and forty-two"),
        ("1,234 men", "one thousand two hundred and thirty-four men"),
        ("In 1865, 1900 and 1905", "In eighteen sixty-five, nineteen hundred and nineteen oh five"),
        ("1,865", "one thousand eight hundred and sixty-five"),
        ("1099 2015", "one thousand and ninety-nine two thousand and fifteen"),
        ("3.14 and .5", "three point one four and point five"),
        ("v1.2.13", "v one point two point thirteen"),
        ("agent 007", "agent zero zero seven"),
        ("-5, B52, 5kg", "minus five, B fifty-two, five kg"),
        ("the 1st, 2nd, 23rd", "the first, second, twenty-third"),
        ("the 1860s and '80s", "the eighteen sixties and eighties"),
        ("1914–1918, pp. 10-12", "nineteen fourteen to nineteen eighteen, pages ten to twelve"),
        ("at 10:30 am, 9:05, 5:00", "at ten thirty a.m., nine oh five, five o'clock"),
        ("5 pm, 5:00pm", "five p.m., five p.m."),
        ("#7", "number seven"),
    ],
)
def test_english_numbers_are_spelled_out(written, expected):
    assert normalize_text(written, "en") == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("$5.50", "five dollars and fifty cents"),
        ("$1 or $0.05", "one dollar or five cents"),
        ("£1.01", "one pound and one penny"),
        ("£2,000.10.", "two thousand pounds and ten pence."),
        ("€3 and 4 €", "three euros and four euros"),
        ("$1.5 million", "one point five million dollars"),
        ("$1865", "one thousand eight hundred and sixty-five dollars"),
        ("50%, 2.5 %", "fifty percent, two point five percent"),
    ],
)
def test_english_money_and_percent_are_said_in_order(written, expected):
    assert normalize_text(written, "en") == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Mr. and Mrs. Smith", "Mister and Missus Smith"),
        ("Dr. Gray's", "Doctor Gray's"),
        ("St. Louis", "Saint Louis"),
        ("on Main St. we met", "on Main Street we met"),
        ("on Main St.", "on Main Street."),
        ("No. 5? No.", "Number five? No."),
        ("Smith & Co.", "Smith and Company."),
        ("Smith & Co. The end", "Smith and Company. The end"),
        ("pens, etc., vs. ink, e.g. this", "pens, et cetera, versus ink, for example this"),
        ("so. Stop. Amr. now", "so. Stop. Amr. now"),
    ],
)
def test_english_abbreviations_are_spelled_out(written, expected):
    assert normalize_text(written, "en") == expected


# --- Persian -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("كتاب علي موسى", "کتاب علی موسی"),
        ("ســلام", "سلام"),
        ("فاطمة", "فاطمه"),
        ("دائرة المعارف", "دائرت المعارف"),
        ("خانۀ ما", "خانه\u0654 ما"),
        ("ﷲ ﻼ", "الله لا"),
        ("سلام، خوبی؟", "سلام، خوبی؟"),
    ],
)
def test_persian_letters_take_their_persian_form(written, expected):
    assert normalize_text(written, "fa") == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("۱۲۳ کتاب", "صد و بیست و سه کتاب"),
        ("١٢٣ کتاب", "صد و بیست و سه کتاب"),
        ("123 کتاب", "صد و بیست و سه کتاب"),
        ("سال ۱۴۰۲", "سال هزار و چهارصد و دو"),
        ("۱٬۰۰۰٬۰۰۱", "یک میلیون و یک"),
        ("۲٫۵", "دو ممیز پنج"),
        ("۵۰٪ و ٪۲۰", "پنجاه درصد و بیست درصد"),
        ("-۷", "منفی هفت"),
        ("$۵", "پنج دلار"),
        ("قرن ۲۱ام، ۳۰ام، ۵مین", "قرن بیست و یکم، سی\u200cام، پنجمین"),
        ("۰۹۱۲", "صفر نه یک دو"),
    ],
)
def test_persian_numbers_are_spelled_out(written, expected):
    assert normalize_text(written, "fa") == expected


def test_the_zero_width_non_joiner_stays_only_between_persian_letters():
    assert normalize_text("می\u200cروم", "fa") == "می\u200cروم"
    assert normalize_text("می\u200c\u200cروم", "fa") == "می\u200cروم"
    assert normalize_text("\u200cمی \u200c روم\u200c!", "fa") == "می روم!"


# --- Other languages -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "written", "expected"),
    [
        ("de", "1865: 1.234,5", "achtzehnhundertfünfundsechzig: "
         "eintausendzweihundertvierunddreißig Komma fünf"),
        ("fr", "« 10 000 », 3,5 %", '"dix mille", trois virgule cinq pour cent'),
        ("es", "-21", "menos veintiuno"),
        ("it", "2,5", "due virgola cinque"),
        ("pl", "-5", "minus pięć"),
        ("tr", "%50", "yüzde elli"),
        ("ru", "21 год", "двадцать один год"),
        ("ja", "3時", "三時"),
        ("ar", "٣ كتب", "ثلاثة كتب"),
        ("zh-cn", "3个", "3个"),
        ("hi", "क्\u200dष 5", "क्\u200dष 5"),
    ],
)  # fmt: skip
def test_other_languages_spell_numbers_where_a_library_can(language, written, expected):
    assert normalize_text(written, language) == expected


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {"zh-cn", "hi"}))
@pytest.mark.parametrize("number", ["0", "101", "1999", "20210", "9" * 15, "1" * 16, "00", "-3"])
def test_no_digit_is_left_in_a_language_with_number_words(language, number):
    said = normalize_text(number, language)
    assert said
    assert not any(character.isdigit() for character in said)


_RAW = st.lists(
    st.one_of(
        st.characters(),
        st.sampled_from("0123456789.,-–%$£€#&:'\"() «ةكـ٫٬٪۵ۀ\u200c\u200d\u0301\u00a0"),
        st.sampled_from(
            ["Mr.", "St.", "No. ", "Co.", "1st", "th", "s", " pm", "10:30", "--", "ام"]
        ),
    ),
    max_size=20,
).map("".join)


@settings(max_examples=500, deadline=None)
@given(text=_RAW, language=st.sampled_from(sorted(LANGUAGES)) | st.sampled_from(["en", "fa"]))
def test_normalised_text_is_clean_and_normalises_to_itself(text, language):
    said = normalize_text(text, language)
    assert said == normalize_text(said, language)
    assert said == " ".join(said.split())
    assert unicodedata.is_normalized("NFC", said)
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in said)


# --- Lexicon -------------------------------------------------------------------------------------


def _write(tmp_path, text):
    path = tmp_path / "lexicon.tsv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_lexicon_replaces_whole_words_whatever_their_case(tmp_path):
    path = _write(tmp_path, "\ufeff# names\r\nNguyen\twin\r\n\r\nnew york\tnoo york\nnew\tnyoo\n")
    lexicon = Lexicon.load(path)
    assert lexicon.apply("NGUYEN, Nguyen's and Nguyens") == "win, win's and Nguyens"
    assert lexicon.apply("New York is new; renew") == "noo york is nyoo; renew"


def test_a_contraction_is_a_word_of_its_own():
    assert Lexicon({"don": "dawn", "can": "kan"}).apply("Don can't, don't") == "dawn can't, don't"


def test_a_lexicon_word_matches_as_normalised_text_spells_it():
    tokenizer = CharacterTokenizer(lexicon=Lexicon({"3M": "3 em", "O’Neill": "oneel"}))
    assert tokenizer.transcribe("3M and O'Neill", "en") == "three em and oneel"


def test_a_lexicon_knows_words_with_joiners_and_vowel_signs():
    lexicon = Lexicon({"می\u200cروم": "میرم", "की": "ki"})
    assert lexicon.apply("من می\u200cروم می") == "من میرم می"
    assert lexicon.apply("की कीड़ा") == "ki कीड़ा"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\nno tab here\n", "line 2: 'no tab here' is not word<TAB>pronunciation"),
        ("a\tb\tc\n", "line 1"),
        ("# ok\na\t\n", "line 2"),
        ("a\tb\n#\nA\tc\n", "line 3: 'A' is already on line 1"),
        (b"a\tb\n\xff\tc\n", "line 2: this is not UTF-8"),
    ],
)
def test_a_bad_lexicon_line_is_named_by_its_number(tmp_path, content, message):
    path = _write(tmp_path, content)
    with pytest.raises(DataError) as caught:
        Lexicon.load(path)
    assert message in caught.value.problem


def test_a_missing_lexicon_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        Lexicon.load(tmp_path / "none.tsv")


def test_a_pipe_as_lexicon_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "lexicon.tsv")
    with pytest.raises(DataError, match="no regular file"):
        Lexicon.load(tmp_path / "lexicon.tsv")
