"""Text becomes tokens and comes back, and no symbol is lost without a word."""

from __future__ import annotations

import importlib.util
import json
import logging
import subprocess
import sys
import unicodedata

import pytest

from myxtts.errors import ConfigError, DataError
from myxtts.text import espeak, tokenizers
from myxtts.text.languages import LANGUAGES
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
