"""`myxtts-voice`: all it needs is in it, TensorFlow is not, and it speaks far from a checkout."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import soundfile

from myxtts.text import espeak
from tests.small_voice import FIXTURE
from utilities.build_voice import FORBIDDEN, build, find_modules, write_tree

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng reads the words")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    write_tree(folder)
    return folder


def run(tree, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command where neither MyXTTS nor what it must do without can be imported."""
    names = sorted({*FORBIDDEN, "myxtts"})
    program = (
        "import sys\n"
        f"for name in {names!r}: sys.modules[name] = None\n"
        "from myxtts_voice.serving.command import main\n"
        "sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_says_and_times_a_text_without_tensorflow(tree, tmp_path):
    done = run(
        *(tree, "say", FIXTURE, "Hello {Bob|/bˈɒb/}.", "--output", tmp_path / "a.wav"),
        *("--times", tmp_path / "a.srt", "--loudness", "-20"),
    )
    assert done.returncode == 0, done.stderr
    assert soundfile.info(tmp_path / "a.wav").duration > 0.5
    assert "Hello Bob." in (tmp_path / "a.srt").read_text()


def test_it_says_what_an_export_is_and_what_is_wrong_with_another(tree, tmp_path):
    assert "voices     default" in run(tree, "info", FIXTURE).stdout
    done = run(tree, "info", tmp_path)
    assert done.returncode == 2
    assert "no ONNX export" in done.stderr
    assert "try:" in done.stderr


def test_the_server_is_in_it_too():
    found = find_modules()
    assert "myxtts.serving.wyoming_server" in found
    assert "myxtts.inference.synthesizer" not in found
    assert not any(name.startswith(("myxtts.models", "myxtts.training")) for name in found)


@pytest.mark.slow
def test_it_is_built_as_a_small_wheel(tmp_path):
    assert build(tmp_path).stat().st_size < 1_000_000
