"""The examples run as they stand."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys

import pytest
import soundfile

from myxtts.text import espeak
from tests.support import ROOT, run_warm

EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
needs_espeak = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng is not installed")


RUN_BY_HAND = [
    *("train_main.py", "validate_memory_isolation.py", "validate_dual_gpu_pipeline.py"),
    *("utilities/dual_gpu_bottleneck_profiler.py", "utilities/write_reference.py"),
    *(f"examples/{script.name}" for script in [*SCRIPTS, *EXAMPLES.glob("*.sh")]),
]


@pytest.mark.parametrize("name", RUN_BY_HAND)
def test_a_script_is_run_by_its_name(name):
    script = ROOT / name
    assert script.read_bytes().startswith(b"#!/usr/bin/env ")
    assert os.access(script, os.X_OK)


def test_a_script_finds_the_python_of_the_environment_and_the_package_beside_it(tmp_path):
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path} | {"PYTHONPATH": ""}
    said = subprocess.run(
        [ROOT / "train_main.py", "--help"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--train-data" in said.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_what_an_example_imports_exists(script):
    tree = ast.parse(script.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if node.module and node.module.startswith("myxtts")]
    assert ours
    for node in ours:
        module = importlib.import_module(node.module)
        for name in node.names:
            assert hasattr(module, name.name), f"{node.module} has no {name.name}"


def test_isolated_training_goes_through_its_seven_steps(tmp_path):
    run = tmp_path / "run"
    arguments = ["--simulate", "--steps", "2", "--checkpoint-dir", str(run)]
    result = run_warm(["examples/memory_isolated_training.py", *arguments])
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.findall(r"^(\d)/7 ", result.stdout, re.MULTILINE) == list("1234567")
    assert "data GPU 0: 8192 MB, model GPU 1: 16384 MB" in result.stdout
    assert re.search(r"loss \d+\.\d+ after 2 steps", result.stdout)
    assert (run / "checkpoints" / "step_00000002").is_dir()


def test_isolated_training_without_gpus_says_so():
    result = run_warm(["examples/memory_isolated_training.py"], CUDA_VISIBLE_DEVICES="-1")
    assert result.returncode == 1
    assert "--simulate" in result.stdout
    assert result.stderr.startswith("error: There is no GPU 0 to read")


@pytest.mark.parametrize("mode", [["--simulate"], []], ids=["two devices", "one device"])
def test_the_engine_trains_someone_elses_model(mode):
    arguments = ["examples/custom_model.py", *mode, "--steps", "75"]
    result = run_warm(arguments, CUDA_VISIBLE_DEVICES="-1")
    assert result.returncode == 0, result.stdout + result.stderr
    (share,) = re.findall(r"step 75: (\d+)% told apart", result.stdout)
    assert int(share) > 90  # half of it would be a guess


def test_the_walkthrough_is_a_notebook_of_cells():
    text = (EXAMPLES / "walkthrough.py").read_text(encoding="utf-8")
    cells = re.split(r"^# %%", text, flags=re.MULTILINE)
    assert cells[0] == "#!/usr/bin/env python3\n"  # Jupytext knows it
    for cell in cells[1:]:
        kind, _, body = cell.partition("\n")
        assert kind in (" [markdown]", "")
        if kind:
            assert all(line.startswith("#") for line in body.splitlines() if line)
        else:
            compile(body, "cell", "exec")


@pytest.mark.slow
@needs_espeak
@pytest.mark.timeout(900)
def test_the_walkthrough_ends_in_speech(tmp_path):
    result = run_warm([str(EXAMPLES / "walkthrough.py")], timeout=900, cwd=tmp_path, STEPS="3")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "200 of 200 clips kept" in result.stdout
    assert "The slowest stage is" in result.stdout
    assert soundfile.info(tmp_path / "walkthrough" / "alice.wav").duration > 0.2


@pytest.mark.slow
@needs_espeak
@pytest.mark.timeout(900)
def test_the_shell_example_validates_trains_and_shows(tmp_path):
    run = tmp_path / "run"
    result = subprocess.run(
        ["bash", str(EXAMPLES / "gpu_pipeline_example.sh")],
        env={
            **os.environ,
            "SIMULATE": "1",
            "STEPS": "2",
            "RUN": str(run),
            "PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "All validation checks passed!" in result.stdout
    assert "Trained 2 steps" in result.stdout
    assert (run / "checkpoints" / "step_00000002").is_dir()


def test_the_shell_example_stops_at_the_first_failure():
    script = str(EXAMPLES / "gpu_pipeline_example.sh")
    environment = {**os.environ, "PYTHON": "false"}
    result = subprocess.run(["bash", script], env=environment, capture_output=True, check=False)
    assert result.returncode == 1
    assert b"2. Recordings" not in result.stdout
