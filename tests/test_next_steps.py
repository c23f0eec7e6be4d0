"""After training the command says what to do next, in commands that work as they are printed."""

from __future__ import annotations

import shlex
import shutil

import pytest
import soundfile

from tests import runs
from tests.support import run_python, run_warm


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """A short run by the command line from a folder with a space in its name, and what it said."""
    folder = tmp_path_factory.mktemp("a b")
    data = runs.make_clips(folder / "my data", 16, seconds=1.2)
    values = runs.settings(folder / "run", data={"train_data": str(data)}, max_steps=2)
    config = runs.write_settings(folder / "config.yaml", values)
    result = run_warm(["-m", "myxtts", "train", "--config", str(config)])
    assert result.returncode == 0, result.stderr
    return folder, result.stdout.splitlines()


def command(lines: list[str], name: str) -> list[str]:
    (line,) = (line for line in lines if f"myxtts {name} " in line)
    words = shlex.split(line)
    assert words[0].endswith("myxtts")
    return ["-m", "myxtts", *words[1:]]


def test_it_says_where_to_listen_and_look(printed):
    folder, lines = printed
    assert lines[0] == f"Trained 2 steps. Everything is in {folder / 'run'}"
    listen = folder / "run" / "samples" / "step_00000002"
    assert lines[1].startswith(f"Listen: {listen} ")
    assert list(listen.glob("*.wav"))
    assert lines[2] == f"How it went, to be opened in a browser: {folder / 'run' / 'report.html'}"
    assert (folder / "run" / "report.html").exists()


def test_it_speaks_by_the_command_printed(printed):
    folder, lines = printed
    result = run_warm(command(lines, "synthesize"))
    assert result.returncode == 0, result.stderr
    assert soundfile.info(folder / "run" / "mine.wav").duration > 0


@pytest.mark.slow
def test_it_is_judged_by_the_command_printed(printed):
    folder, lines = printed
    result = run_warm(command(lines, "evaluate"))
    assert result.returncode == 0, result.stderr
    assert (folder / "run" / "evaluation.html").exists()


def test_a_resume_without_its_settings_says_what_is_missing(printed, tmp_path):
    run = shutil.copytree(printed[0] / "run", tmp_path / "run")
    (run / "config.yaml").unlink()
    result = run_python(["train_main.py", "--resume", "--checkpoint-dir", str(run)])
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: --resume was given, but {run} holds no config.yaml")
    assert "--train-data DIR" in result.stderr
