"""A text in the wrong language stops, naming the right one; a voice speaks what it has heard."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import soundfile

from myxtts.config.config import DataConfig
from myxtts.data.prepare import prepare_data
from myxtts.data.training_data import prepare_training
from myxtts.errors import DataError
from myxtts.inference.export import export_voice
from myxtts.inference.script import write_script
from myxtts.inference.voice_files import load_voice
from myxtts.text import espeak
from myxtts.text.languages import LANGUAGES
from myxtts.text.scripts import check_script, likely_language
from myxtts.text.tokenizers import CharacterTokenizer, PhonemeTokenizer
from tests.small_runs import save_run

needs_espeak = pytest.mark.skipif(not espeak.is_available(), reason="needs espeakng-loader")

PERSIAN = "کتاب روی میز است."
SAMPLES = {
    "en": "The book is on the table.",
    "fa": PERSIAN,
    "ar": "الكتاب على الطاولة.",
    "ru": "Книга на столе.",
    "zh-cn": "书在桌子上。",
    "ja": "本はテーブルの上です。",
    "ko": "책이 탁자 위에 있다.",
    "hi": "किताब मेज पर है।",
}


@pytest.mark.parametrize("language", SAMPLES)
def test_the_language_of_a_script_is_told_and_fits_itself(language):
    assert likely_language([SAMPLES[language]]) == language
    check_script([SAMPLES[language]], language)


def test_every_latin_language_takes_latin_and_refuses_persian():
    for language in LANGUAGES:
        if language not in SAMPLES:
            check_script(["Ez egy könyv, une école, łódź."], language)
            with pytest.raises(DataError, match="--language fa"):
                check_script([PERSIAN], language)


def test_a_foreign_word_or_no_word_at_all_is_no_other_language():
    check_script(["She said سلام to all of us", "12:30 !", ""], "en")
    check_script(["برنامهٔ MyXTTS خوب است"], "fa")


def folder_of(tmp_path, texts, name="metadata.csv"):
    wave = 0.3 * np.sin(np.arange(44_100) / 20)
    for number in range(len(texts)):
        soundfile.write(tmp_path / f"{number}.wav", wave, 22_050, subtype="PCM_16")
    rows = (f"{number}|{text}" for number, text in enumerate(texts))
    (tmp_path / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def test_persian_read_as_english_stops_with_the_way_out(tmp_path):
    folder = folder_of(tmp_path, [PERSIAN] * 5 + ["Hello there."])
    with pytest.raises(DataError, match="in Arabic script, and English") as caught:
        prepare_data(folder, DataConfig(tokenizer="characters"))
    assert caught.value.remedy.startswith("--language fa")
    prepared = prepare_data(folder, DataConfig(tokenizer="characters", language="fa"))
    assert sum(verdict.kept for verdict in prepared.verdicts) == 6


def test_training_refuses_when_most_clips_were_dropped_unless_told_otherwise(tmp_path):
    folder = folder_of(tmp_path, ["Hello there."] * 6)
    for number in range(4):
        (folder / f"{number}.wav").unlink()
    config = DataConfig(train_data=folder, tokenizer="characters")
    with pytest.raises(DataError, match="Only 2 of the 6 clips of .* missing 4") as caught:
        prepare_training(config, seed=0)
    assert "--allow-few" in caught.value.remedy
    config.allow_few = True
    assert len(prepare_training(config, seed=0).train) == 2


def test_a_voice_refuses_a_language_it_never_heard(tmp_path, caplog):
    voice = load_voice(save_run(tmp_path / "run", tokenizer=CharacterTokenizer()))
    unknown, known = replace(voice, languages=()), replace(voice, languages=("en", "de"))
    assert known.language_for(None) == "en"
    assert known.language_for("de") == "de"
    with pytest.raises(DataError, match=r"never heard Persian \(fa\): .* English \(en\) and Ger"):
        known.language_for("fa")
    assert known.language_for("fa", force=True) == "fa"
    assert replace(known, languages=("fa",)).language_for(None) == "fa"
    assert unknown.language_for("fa") == "fa"  # made before runs told their languages
    assert "Nothing says whether this voice was trained on Persian" in caplog.text


def test_an_export_keeps_the_languages(tmp_path):
    run = save_run(tmp_path / "run", state={"languages": ["en", "fa"]})
    assert load_voice(run).languages == ("en", "fa")
    export_voice(run, tmp_path / "export")
    assert load_voice(tmp_path / "export").languages == ("en", "fa")


@needs_espeak
def test_words_in_kanji_are_not_left_out_without_a_word():
    def write(text, language="ja"):
        how = {"language": language, "max_text_length": 99}
        return write_script(text, tokenizer=PhonemeTokenizer(), **how)

    assert len(write("きょうは いいてんきです。").lines) == 1
    with pytest.raises(DataError, match="Kanji") as refused:
        write("きょうは、今日です。")
    assert "今日" in refused.value.problem
    assert "kana" in refused.value.remedy
    assert write("今天天气很好。", "zh-cn").lines


def test_a_text_in_another_script_is_not_spoken():
    with pytest.raises(DataError, match="try: --language fa"):
        write_script(PERSIAN, tokenizer=CharacterTokenizer(), language="en", max_text_length=99)
