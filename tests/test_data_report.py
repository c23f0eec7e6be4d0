"""The report of a data check: complete, offline, escaped, in two languages, whole or not at all."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from myxtts.data.enough import CLONING, VOICE
from myxtts.data.summary import DataSummary
from myxtts.data.verdicts import REMEDIES
from myxtts.errors import MyXTTSError
from myxtts.messages import Message
from myxtts.pages.data_report import MAX_ROWS, write_report
from myxtts.pages.data_words import PERSIAN
from myxtts.recordings.audit import REMEDIES as FOUND
from myxtts.recordings.audit import Finding
from tests.sample_pages import sample_summary

SUMMARY = sample_summary()
EMPTY = DataSummary(2, 0, {"missing": ["a", "b"]}, 0.0, Counter(), Counter(), [], Counter(), [], [])


LOUD = Finding(
    "clipping", Message("{} clips are clipped: samples lie at the ceiling.", ("7",)), ("loud.wav",)
)


def report(tmp_path, summary=SUMMARY, title="My data", language="en", findings=(LOUD,)):
    path = tmp_path / "report.html"
    write_report(path, summary, title=title, language=language, findings=findings)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    return path.read_text(encoding="utf-8")


def test_everything_the_terminal_shows_is_in_the_report(tmp_path):
    page = report(tmp_path)
    for text in (
        "1,240",
        "1,236",
        "<b>4</b>",
        "1.25",
        "lost.wav",
        "loud.wav",
        "quiet.wav",
        "against.wav",
    ):
        assert text in page
    for text in ("Ann &amp; co", "بهرام", "length in seconds", "U+064B", "U+200C", "U+003C"):
        assert text in page
    assert "40 minutes of the most recorded speaker" in page
    assert REMEDIES["missing"] in re.sub("</?code>", "", page)
    assert "--max-mel-frames" in page
    assert page.count("<rect") == 3 + sum(count > 0 for *_, count in SUMMARY.histogram)


@pytest.mark.parametrize("language", ["en", "fa"])
def test_data_cannot_become_markup_and_nothing_is_fetched(tmp_path, language):
    evil = '"><img src=x onerror=alert(1)>{0}'
    many = Counter({evil: 1})
    summary = replace(SUMMARY, speakers=many, languages=many, clipped=[evil], unknown_symbols=many)
    found = Finding("sounds", Message("{}", (evil,)), clips=(evil,), say=(evil,))
    page = report(tmp_path, summary, title=evil, language=language, findings=[found])
    tags = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.add(tag)
    parser.feed(page)
    assert not tags & {"img", "link", "iframe"}
    assert page.count("<script") == 1  # the page's own
    assert "http" not in page
    assert "url(" not in page
    assert "b\\udcff" in page


def test_persian_reads_from_the_right_with_its_own_digits(tmp_path):
    page = report(tmp_path, language="fa")
    assert '<html lang="fa" dir="rtl">' in page
    assert "۱٬۲۴۰" in page
    assert "۱٫۲۵" in page
    assert "For example" not in page
    sentences = {words for _, words in (*VOICE, *CLONING)}
    # A new reason needs its Persian.
    said = {*REMEDIES, *REMEDIES.values(), *FOUND.values(), LOUD.detail.english, *sentences}
    assert said <= set(PERSIAN)
    assert "۷ قطعه اشباع" in page
    assert "۴۰ دقیقه" in page


def test_without_a_kept_clip_only_the_reasons_are_shown(tmp_path):
    page = report(tmp_path, EMPTY)
    assert "Nothing is left to train on." in page
    assert REMEDIES["missing"] in page
    assert "<rect" not in page


def test_many_speakers_are_cut_and_counted(tmp_path):
    speakers = Counter({f"voice {index}": 1 for index in range(200)})
    page = report(tmp_path, replace(SUMMARY, speakers=speakers))
    assert page.count(">voice ") == MAX_ROWS
    assert f"and {200 - MAX_ROWS} more" in page


def test_one_very_short_clip_has_no_negative_length(tmp_path):
    bins = [(-0.1, 0.0, 0), (0.0, 0.2, 1), (0.2, 0.4, 0)]
    assert ">-0" not in report(tmp_path, replace(SUMMARY, histogram=bins))


def test_an_unwritable_place_is_named_and_nothing_is_left_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "absent" / "report.html", tmp_path / "folder"):
        with pytest.raises(MyXTTSError, match="cannot be written"):
            write_report(path, EMPTY, title="x")
    assert [file.name for file in tmp_path.rglob("*")] == ["folder"]


def test_a_report_already_there_is_replaced(tmp_path):
    report(tmp_path, title="old")
    assert "old" not in re.search("<h1>.*</h1>", report(tmp_path, title="new")).group()
