"""The wheel a user installs holds all of MyXTTS, nothing else, and works far from a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support import ROOT

COPIED = ("myxtts", "pyproject.toml", "README.md", "LICENSE")
NOT_SOURCE = {"__pycache__", ".mypy_cache", ".DS_Store"}


def pip(*arguments: str) -> None:
    options = ("--quiet", "--disable-pip-version-check", "--no-deps")
    subprocess.run([sys.executable, "-m", "pip", *arguments, *options], check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy: building leaves its files beside the sources."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    subprocess.run(["cp", "-r", *(str(ROOT / name) for name in COPIED), str(source)], check=True)
    pip("wheel", str(source), "--wheel-dir", str(built), "--no-build-isolation", "--no-index")
    (found,) = built.glob("myxtts-*-py3-none-any.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--target", str(folder), "--no-index", str(wheel))
    return folder


def run_installed(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed program from a folder that holds nothing of the checkout."""
    return subprocess.run(
        [sys.executable, str(installed / "bin" / "myxtts"), *arguments],
        cwd=installed.parent,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "myxtts").rglob("*")
        if path.is_file() and not NOT_SOURCE & set(path.parts)
    }
    assert held == sources
    for package in ("pages", "profiling", "evaluation", "cli", "inference"):
        assert f"myxtts/{package}/__init__.py" in held


def test_the_wheel_says_what_it_is_and_needs(wheel):
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    text = archive.read(metadata).decode()
    for line in (
        "License-Expression: Apache-2.0",
        "Requires-Python: <3.14,>=3.10",
        "Requires-Dist: tensorflow<2.22,>=2.21",
        "Provides-Extra: gpu",
        "Provides-Extra: demo",
        "Description-Content-Type: text/markdown",
    ):
        assert f"\n{line}\n" in text
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


def test_the_installed_command_answers_outside_the_checkout(installed):
    result = run_installed(installed, "demo", "--help")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("Usage: myxtts demo")
    program = (
        "from myxtts.pages.render import environment as templates\n"
        "print(templates().get_template('report.html').filename)"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    found = subprocess.check_output(
        [sys.executable, "-c", program], cwd=installed.parent, env=environment, text=True
    )
    assert Path(found.strip()).parent == installed / "myxtts" / "pages" / "templates"


@pytest.mark.slow
def test_the_installed_command_validates_outside_the_checkout(installed):
    result = run_installed(installed, "validate", "--simulate")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.endswith("All validation checks passed!\n")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_empty_environment_gets_all_it_needs_with_the_wheel(wheel, tmp_path):
    bin_ = tmp_path / "venv" / "bin"
    subprocess.run([sys.executable, "-m", "venv", str(bin_.parent)], check=True)
    subprocess.run([bin_ / "pip", "install", "--quiet", str(wheel)], check=True)
    for arguments in (["demo", "--help"], ["validate", "--simulate"]):
        result = subprocess.run(
            [bin_ / "myxtts", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
