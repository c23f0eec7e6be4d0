"""Persian, Arabic and Chinese go from text to audio, in a voice that was heard in any language.

Nothing is said of how well they are understood: the models here are not trained, or hardly.
"""

from __future__ import annotations

import csv

import numpy as np
import pytest
import soundfile

from myxtts.data.waves import decode
from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference import Synthesizer
from myxtts.inference.script import Delivery, write_utterance
from myxtts.text import espeak
from myxtts.text.normalize import normalize_text
from myxtts.text.recital import recite
from myxtts.text.tokenizers import ESPEAK_VOICES, UNKNOWN_ID, PhonemeTokenizer
from tests.small_runs import save_run
from tests.support import run_warm

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng is not installed")

# Each with digits, the script's own marks, and more than one sentence.
TEXTS = {
    "fa": "سلام، حالِ شما چطور است؟ ساعت ۱۲ است و می‌خواهم ۳ کتاب بخرم.",
    "ar": "مَرحَبًا، كيف حالُكَ؟ عندي ٢٥ كتابًا في البيت.",
    "zh-cn": "你好，今天天气怎么样？我有12本书。",
}
SENTENCES = {
    "fa": ("امروز هوا خوب است.", "او به خانه رفت.", "کتاب روی میز است.", "ما آب می‌خواهیم."),
    "ar": ("الطقس جميل اليوم.", "ذهب إلى البيت.", "الكتاب على الطاولة.", "نحن نريد الماء."),
    "zh-cn": ("今天天气很好。", "他回家了。", "书在桌子上。", "我们想喝水。"),
}


def spoken(language: str, text: str) -> np.ndarray:
    samples, rate = recite(text, voice=ESPEAK_VOICES.get(language, language))
    assert rate == SAMPLE_RATE
    return samples


@pytest.fixture(scope="module")
def synthesizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("languages")
    return Synthesizer.load(save_run(folder, tokenizer=PhonemeTokenizer(), max_text_length=80))


@pytest.mark.parametrize("language", TEXTS)
def test_every_symbol_is_known_once_the_text_is_normalised(language):
    text = normalize_text(TEXTS[language], language)
    if language != "zh-cn":  # whose numbers espeak-ng reads itself
        assert not any(character.isdigit() for character in text)
    tokenizer = PhonemeTokenizer()
    ids = tokenizer.encode(TEXTS[language], language)
    assert len(ids) > 40
    assert UNKNOWN_ID not in ids
    assert not tokenizer.unknown_counts


@pytest.mark.parametrize("language", TEXTS)
def test_text_is_spoken_in_a_voice_heard_in_another_language(synthesizer, language):
    other = next(tag for tag in TEXTS if tag != language)
    voice = synthesizer.listen([(spoken(other, TEXTS[other]), SAMPLE_RATE)])
    chunks = list(synthesizer.stream(TEXTS[language], voice=voice, language=language))
    assert len(chunks) == 2  # sentences end where the script ends them
    for chunk in chunks:
        assert np.isfinite(chunk).all()
        assert np.abs(chunk).max() > 0
    english = synthesizer.say("One two three.", voice=voice, language="en", pitch_shift=3)
    assert np.isfinite(english).all()


def test_the_model_hears_of_the_language_not_of_the_symbols_alone(synthesizer):
    voice = synthesizer.listen([(spoken("fa", TEXTS["fa"]), SAMPLE_RATE)])
    line = write_utterance(
        "mama", tokenizer=synthesizer.files.tokenizer, language="fa", max_text_length=80
    )
    persian, chinese = (
        np.concatenate(list(synthesizer.read([line], voice=voice, delivery=Delivery(language))))
        for language in ("fa", "zh-cn")
    )
    assert not np.array_equal(persian, chinese)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_model_of_three_languages_trains_and_speaks_each_of_them(tmp_path):
    data, run = tmp_path / "data", tmp_path / "run"
    (data / "wavs").mkdir(parents=True)
    with (data / "metadata.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter="|")
        rows.writerow(("audio_file", "text", "speaker_name", "language"))
        for language, texts in SENTENCES.items():
            for number, text in enumerate((*texts, TEXTS[language])):
                name = f"wavs/{language}_{number}.wav"
                soundfile.write(data / name, spoken(language, text), SAMPLE_RATE)
                rows.writerow((name, text, f"{language}-speaker", language))
    trained = run_warm(
        [
            *("-m", "myxtts", "train", "--train-data", str(data), "--model-size", "tiny"),
            *("--batch-size", "4", "--max-steps", "20", "--enable-static-shapes", "--simulate"),
            *("--checkpoint-dir", str(run)),
        ],
        timeout=1500,
    )
    assert trained.returncode == 0, trained.stderr
    for language, other in zip(TEXTS, (*list(TEXTS)[1:], next(iter(TEXTS))), strict=True):
        output = tmp_path / f"{language}.wav"
        references = [data / "wavs" / f"{other}_{number}.wav" for number in (0, 4)]
        said = run_warm(
            [
                *("-m", "myxtts", "synthesize", "--model", str(run), "--language", language),
                *(part for path in references for part in ("--reference", str(path))),
                *("--text", TEXTS[language], "--pitch-shift", "-2", "--output", str(output)),
            ]
        )
        assert said.returncode == 0, said.stderr
        wave = decode(output)
        assert len(wave) > SAMPLE_RATE
        assert np.abs(wave).max() > 0
