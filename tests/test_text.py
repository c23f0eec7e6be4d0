"""Text becomes speakable, the same each time, and no symbol is lost without a word."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.errors import ConfigError, DataError
from myxtts.text import espeak, tokenizers
from myxtts.text.languages import LANGUAGES, check_language
from myxtts.text.lexicon import Lexicon
from myxtts.text.normalize import normalize_text
from myxtts.text.tokenizers import (
    BEGIN_ID,
    END_ID,
    PHONEMES,
    UNKNOWN_ID,
    CharacterTokenizer,
    PhonemeTokenizer,
    Tokenizer,
    make_tokenizer,
    tokenizer_from_dict,
)

needs_espeak = pytest.mark.skipif(
    importlib.util.find_spec("espeakng_loader") is None,
    reason="needs espeak-ng: pip install espeakng-loader",
)

SENTENCES = {
    "en": "The quick brown fox, aged 12, jumps over the lazy dog's measure of choice.",
    "es": "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia; ¿y el niño?",
    "fr": "Voix ambiguë d'un cœur qui, au zéphyr, préfère les jattes de kiwis un brun.",
    "de": "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich, ich auch.",
    "it": "Quel vituperabile xenofobo zelante assaggia il whisky ed esclama: alleluja, gnocchi!",
    "pt": "À noite, vovô Kowalsky vê o ímã cair no pé do pinguim queixoso; não há pão.",
    "pl": "Zażółć gęślą jaźń, pójdźże kiń tę chmurność w głąb flaszy.",
    "tr": "Pijamalı hasta yağız şoföre çabucak güvendi.",
    "ru": "Съешь же ещё этих мягких французских булок, да выпей чаю!",
    "nl": "Pa's wijze lynx bezag vroom het fikse aquaduct; schoon, leuk, huis.",
    "cs": "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "ar": "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر، هل تفهم؟",
    "zh-cn": "你好，世界。我能吞下玻璃而不伤身体！",
    "ja": "いろはにほへと、ちりぬるを。わがよたれぞ、ファン。",
    "hu": "Árvíztűrő tükörfúrógép, gyönyörű nyúl.",
    "ko": "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.",
    "hi": "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश, ठीक है?",
    "fa": "پنج گنج جاویدان ژرف است، چرا غروب می‌آید؟",
}


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


# --- Characters tokenizer ------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_characters_round_trip_in_every_language(language):
    text = SENTENCES[language]
    tokenizer = CharacterTokenizer.from_texts([(text, language)])
    ids = tokenizer.encode(text, language)
    assert (ids[0], ids[-1]) == (BEGIN_ID, END_ID)
    assert UNKNOWN_ID not in ids
    assert max(ids) < tokenizer.vocab_size == len(tokenizer.symbols)
    assert tokenizer.decode(ids) == tokenizer.decode([*ids, 0, 0]) == normalize_text(text, language)


def test_an_unknown_character_is_kept_as_unknown_counted_and_reported_once(caplog):
    tokenizer = CharacterTokenizer()
    with caplog.at_level(logging.WARNING):
        ids = tokenizer.encode("Maß", "de")
        tokenizer.encode("Fuß, süß", "de")
    assert ids[-2] == UNKNOWN_ID
    assert tokenizer.decode(ids) == "Ma\ufffd"
    assert tokenizer.unknown_counts == {"ß": 3, "ü": 1}
    assert [record.getMessage()[:33] for record in caplog.records] == [
        "character 'ß' (U+00DF) is unknown",
        "character 'ü' (U+00FC) is unknown",
    ]


def test_extending_keeps_the_old_ids():
    old = CharacterTokenizer.from_texts([("ба", "ru")])
    new = old.extended(["я", "б", "я"])
    assert new.symbols == (*old.symbols, "я")
    assert new.encode("ба", "ru") == old.encode("ба", "ru")
    assert UNKNOWN_ID not in new.encode("я", "ru")


def test_the_inventory_does_not_depend_on_the_order_of_the_texts():
    texts = [(text, language) for language, text in SENTENCES.items()]
    forward = CharacterTokenizer.from_texts(texts)
    assert forward.symbols == CharacterTokenizer.from_texts(reversed(texts)).symbols


def test_a_tokenizer_survives_json():
    saved = CharacterTokenizer.from_texts([("süß", "de")], lexicon=Lexicon({"Maß": "mas"}))
    loaded = tokenizer_from_dict(json.loads(json.dumps(saved.to_dict())))
    assert isinstance(loaded, Tokenizer)
    assert loaded.symbols == saved.symbols
    assert loaded.encode("Maß süß", "de") == saved.encode("mas süß", "de")


def test_damaged_inventories_and_foreign_ids_are_refused():
    saved = CharacterTokenizer().to_dict()
    for damage in ({"kind": "words"}, {"symbols": ["a"]}, {"symbols": saved["symbols"] + ["a"]}):
        with pytest.raises(DataError):
            tokenizer_from_dict(saved | damage)
    with pytest.raises(DataError, match="the id 9999 is outside"):
        CharacterTokenizer().decode([9999])


def test_ipa_in_the_lexicon_is_refused_by_characters():
    with pytest.raises(DataError, match="IPA for 'Nguyen'"):
        CharacterTokenizer(lexicon=Lexicon({"Nguyen": "/wˈɪn/"}))


# --- Phonemes tokenizer --------------------------------------------------------------------------


@pytest.fixture
def spelled(monkeypatch):
    """Phonemes that are the letters themselves, so that the rest shows without espeak."""
    tokenizers._phonemes.cache_clear()
    monkeypatch.setattr(espeak, "is_available", lambda: True)
    monkeypatch.setattr(espeak, "phonemize", lambda text, voice: text.strip("\"'()").lower())
    yield
    tokenizers._phonemes.cache_clear()


def test_the_phoneme_inventory_is_decomposed_and_without_repeats():
    assert len(set(PHONEMES)) == len(PHONEMES)
    assert all(unicodedata.normalize("NFD", symbol) == symbol for symbol in PHONEMES)


@pytest.mark.parametrize(
    ("language", "written", "expected"),
    [
        ("en", "Well, yes; no: (what?) stop!", "well, yes; no: what? stop!"),
        ("en", "wait... go—now", "wait. go, now"),
        ("fa", "a، b؛ c؟", "a, b; c?"),
        ("zh-cn", "a，b。", "a, b."),
        ("hi", "a। b", "a. b"),
    ],
)
def test_pauses_keep_their_marks_among_phonemes(spelled, language, written, expected):
    tokenizer = PhonemeTokenizer()
    assert tokenizer.decode(tokenizer.encode(written, language)) == expected


def test_ipa_of_the_lexicon_goes_in_as_it_is(spelled):
    tokenizer = PhonemeTokenizer(lexicon=Lexicon({"Nguyen": "/w'ig:/", "Bach": "bak"}))
    assert tokenizer.transcribe("Nguyen, Bach and Nguyen's cat.", "en") == (
        "wˈiɡː, bak and wˈiɡːz cat."
    )


def test_what_espeak_passes_over_becomes_unknown_not_nothing(monkeypatch, spelled, caplog):
    monkeypatch.setattr(espeak, "phonemize", lambda text, voice: "")
    tokenizer = PhonemeTokenizer()
    assert tokenizer.encode("Ж!", "ru").count(UNKNOWN_ID) == 1
    assert "'Ж' (U+0416)" in caplog.text


def test_kanji_in_japanese_is_reported_rather_than_misread(spelled, caplog):
    tokenizer = PhonemeTokenizer()
    ids = tokenizer.encode("a 世界 b。", "ja")
    assert tokenizer.decode(ids) == "a \ufffd\ufffd b."
    assert "U+4E16" in caplog.text


@needs_espeak
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_phoneme_inventory_covers_what_espeak_says(language):
    tokenizer = PhonemeTokenizer()
    ids = tokenizer.encode(SENTENCES[language], language)
    assert not tokenizer.unknown_counts
    assert len(ids) > 20
    assert tokenizer.decode(ids) == tokenizer.transcribe(SENTENCES[language], language)


@needs_espeak
def test_english_and_persian_are_read_by_espeak():
    tokenizer = make_tokenizer("phonemes")
    assert tokenizer.kind == "phonemes"
    english = tokenizer.decode(tokenizer.encode("Hello, Dr. Gray!", "en"))
    assert english.startswith("həlˈoʊ, dˈɑːktɚ")
    assert english.endswith("!")
    persian = tokenizer.decode(tokenizer.encode("سلام، ۲ کتاب؟", "fa"))
    assert persian.startswith("salˈɑm, d")
    assert persian.endswith("?")
    rebuilt = tokenizer_from_dict(json.loads(json.dumps(tokenizer.to_dict())))
    assert rebuilt.encode("Hello", "en") == tokenizer.encode("Hello", "en")


# --- Choosing ------------------------------------------------------------------------------------


def test_auto_takes_phonemes_when_espeak_is_there_and_says_so(spelled, caplog):
    with caplog.at_level(logging.INFO):
        assert make_tokenizer("auto").kind == "phonemes"
    assert "phonemes" in caplog.text


def test_auto_takes_characters_without_espeak_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(espeak, "is_available", lambda: False)
    tokenizer = make_tokenizer("auto", texts=[("süß", "de")])
    assert tokenizer.kind == "characters"
    assert "ß" in tokenizer.symbols
    assert "pip install espeakng-loader" in caplog.text


def test_phonemes_without_espeak_are_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(espeak, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="pip install espeakng-loader"):
        make_tokenizer("phonemes")


def test_an_unknown_kind_of_tokenizer_is_refused():
    with pytest.raises(ConfigError, match="one of auto, characters, phonemes"):
        make_tokenizer("words")


def test_text_modules_load_no_tensorflow():
    check = "import sys, myxtts.text.tokenizers; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
