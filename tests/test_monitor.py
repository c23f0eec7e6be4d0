"""`myxtts monitor`: the panel of a run, followed to its end, and the same as while training."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

from myxtts.cli.app import app
from myxtts.errors import MyXTTSError
from myxtts.runs.follow import RunFollower
from myxtts.runs.history import RunHistory
from myxtts.runs.panel import render_panel
from myxtts.training.progress import TrainingProgress
from tests.support import ROOT
from tests.told_runs import EVEN, event, half_a_run, pipeline, started, write_events, write_trace


def monitor(*arguments) -> str:
    result = CliRunner().invoke(app, ["monitor", *map(str, arguments)])
    if isinstance(result.exception, MyXTTSError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def drawn(view, width: int = 100) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(render_panel(view))
    return stream.getvalue()


def test_one_look_shows_everything_about_a_run(tmp_path):
    shown = monitor(write_events(tmp_path / "run", half_a_run()), "--once")
    for text in (
        "my voice · Multi-GPU Mode, memory-isolated · simulated on CPU",
        "Step 50/100",
        "50%",
        "loss 0.2000   2.00 steps/s   32.0 clips/s",
        "80% busy",
        "98% busy",
        "1050/8192 MB (13%)",
        "2.0 of 3  batches ready",
        "500 ms",
        "± 10%",
        "The model is busy 98% of the time: the data side keeps up.",
        "running",
    ):
        assert text in shown, shown


def test_a_finished_run_is_shown_without_being_followed(tmp_path):
    ended = [pipeline(100, seconds=50.0), event("ended", error="")]
    assert "finished" in monitor(write_events(tmp_path, [*half_a_run(), *ended]))


def test_advice_and_failure_stand_in_the_panel():
    slow = {**EVEN, "train": 0.5, "process": 0.7}
    history = RunHistory()
    for each in (*half_a_run(slow), event("ended", error="MemoryBudgetError: no room")):
        history.add(each)
    shown = drawn(history.view(), width=140)
    assert "batches come unevenly" in shown
    assert "--prefetch-buffer-size 8" in shown
    assert "MemoryBudgetError: no room" in shown
    assert "failed" in shown


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_panel_fits_the_terminal(tmp_path, width):
    view = RunFollower(write_events(tmp_path, half_a_run())).poll()
    lines = drawn(view, width).splitlines()
    assert {len(line) for line in lines} == {width}
    assert not any("…" in line for line in lines)


def test_training_and_monitor_draw_the_same_panel(tmp_path):
    """The panel of a training process and that of one who reads its file."""
    told = half_a_run()
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    with TrainingProgress(total_steps=100, console=console) as progress:
        for each in told:
            progress.observe(each)
        progress.update(50, values={"loss": 0.2}, samples_per_second=32.0)
        in_training = drawn(progress._view(progress._history))
    elsewhere = drawn(RunFollower(write_events(tmp_path, told)).poll())

    def gauges(panel: str) -> list[str]:
        lines = panel.splitlines()
        return lines[3:]

    assert gauges(in_training) == gauges(elsewhere)
    assert "loss 0.2000" in in_training
    assert "Data GPU 0" in console.file.getvalue()


@pytest.mark.parametrize("begun", [True, False], ids=["", "though it begins later"])
def test_a_running_run_is_followed_until_it_ends(tmp_path, begun):
    first = [started(host="elsewhere"), *half_a_run()[1:]]
    tmp_path = tmp_path / "run"
    if begun:
        write_events(tmp_path, first)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "myxtts", "monitor", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown, deadline = b"", time.monotonic() + 60
    later = [pipeline(100, seconds=50.0), event("ended", error="")]
    while time.monotonic() < deadline:
        try:
            shown += os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not begun and b"Waiting for it; Ctrl-C ends this" in shown:
            begun = bool(write_events(tmp_path, first))
        if later and b"Step 50/100" in shown:
            write_events(tmp_path, later)
            later = []
    os.close(master)
    assert process.wait(timeout=20) == 0, shown.decode()
    assert b"Step 100/100" in shown
    assert b"finished" in shown


def test_the_report_is_written_in_the_language_asked_for(tmp_path):
    run = write_events(tmp_path / "run", half_a_run())
    write_trace(run)
    said = monitor(run, "--report", tmp_path / "page.html", "--lang", "fa")
    assert said == f"Report: {tmp_path / 'page.html'}\n"
    assert '<html lang="fa" dir="rtl">' in (tmp_path / "page.html").read_text()


def test_ctrl_c_ends_the_waiting_for_a_run_that_does_not_come(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "myxtts", "monitor", str(tmp_path / "run"), "--web", "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert "Waiting for it; Ctrl-C ends this" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 0


def test_a_folder_of_runs_is_not_waited_for(tmp_path):
    run = write_events(tmp_path / "mine", half_a_run())
    with pytest.raises(MyXTTSError, match="There is no training run") as failure:
        monitor(tmp_path, "--web")
    assert failure.value.remedy == f"myxtts monitor {run}"


def test_what_cannot_be_watched_is_said(tmp_path):
    with pytest.raises(MyXTTSError, match="There is no training run"):
        monitor(tmp_path)
    (tmp_path / "events.jsonl").touch()
    with pytest.raises(MyXTTSError, match="has not told anything yet"):
        monitor(tmp_path, "--once")
