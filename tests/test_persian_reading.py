"""Persian is read with its vowels and its ezafe, and what is not sure is said to be so."""

from __future__ import annotations

import logging

import pytest

from benchmarks.persian_scores import Scores, read_gold
from myxtts.corpora.base_texts import sentences_of
from myxtts.text import espeak
from myxtts.text.lexicon import Lexicon
from myxtts.text.normalize import normalize_text
from myxtts.text.persian import lexicon as tables
from myxtts.text.persian import tagger
from myxtts.text.persian.letters import align
from myxtts.text.persian.morphology import look_up
from myxtts.text.persian.phonemes import from_ipa, plain, to_ipa, with_ezafe
from myxtts.text.persian.reader import read_persian
from myxtts.text.persian.verbs import verb_forms
from myxtts.text.tokenizers import PHONEMES, UNKNOWN_ID, PhonemeTokenizer, read_words

needs_espeak = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng is not installed")
needs_tagger = pytest.mark.skipif(
    tables.package_folder() is None, reason="needs the tagger: pip install gruut-lang-fa"
)


def spelled(word: str) -> str:
    return "x" * len(word)


def said(text: str) -> str:
    return " ".join(w.reading for w in read_persian(text, spelled) if not w.is_mark)


@pytest.mark.parametrize(
    ("word", "reading"),
    [
        ("می\u200cروم", "miravam"),
        ("میروم", "miravam"),
        ("نمی\u200cآید", "nemiyâyad"),
        ("بنویسید", "benevisid"),
        ("نخورده\u200cام", "naxorde'am"),
        ("می\u200cخورد", "mixorad"),
        ("خورد", "xord"),
        ("کتاب\u200cهایم", "ketâbhâyam"),
        ("کتابها", "ketâbhâ"),
        ("بزرگ\u200cترین", "bozorgtarin"),
        ("هفته\u200cای", "hafte'i"),
        ("ناراحت", "nârâhat"),
        ("کتاب\u200cفروشی", "ketâbforuši"),
    ],
)
def test_forms_are_read_from_their_parts(word, reading):
    found = look_up(word)
    assert found is not None
    assert found.reading.replace("^", "") == reading


@needs_tagger
@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("کتاب من", "ketâb-e man"),
        ("خانه\u200cی بزرگ ما", "xâne-ye bozorg-e mâ"),
        ("خانهٔ ما", "xâne-ye mâ"),
        ("قیمت بنزین را افزایش داد", "qeymat-e benzin râ afzâyeš dâd"),
        ("دوازدهم مرداد هزار و چهارصد", "davâzdahom-e mordâd-e hezâr o čahârsad"),
        ("او سال\u200cها پیش مرد.", "u sâlhâ piš mord"),
        ("آن مرد آمد.", "ân mard âmad"),
        ("کرم صورت", "kerem-e surat"),
        ("خدایا شکر", "xodâyâ šokr"),
        ("یکم فروردین", "yekom-e farvardin"),
        ("من کتاب ها را می خوانم", "man ketâbhâ râ mixânam"),
    ],
)
def test_sentences_are_read_as_a_reader_reads_them(text, reading):
    assert said(text) == reading


def test_vowels_that_the_writer_marked_win():
    assert said("کِرِم") == "kerem"
    assert said("کِرم و گُلِ ما") == "kerm va gol-e mâ"


def test_most_readings_of_our_table_fit_their_letters():
    words = tables.own_words()
    fitting = sum(align(list(word), reading) is not None for word, reading in words.items())
    assert len(words) > 5000
    assert fitting > 0.97 * len(words)
    assert not set("".join(words.values())) - set("aâeoiubptsjčhxdzržšqfkglmnvwy'")


def test_the_stem_of_an_unknown_word_is_guessed_and_its_endings_are_known():
    words = read_persian("قلمبرشتوک\u200cهای من و قلمبرشتوک\u200cام", spelled)
    assert [w.reading for w in words] == ["xxxxxxxxxhâ-ye", "man", "va", "xxxxxxxxxam"]
    assert [w.source for w in words] == ["guess", "lexicon", "lexicon", "guess"]
    assert words[0].doubt == "guessed by espeak-ng"


def test_ipa_is_written_as_espeak_writes_persian():
    assert to_ipa("salâm") == "salˈɑm"
    assert to_ipa("xâne", silent_h=True) == "xɑnˈeː"
    assert to_ipa(with_ezafe("xâne")) == "xɑnˈeje"
    assert to_ipa("qermez") == "q1ermˈez"
    assert to_ipa("dowlat") == "doːlˈat"
    assert from_ipa(to_ipa("čâyvagolow")) == "čâyvagolow"


