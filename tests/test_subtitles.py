"""Subtitles as they are found: SubRip and WebVTT, with all that is no speech in them."""

from __future__ import annotations

import pytest

from myxtts.errors import DataError
from myxtts.recordings.sources import Cue
from myxtts.recordings.subtitles import clean_cue, read_subtitles

SRT = """\ufeff1
00:00:01,000 --> 00:00:02,500
<i>Good morning,</i>
everyone.

2
00:00:03,000 --> 00:00:04,000
[music]

3
01:00:00,000 --> 01:00:01,250 X1:40 X2:600
- Tom &amp; Ann (laughs) said {\\an8}so.
"""
VTT = """WEBVTT - a title

NOTE nobody
reads this

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v.loud Anna>Hello.

00:02.000 --> 00:03.000
<v Bob>Hi.
"""


def test_subrip_gives_what_is_said_and_when(tmp_path):
    path = tmp_path / "a.srt"
    path.write_text(SRT.replace("\n", "\r\n"), encoding="utf-8")
    assert read_subtitles(path) == (
        Cue(1.0, 2.5, "Good morning, everyone."),
        Cue(3600.0, 3601.25, "Tom & Ann said so."),
    )


def test_webvtt_gives_who_says_it(tmp_path):
    path = tmp_path / "a.vtt"
    path.write_text(VTT, encoding="utf-8")
    assert read_subtitles(path) == (Cue(1.0, 2.0, "Hello.", "Anna"), Cue(2.0, 3.0, "Hi.", "Bob"))


@pytest.mark.parametrize("content", [b"", b"1\nno times here\n", b"\xff\xfe1\x00"])
def test_what_holds_no_cue_is_refused_with_a_remedy(tmp_path, content):
    path = tmp_path / "a.srt"
    path.write_bytes(content)
    with pytest.raises(DataError) as refused:
        read_subtitles(path)
    assert refused.value.remedy


def test_a_cue_that_says_nothing_is_empty():
    assert clean_cue("♪ [door slams] (sighs) <b></b>") == ""
