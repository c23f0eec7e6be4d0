"""`myxtts plan` as it is typed."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from myxtts.cli.app import app
from myxtts.errors import ConfigError, DataError
from tests.profiles import make_profile
from tests.support import ROOT, check_flags, run_python


def run(*arguments):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


def test_a_plan_needs_neither_data_nor_a_gpu():
    result = run("--gpu-memory", 12288, "--model-size", "normal")
    assert result.exit_code == 0, result.output
    assert "weights (exact)" in result.stdout
    command = result.stdout.splitlines()[-1]
    assert command.startswith("Recommended: ")
    assert "the published table says 8 for 12 GB" in result.stdout
    for flag in ("--batch-size 16", "--data-gpu-memory 4096", "--prefetch-buffer-size 6"):
        assert flag in command


def test_a_plan_shows_replicas_without_a_profile_and_says_that_it_is_calculated():
    lines = run("--gpu-memory", 12288, "--model-size", "tiny").stdout.splitlines()
    (command,) = (line for line in lines if line.startswith("Replicas: "))
    assert "--replicas 2" in command
    assert "--data-gpu" not in command
    check_flags(command.split("myxtts ", 1)[1].split())
    assert any("calculated, not measured" in line for line in lines)
    small = run("--gpu-memory", 1100, "--model-size", "tiny", "--batch-size", 20).stdout
    assert "A replica on each card does not fit" in small


def test_a_plan_that_does_not_fit_exits_with_1():
    result = run("--gpu-memory", 1500, "--model-size", "big", "--max-mel-frames", 4000)
    assert result.exit_code == 1
    assert "does NOT fit" in result.stdout


def test_without_a_card_and_without_its_size_there_is_nothing_to_plan_for():
    assert isinstance(run().exception, ConfigError)


@pytest.fixture
def profile_file(tmp_path):
    slow_disk = {"read": 0.5, "read_cached": 0.001}
    path = tmp_path / "profile.json"
    path.write_text(make_profile(seconds=slow_disk, data={"num_workers": 4}).to_json())
    return path


def test_a_saved_profile_is_asked_what_if(profile_file):
    result = run("--profile", profile_file, "--what-if", "depth=4,num_workers=8")
    assert result.exit_code == 0, result.output
    assert "2.00 times the rate, predicted" in result.stdout
    assert "--pipeline-depth 4" in result.stdout
    assert "--num-workers 8" in result.stdout


def test_a_saved_profile_gives_its_advice(profile_file):
    result = run("--profile", profile_file)
    assert result.exit_code == 0, result.output
    assert "1. --num-workers" in result.stdout
    assert "Recommended: " in result.stdout


@pytest.mark.parametrize("asked", ["colour=red", "depth", "depth=", "depth=0", "num_workers=many"])
def test_a_question_that_makes_no_sense_is_refused_in_words(profile_file, asked):
    error = run("--profile", profile_file, "--what-if", asked).exception
    assert isinstance(error, ConfigError)
    assert error.remedy


def test_what_is_no_profile_is_refused_in_words(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"config": {}}')
    error = run("--profile", path).exception
    assert isinstance(error, DataError)
    assert "not a profile" in error.problem
    assert isinstance(run("--what-if", "depth=4").exception, ConfigError)


def test_the_profilers_script_runs_from_anywhere_and_its_help_loads_no_tensorflow():
    script = ROOT / "utilities" / "dual_gpu_bottleneck_profiler.py"
    program = (
        "import os, runpy, sys\n"
        f"os.chdir('/'); sys.argv = [{str(script)!r}, '--help']\n"
        f"try: runpy.run_path({str(script)!r}, run_name='__main__')\n"
        "finally: print('loaded:', *(m for m in ('tensorflow', 'keras') if m in sys.modules))"
    )
    result = run_python(["-c", program], PYTHONPATH="")
    assert result.stdout.endswith("loaded:\n"), result.stderr
    for flag in ("--batch-size", "--num-steps", "--data-gpu", "--model-gpu", "--json", "--trace"):
        assert flag in result.stdout
