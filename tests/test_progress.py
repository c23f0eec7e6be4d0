"""What people see while training: a panel with the log above it, or a line now and then."""

from __future__ import annotations

import io
import logging
import os
import pty
import re
import subprocess
import sys
import textwrap

import pytest

import myxtts.training.progress as progress_module
from myxtts.training.progress import TrainingProgress
from tests.support import ROOT, run_python

RUN = textwrap.dedent("""
    import logging, sys, time
    from myxtts.cli.output import start_logging
    from myxtts.training.progress import TrainingProgress

    start_logging()
    log = logging.getLogger("myxtts.somewhere")
    with TrainingProgress(total_steps=40) as progress:
        with progress.preparing("Checking clips", total=3) as advance:
            for _ in range(3):
                advance()
        for step in range(1, 41):
            time.sleep(0.02)
            progress.update(step, values={"loss": 10 / step}, samples_per_second=61.4)
            if step == 20:
                log.info("Checkpoint saved: %s", "step-20")
                log.warning("[watch] out " + "long " * 40 + "end")
                print("printed", flush=True)
    log.info("after")
    assert "tensorflow" not in sys.modules
    print("rich" in sys.modules)
""")


class Clock:
    def __init__(self, monkeypatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(progress_module.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="myxtts")
    return lambda: [record.getMessage() for record in caplog.records]


def run_in_terminal(script: str, *, columns: int, **streams) -> tuple[str, str]:
    """Run with standard error on a pseudo-terminal; returns what it got, and standard output."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "24"},
        stdin=subprocess.DEVNULL,
        stdout=streams.get("stdout", slave),
        stderr=slave,
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # Linux says EIO once the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(master)
    printed = process.stdout.read().decode() if process.stdout else ""
    assert process.wait(timeout=20) == 0, shown.decode()
    return shown.decode(), printed


def final_screen(shown: str) -> list[str]:
    """What is left on an endlessly high screen, by the few codes rich moves and clears with."""
    rows, row, column = [""], 0, 0
    for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", shown):
        if token == "\r":
            column = 0
        elif token == "\n":
            row += 1
            if row == len(rows):
                rows.append("")
        elif token == "\x1b[2K":
            rows[row] = ""
        elif token.startswith("\x1b"):
            if token.endswith("A"):
                row -= int(token[2:-1] or 1)
        else:
            rows[row] = rows[row][:column].ljust(column) + token + rows[row][column + len(token) :]
            column += len(token)
    return [line.rstrip() for line in rows if line.strip()]


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_the_log_stays_whole_above_the_panel(columns):
    shown, _ = run_in_terminal(RUN, columns=columns)
    screen = final_screen(shown)
    long_line = "WARNING: [watch] out " + "long " * 40 + "end"
    for line in ("Checking clips  3/3", "Checkpoint saved: step-20", long_line, "printed", "after"):
        assert screen.count(line) == 1, screen
    (top,) = [number for number, line in enumerate(screen) if line.startswith("╭─ Training")]
    progress, numbers, bottom, after = screen[top + 1 : top + 5]
    assert re.fullmatch(r"│ Step 40/40 ━+ 100%  ETA 0:00:00 │", progress)
    assert re.match(r"│ loss 0\.2500   \d+\.\d\d steps/s   61\.4 clips/s ", numbers)
    assert bottom.startswith("╰")
    assert {len(line) for line in screen[top : top + 4]} == {columns}
    assert after == "after"
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")  # the cursor is back


def test_a_piped_standard_output_stays_out_of_the_terminal():
    shown, printed = run_in_terminal(RUN, columns=100, stdout=subprocess.PIPE)
    assert printed == "printed\nTrue\n"
    assert "printed" not in shown


def test_without_a_terminal_there_are_plain_lines_and_no_rich():
    result = run_python(["-c", RUN], FORCE_COLOR="1")
    lines = result.stderr.splitlines()
    assert result.stdout == "printed\nFalse\n"
    assert "\x1b" not in result.stderr
    assert lines[0] == "Checking clips  3/3"
    assert lines[1] == "Step 1/40  loss 10.0000  61.4 clips/s  ETA -:--:--"
    assert lines[2] == "Checkpoint saved: step-20"
    assert lines[3].startswith("WARNING: [watch] out")
    assert re.fullmatch(
        r"Step 40/40  loss 0\.2500  \d+\.\d\d steps/s  61\.4 clips/s  ETA 0:00:00", lines[4]
    )
    assert lines[5:] == ["after"]


def test_lines_come_every_ten_seconds_and_at_the_first_and_last_step(clock, lines):
    with TrainingProgress(total_steps=5000) as progress:
        for step in range(1, 102):
            progress.update(step, values={"loss": 0.81234}, samples_per_second=61.44)
            clock.now += 0.25
    assert lines()[2] == "Step 81/5000  loss 0.8123  4.00 steps/s  61.4 clips/s  ETA 0:20:30"
    assert [line.split()[1] for line in lines()] == ["1/5000", "41/5000", "81/5000", "101/5000"]


def test_the_rate_is_of_this_process_and_of_late(clock, lines):
    with TrainingProgress(total_steps=2000) as progress:
        assert progress.steps_per_second is None
        clock.now += 90  # compiling
        progress.update(1001, values={})
        assert progress.steps_per_second is None
        assert progress.seconds_left is None
        for step in range(1002, 1022):
            clock.now += 1
            progress.update(step)
        assert progress.steps_per_second == pytest.approx(1)
        assert progress.seconds_left == pytest.approx(979)
        for step in range(1022, 1322):
            clock.now += 0.2
            progress.update(step)
        assert progress.steps_per_second == pytest.approx(5, rel=0.01)
        progress.update(1323, total_steps=1323)
        assert progress.seconds_left == 0
    assert lines()[0] == "Step 1001/2000  ETA -:--:--"
    assert lines()[-1].startswith("Step 1323/1323 ")


def test_a_step_told_again_is_none_slower_and_its_new_values_are_shown(clock, lines):
    with TrainingProgress(total_steps=50) as progress:
        for step in range(1, 8):
            progress.update(step, values={"loss": 1.0} if step == 1 else None)
            clock.now += 1
        clock.now += 60  # a long validation
        progress.update(7, values={"loss": 0.5})
        assert progress.steps_per_second == pytest.approx(1)
    assert lines()[-1] == "Step 7/50  loss 0.5000  1.00 steps/s  ETA 0:00:43"


def test_slow_steps_still_have_a_rate(clock):
    progress = TrainingProgress(total_steps=100)
    for step in range(1, 20):
        clock.now += 60
        progress.update(step)
    assert progress.steps_per_second == pytest.approx(1 / 60)
    assert progress.seconds_left == pytest.approx(81 * 60)


def test_without_a_known_end_no_time_is_guessed(clock, lines):
    with TrainingProgress(total_steps=None) as progress:
        for step in range(1, 8):
            clock.now += 1
            progress.update(step, values={"loss": float("nan"), "learning_rate": 1e-4})
    assert lines()[-1] == "Step 7  loss nan  learning_rate 1.00e-04  1.00 steps/s"


def test_values_are_read_only_when_shown(clock):
    class Expensive:
        reads = 0

        def __float__(self) -> float:
            Expensive.reads += 1
            return 1.0

    with TrainingProgress(total_steps=1000) as progress:
        for step in range(1, 501):
            progress.update(step, values={"loss": Expensive()})
    assert Expensive.reads == 2


def test_long_set_up_work_is_told_now_and_then(clock, lines):
    progress = TrainingProgress(total_steps=1)
    with progress.preparing("Checking clips", total=100) as advance:
        for _ in range(10):
            clock.now += 4
            advance(10)
    assert lines() == [
        "Checking clips  30/100",
        "Checking clips  60/100",
        "Checking clips  90/100",
        "Checking clips  100/100",
    ]


def test_a_failing_run_gives_the_terminal_and_the_log_back():
    from rich.console import Console

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("myxtts")

    def fail() -> None:
        console = Console(file=stream, force_terminal=True, width=100)
        with TrainingProgress(total_steps=10, console=console) as progress:
            progress.update(3, values={"loss": 1.0})
            assert handler.stream is not stream
            raise RuntimeError("out of luck")

    logger.addHandler(handler)
    try:
        with pytest.raises(RuntimeError, match="out of luck"):
            fail()
    finally:
        logger.removeHandler(handler)
    assert handler.stream is stream
    assert "3/10" in stream.getvalue()