@needs_espeak
def test_every_symbol_is_one_that_voices_know():
    tokenizer = PhonemeTokenizer()
    for text, _ in read_gold("dev"):
        assert UNKNOWN_ID not in tokenizer.encode(text, "fa")
    assert not set("".join(to_ipa(r) for r in tables.own_words().values())) - set(PHONEMES)


@pytest.mark.parametrize(
    ("word", "ipa"),
    [
        ("می\u200cروم", "mˈiravam"),
        ("نمی\u200cآیم", "nˈemijɑjam"),
        ("بنویس", "bˈenevis"),
        ("رفتیم", "rˈaftim"),
        ("خورده\u200cام", "xordˈeʔam"),
        ("رفتن", "raftˈan"),
    ],
)
def test_verbs_are_stressed_as_they_are_spoken(word, ipa):
    assert to_ipa(look_up(word).reading) == ipa


@needs_espeak
def test_every_sound_of_the_tables_is_one_that_the_base_voice_heard_in_persian():
    heard = set("".join(espeak.phonemize(text, "fa") for text in sentences_of("fa")))
    readings = [*tables.package_words().values(), *tables.own_words().values()]
    readings += [form.reading for form in verb_forms().values()]
    assert set("".join(to_ipa(with_ezafe(reading)) for reading in readings)) <= heard


def test_another_verb_or_a_half_space_never_takes_a_words_reading():
    assert plain(look_up("نشست").reading) == "nešast"  # not "did not wash"
    assert (look_up("بهروز").reading, look_up("به\u200cروز").reading) == ("behruz", "beruz")


@needs_espeak
@needs_tagger
@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("خیابان شلوغ بود.", "xiyâbân šoluq bud"),
        ("حسن چهار سگ زیبا داشت.", "hasan čahâr sag-e zibâ dâšt"),
        ("طاهره چند پنجره سبز داد.", "tâhere čand panjere-ye sabz dâd"),
        ("سیمین آن کتاب را خرید.", "simin ân ketâb râ xarid"),
    ],
)
def test_names_numbers_and_predicates_decide_the_ezafe(text, reading):
    assert " ".join(word.reading for word in read_words(text, "fa")).strip() == reading


@needs_espeak
def test_the_users_lexicon_wins_over_everything(tmp_path):
    path = tmp_path / "lexicon.csv"
    path.write_text("سلام,/sˈelom/\nتهران,طهران\n", encoding="utf-8")
    lexicon = Lexicon.load(path)
    words = read_words("سلام تهران بزرگ", "fa", lexicon)
    assert [(w.text, w.source) for w in words][:2] == [("سلام", "user"), ("طهران", "user")]
    assert words[0].phonemes.startswith("sˈelom")
    assert "sˈelom" in PhonemeTokenizer(lexicon=lexicon).transcribe("سلام!", "fa")


@needs_espeak
def test_guessed_words_are_counted_and_said_and_other_scripts_left_to_espeak(caplog):
    caplog.set_level(logging.INFO)
    tokenizer = PhonemeTokenizer()
    tokenizer.encode("قلمبرشتوک و قلمبرشتوک و سلام hello", "fa")
    assert tokenizer.guessed_counts == {"قلمبرشتوک": 2}
    assert caplog.text.count("the first is قلمبرشتوک") == 1
    assert read_words("سلام hello", "fa")[1].source == "espeak-ng"


def test_without_the_tagger_the_ezafe_is_found_by_rules_and_that_is_said(monkeypatch, caplog):
    monkeypatch.setattr(tagger, "package_folder", lambda: None)
    tagger.load_tagger.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            assert said("روی میز") == "ru-ye miz"
            assert said("خانه\u200cی ما") == "xâne-ye mâ"
        assert [r.getMessage() for r in caplog.records] == [
            "gruut-lang-fa is not installed, so the ezafe of Persian is found by rules alone "
            "(pip install gruut-lang-fa)"
        ]
    finally:
        tagger.load_tagger.cache_clear()


@needs_tagger
def test_the_development_part_is_above_the_bars():
    scores = Scores()
    for text, gold in read_gold("dev"):
        words = [w for w in read_persian(normalize_text(text, "fa"), spelled) if not w.is_mark]
        for word, found in zip(gold, words, strict=True):
            reading = found.reading.removesuffix("-ye").removesuffix("-e")
            scores.add(word, reading, ezafe=found.ezafe, group="all")
    assert scores.share("all") >= 0.97
    assert scores.precision >= 0.93
    assert scores.recall >= 0.93


@pytest.mark.parametrize(
    "text",
    [
        "ا" * 100_000,
        "\u202eسلام\u202c 😀 你好 \x00\ud800",
        "ه\u200cی" * 3000,
        "\u200c" * 500 + "َُِ" * 500,
        "،؛؟!." * 500,
        "می " * 500,
        "",
    ],
)
def test_hostile_text_never_fails(text):
    read_persian(normalize_text(text, "fa"), spelled)
