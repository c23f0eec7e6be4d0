"""What a change must pass is run on every Python that is supported, import contract included."""

from __future__ import annotations

import os
import re
import subprocess

import yaml
from packaging.specifiers import SpecifierSet

from tests.support import ROOT


def supported() -> list[str]:
    (asked,) = re.findall(r'^requires-python = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    return [f"3.{minor}" for minor in range(40) if f"3.{minor}" in SpecifierSet(asked)]


def test_ci_runs_the_checks_on_every_supported_python():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == supported()
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", name) for name in used), used
    (setup,) = (step["with"] for step in job["steps"] if "setup-python" in step.get("uses", ""))
    assert setup["python-version"] == "${{ matrix.python }}"
    (script,) = (step["run"] for step in job["steps"] if "run" in step)
    assert os.access(ROOT / script, os.X_OK)
    assert "make check test" in (ROOT / script).read_text()


def test_make_takes_the_same_pythons():
    first, last = supported()[0], supported()[-1]
    assert f"MyXTTS needs Python {first} to {last}," in (ROOT / "Makefile").read_text()


def test_make_check_runs_linter_formatter_types_and_the_import_contract():
    command = ["make", "--dry-run", "--assume-old=.venv/installed", "check"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for tool in ("ruff check .", "ruff format --check .", "-m mypy", "lint-imports"):
        assert tool in told, told
