"""What the voice commands refuse, ask for, and check before TensorFlow is loaded."""

from __future__ import annotations

import shlex

import numpy as np
import pytest
import soundfile

from myxtts.features.audio import SAMPLE_RATE
from tests.small_runs import hum, save_voice
from tests.support import run_python


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run, its export and references, good and bad."""
    folder = save_voice(tmp_path_factory.mktemp("speaking"))
    soundfile.write(folder / "short.wav", hum(1.25), SAMPLE_RATE)
    soundfile.write(folder / "silent.wav", np.zeros(3 * SAMPLE_RATE), SAMPLE_RATE)
    (folder / "broken.wav").write_bytes(b"RIFF and nothing more")
    (folder / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    (folder / "empty.txt").write_text(" \n")
    return folder


@pytest.fixture
def flags(folder):
    return ["synthesize", "--model", folder / "run", "--reference", folder / "reference.wav"]


# Flags that stand for others of the same name, and what is said about them.
WRONG = {
    "--text '  '": "The text is empty",
    "--text ...": "nothing this voice can say",
    "--text One. --text-file {}/empty.txt": "more than one text",
    "--text One. word": "'word' belongs to no flag",
    "": "There is no text to say",
    "--text-file {}/empty.txt": "The text is empty",
    "--text-file {}/missing.txt": "missing.txt cannot be read",
    "--text-file {}/latin.txt": "is not UTF-8",
    "--text One. --language klingon": "the language 'klingon' is unknown",
    "--text One. --speed 9": "The speed is 9.0",
    "--text One. --pitch-shift 99": "The pitch shift is 99.0 semitones",
    "--text One. --seed -1": "Invalid value for '--seed'",
    "--text One. --model {}": "neither a run folder nor an exported voice",
    "--text One. --output {}/none/out.wav": "none does not exist",
    "--text One. --output {}/out.mp3": "ends with .wav or .flac",
    "--text One. --output {}/empty.txt": "ends with .wav or .flac",
    "--text One. --output {}/dir.wav": "is a folder, not a file",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_flags_exit_with_2_and_a_sentence(run_command, flags, folder, words):
    (folder / "dir.wav").mkdir(exist_ok=True)
    given = [word.format(folder) for word in shlex.split(words)]
    before = sorted(folder.iterdir())
    output = [] if "--output" in given else ["--output", folder / "out.wav"]
    code, out, err = run_command(*flags, *output, *given)
    assert (code, out) == (2, b"")
    assert WRONG[words] in " ".join(err.split())
    assert "Traceback" not in err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.wav", "does not exist"),
        ("short.wav", "holds 1.25 s of sound, and 2 s are needed"),
        ("silent.wav", "is silent"),
        ("broken.wav", "cannot be read"),
    ],
)
def test_a_bad_reference_exits_with_2_and_says_why(run_command, folder, name, message):
    flags = ["synthesize", "--model", folder / "run", "--reference", folder / name]
    code, _, err = run_command(*flags, "--text", "One.", "--output", folder / "out.wav")
    assert code == 2
    assert message in err
    assert "try: " in err


def test_what_is_required_is_asked_for(run_command, folder):
    model, output = ["--model", folder / "run"], ["--output", folder / "out.wav"]
    for given, message in (
        ([*output], "--model RUN_OR_EXPORT"),
        ([*model], "--output FILE.wav"),
        ([*model, *output], "--reference FILE.wav"),
    ):
        code, _, err = run_command("synthesize", "--text", "One.", *given)
        assert code == 2
        assert message in err


def test_export_writes_a_folder_and_says_what_is_next(run_command, folder, tmp_path):
    code, out, err = run_command("export", folder / "run", tmp_path / "new" / "voice")
    assert code == 0, err
    assert b"myxtts synthesize --model" in out
    assert (tmp_path / "new" / "voice" / "README.md").is_file()
    code, _, err = run_command("export", folder / "run", folder)
    assert code == 2
    assert "is left alone" in err


@pytest.mark.parametrize("words", ["synthesize --help", "export --help", "synthesize", "export"])
def test_help_and_what_is_checked_need_no_tensorflow(folder, words):
    given = words.split()
    if given == ["synthesize"]:  # all is read, planned and refused: a text with nothing to say
        given += ["--model", str(folder / "voice"), "--output", str(folder / "out.wav")]
        given += ["--reference", str(folder / "reference.wav"), "--text", "..."]
    elif given == ["export"]:
        given += [str(folder / "run"), str(folder / "again")]
    program = (
        f"import sys; sys.argv[1:] = {given!r}\n"
        "import myxtts.inference\n"
        "from myxtts.cli.app import main\n"
        "try: main()\n"
        "finally: print('loaded:', *(m for m in ('tensorflow', 'keras') if m in sys.modules))"
    )
    result = run_python(["-c", program])
    assert result.stdout.endswith("loaded:\n")
    assert ("nothing this voice can say" in result.stderr) == ("..." in given)
