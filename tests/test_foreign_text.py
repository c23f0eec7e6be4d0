"""Names, texts and errors from elsewhere are shown; a terminal neither obeys nor chokes on them."""

from __future__ import annotations

import json
import logging
import unicodedata

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from myxtts.cli.output import make_console, start_logging
from myxtts.messages import harmless
from tests.support import run_warm
from tests.told_runs import PLAN, event, pipeline, started, write_events

EVIL = "[/bold]:smile:\x1b]0;title\x07\x1b[31m\u202ered\x9b2J"


def is_safe(text):
    """Whether nothing in a terminal's output moves it, but for line breaks."""
    return not any(
        unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or "\u202a" <= char <= "\u202e"
        for char in text.replace("\n", "").replace("\t", "")
    )


@given(st.text(st.characters()) | st.text("\x1b[]\x07\n\r\u202e\u2066\ud800a\u200c"))
def test_any_text_becomes_one_line_that_can_be_printed(text):
    shown = harmless(text)
    assert is_safe(shown)
    assert len(shown.splitlines()) <= 1 or "\n" not in shown
    shown.encode()
    assert is_safe(harmless(text, lines=True))


@pytest.mark.parametrize("text", ["Grüße, 世界 😀", "می‌خواهم", "C:\\new\\x1b", "a\u00a0b"])
def test_what_is_written_in_any_script_stays_as_it_is(text):
    assert harmless(text) == text


def test_a_message_keeps_its_own_lines():
    assert harmless("one\n\ttwo\x1b", lines=True) == "one\n\ttwo\\x1b"


def test_names_are_text_to_the_console(capsys):
    make_console().print("[/bold]x.wav :smile: [red]")
    assert capsys.readouterr().out == "[/bold]x.wav :smile: [red]\n"


def test_data_check_shows_what_a_list_names_and_obeys_nothing(tmp_path):
    (tmp_path / "[").mkdir()
    soundfile.write(tmp_path / "[/bold]x.wav", 0.9 * np.sign(np.sin(np.arange(22_050))), 22_050)
    rows = [
        {"path": "[/bold]x.wav", "text": "Hello.", "speaker": "[red]Ann"},
        {"path": f"{EVIL}.wav", "text": "Hello."},
        {"path": "gone[/bold].wav", "text": f"Hello {EVIL}"},
        {"path": "half\ud800.wav", "text": "Hello."},
    ]
    (tmp_path / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    verdicts = tmp_path / "verdicts.csv"
    result = run_warm(["-m", "myxtts", "data", "check", str(tmp_path), "--verdicts", str(verdicts)])
    assert result.returncode == 0, result.stderr
    assert is_safe(result.stdout)
    assert is_safe(result.stderr)
    assert "4 clips listed: 1 kept, 3 dropped" in result.stdout
    assert "[red]Ann (1)" in result.stdout
    assert "gone[/bold].wav" in result.stdout
    assert "line 4: the row holds half a character" in result.stdout
    assert len(verdicts.read_text(encoding="utf-8").splitlines()) == 5


def test_an_error_with_foreign_text_is_printed_harmlessly(tmp_path):
    result = run_warm(["-m", "myxtts", "data", "check", str(tmp_path / f"no {EVIL}")])
    assert result.returncode == 2
    assert is_safe(result.stderr)
    assert "does not exist.\n  try: " in result.stderr


def test_log_lines_with_foreign_text_are_printed_harmlessly(capsys):
    logger = logging.getLogger("myxtts")
    before = logger.handlers, logger.level, logger.propagate
    start_logging()
    try:
        logger.warning("lost %s", EVIL)
    finally:
        logger.handlers, logger.level, logger.propagate = before
    shown = capsys.readouterr().err
    assert is_safe(shown)
    assert shown.startswith("WARNING: lost [/bold]:smile:\\x1b]0;title\\x07")


def test_the_monitor_shows_a_run_whose_names_are_hostile(tmp_path):
    devices = {**PLAN, "mode": EVIL, "data_device": EVIL}
    write_events(
        tmp_path,
        [
            started(run=EVIL, devices=devices),
            pipeline(10, seconds=5.0),
            event("ended", 10, at=9.0, error=f"{EVIL}\nsecond line"),
        ],
    )
    result = run_warm(["-m", "myxtts", "monitor", str(tmp_path), "--once"])
    assert result.returncode == 0, result.stderr
    assert "[/bold]:smile:\\x1b]0;title" in result.stdout
    assert is_safe(result.stdout)
