"""A recording script: about as long as asked, nothing twice, the rare sounds in it."""

from __future__ import annotations

import pytest

from myxtts.corpora.base_texts import sentences_of
from myxtts.errors import DataError
from myxtts.recordings.script import (
    choose_sentences,
    recording_script,
    script_minutes,
    sentences_in,
    sentences_with,
)
from myxtts.recordings.sounds import count_sounds, needed_sounds, sounds_of, split_sounds
from myxtts.text.languages import LANGUAGES


def test_sounds_are_letters_with_their_marks():
    assert split_sounds("ˈt͡ʃiː ɑ̃, a5") == ["t͡ʃ", "iː", " ", "ɑ̃", " ", "a"]


@pytest.mark.parametrize("language", ["en", "fa"])
def test_a_quarter_of_an_hour_has_every_sound_and_no_sentence_twice(language):
    lines = recording_script(language, 15)
    assert len(set(lines)) == len(lines)
    assert script_minutes(lines, language) == pytest.approx(15, rel=0.05)
    counts = count_sounds(lines, language)
    assert all(counts[sound] >= 3 for sound in needed_sounds(language))


def test_the_first_minute_has_more_sounds_than_any_minute_of_the_list_as_it_stands():
    chosen = count_sounds(recording_script("fa", 1), "fa")
    plain = choose_sentences(sentences_of("fa")[:20], "fa", seconds=1e9)
    assert len(chosen) >= len(count_sounds(plain, "fa"))
    assert set(needed_sounds("fa")) <= set(chosen)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_a_script_that_says_all_it_needs(language):
    lines = recording_script(language, 1.5)
    assert set(needed_sounds(language)) <= set(count_sounds(lines, language))


def test_it_chooses_from_a_text_of_ones_own(tmp_path, run_command):
    text = tmp_path / "mine.txt"
    text.write_text("The usual pleasure. The cat sat on the mat.\nThe cat sat on a hat.\n")
    code, said, error = run_command("data", "script", "--text", text, "--minutes", 1)
    assert code == 0
    assert set(said.decode().split("\n")) == {
        "The usual pleasure.",
        "The cat sat on the mat.",
        "The cat sat on a hat.",
        "",
    }
    assert "minutes only" in error
    with pytest.raises(DataError, match="script"):
        recording_script("fa", 1, texts=sentences_in("Only English here.", "en"))


def test_sentences_are_found_for_rare_sounds():
    (first, *_) = sentences_with({"ʒ"}, "fa", most=2)
    assert "ʒ" in sounds_of(first, "fa")
