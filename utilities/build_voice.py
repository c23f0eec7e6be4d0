#!/usr/bin/env python3
"""Build `myxtts-voice`, the small distribution that speaks without TensorFlow, from this checkout.

    python utilities/build_voice.py OUT_DIR

It is the modules that the ONNX voice and the server need, found by following their imports, under
the name `myxtts_voice`: so it can be installed beside `myxtts` and neither touches the other's
files. Nothing is written but the wheel.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME, PACKAGE = "myxtts-voice", "myxtts_voice"
# What is used from outside; all else follows.
ENTRIES = (
    "myxtts.serving.command",
    "myxtts.inference.small.voice",
    "myxtts.serving.running",
)
FORBIDDEN = {"tensorflow", "keras", "pydantic", "matplotlib", "typer", "yaml"}
DATA = ("corpora/sentences", "text/persian/data")
_NAME = re.compile(r"\bmyxtts\b(?=\.[a-z_])|(?<=from )myxtts(?= import)")

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{version}"
description = "Speak with voices trained by MyXTTS, without TensorFlow."
requires-python = ">=3.10,<3.14"
license = "Apache-2.0"
license-files = ["LICENSE"]
dependencies = [
    "numpy>=2",
    "onnxruntime>=1.25,<1.29",  # before it SymPy comes along, later ones are 10 MB larger
    "soundfile>=0.12",
    "soxr>=0.5",
    "espeakng-loader>=0.2",
    "num2words>=0.5.14",
    "threadpoolctl>=3.5",
    "typing-extensions>=4.10",
]

[project.optional-dependencies]
persian = ["gruut-lang-fa>=2.0.1,<3"]
serve = ["prometheus-client>=0.21", "starlette>=0.41", "uvicorn>=0.32", "wyoming>=1.7"]

[project.scripts]
{name} = "{package}.serving.command:main"

[tool.setuptools.packages.find]
include = ["{package}*"]

[tool.setuptools.package-data]
"*" = ["data/*", "sentences/*.txt"]
"""


def find_modules() -> dict[str, Path]:
    """Every module of ours that the entries need, by name; refuses what they must not need."""
    found: dict[str, Path] = {}
    waiting = list(ENTRIES)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        path = _path_of(name)
        if path is None:
            continue
        found[name] = path
        waiting.append(name.rpartition(".")[0])  # the package it is in
        for imported in _imports(path):
            if imported.partition(".")[0] in FORBIDDEN:
                sys.exit(f"{name} needs {imported}, which {NAME} must do without")
            waiting.append(imported)
    return found


def _path_of(name: str) -> Path | None:
    if name.partition(".")[0] != "myxtts":
        return None
    base = ROOT.joinpath(*name.split("."))
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return file if file.is_file() else None


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def write_tree(folder: Path) -> None:
    """The sources of the distribution."""
    for name, path in find_modules().items():
        target = folder / PACKAGE / path.relative_to(ROOT / "myxtts")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8")
        if name == "myxtts.inference":
            text = '"""Speaking without TensorFlow."""\n'  # its names are those of TensorFlow's
        target.write_text(_NAME.sub(PACKAGE, text), encoding="utf-8")
    for data in DATA:
        shutil.copytree(ROOT / "myxtts" / data, folder / PACKAGE / data, dirs_exist_ok=True)
    shutil.copy(ROOT / "LICENSE", folder)
    version = re.search(r'__version__ = "(.+)"', (ROOT / "myxtts/__init__.py").read_text())
    assert version is not None
    pyproject = _PYPROJECT.format(name=NAME, package=PACKAGE, version=version[1])
    (folder / "pyproject.toml").write_text(pyproject)


def build(out: Path) -> Path:
    """The wheel, in the folder."""
    with tempfile.TemporaryDirectory() as folder:
        write_tree(Path(folder))
        options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
        command = [sys.executable, "-m", "pip", "wheel", folder, "--wheel-dir", str(out)]
        subprocess.run([*command, *options, "--disable-pip-version-check"], check=True)
    return max(out.glob(f"{PACKAGE}-*.whl"), key=lambda path: path.stat().st_mtime)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder for the wheel")
    print(build(parser.parse_args().out))
