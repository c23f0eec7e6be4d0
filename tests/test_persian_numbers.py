"""What Persian writes in figures is said in words: every case of the benchmark, and odd ones."""

from __future__ import annotations

import pytest

from benchmarks.persian_scores import number_cases
from myxtts.text.normalize import normalize_text
from myxtts.text.persian.numbers import NUMBER_WORDS, count_words, order_words

CASES = list(number_cases())


def test_there_are_a_hundred_cases_and_more():
    assert len(CASES) == len(dict(CASES)) >= 100


@pytest.mark.parametrize(("written", "said"), CASES)
def test_figures_and_signs_are_said_as_a_reader_says_them(written, said):
    assert normalize_text(written, "fa") == said
    assert normalize_text(said, "fa") == said


@pytest.mark.parametrize("number", [0, 7, 19, 100, 1001, 12_345, 10**6, 987_654_321, 10**15 - 1])
def test_a_number_is_made_of_number_words(number):
    assert set(count_words(str(number)).split()) <= NUMBER_WORDS | {"و"}


def test_thirty_and_three_have_places_of_their_own():
    assert [order_words(n) for n in ("3", "23", "30", "31")] == [
        "سوم",
        "بیست و سوم",
        "سی\u200cام",
        "سی و یکم",
    ]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("۱۴۰۲/۱۳/۴۵", None),  # no date: whatever it is, no digit is left
        ("۱۲:۷۵", None),
        ("۱" * 5000, None),
        ("۱/" * 500, None),
        ("سال۱۴۰۲شمسی", "سال هزار و چهارصد و دو شمسی"),
        ("B52 و ۵kg", "B پنجاه و دو و پنج کیلوگرم"),
    ],
)
def test_what_is_no_date_or_number_leaves_no_digit(written, said):
    spoken = normalize_text(written, "fa")
    assert not any(character.isdigit() for character in spoken)
    assert said is None or spoken == said
