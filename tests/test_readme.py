"""The two READMEs say the same, and what they say runs."""

from __future__ import annotations

import re
import shlex

import pytest

from myxtts.data.demo import make_demo_corpus
from myxtts.data.tokenizers import PhonemeTokenizer
from tests.small_runs import save_run
from tests.support import ROOT, run_python

ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
PERSIAN = (ROOT / "README.fa.md").read_text(encoding="utf-8")


def code_blocks(text: str, language: str = r"\w*") -> list[str]:
    return re.findall(rf"^```(?:{language})\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def headings(text: str) -> list[str]:
    outside_code = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^(#+) ", outside_code, re.MULTILINE)


def test_both_languages_have_the_same_headings_tables_and_code():
    assert headings(ENGLISH) == headings(PERSIAN)
    assert code_blocks(ENGLISH) == code_blocks(PERSIAN)
    inline = [set(re.findall(r"`([^`\n]+)`", text)) for text in (ENGLISH, PERSIAN)]
    assert inline[0] == inline[1]
    assert ENGLISH.count("\n|") == PERSIAN.count("\n|")


SPEAKING, ENGINE = code_blocks(ENGLISH, "python")


def test_the_engines_python_example_runs():
    result = run_python(["-c", ENGINE])
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() in ("read", "process", "transfer", "train")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """In place of `demo`, with an untrained voice where `make demo` leaves one after minutes."""
    folder = tmp_path_factory.mktemp("readme")
    save_run(folder / "run", tokenizer=PhonemeTokenizer())
    return folder


def test_the_speaking_python_example_runs(scratch):
    make_demo_corpus(scratch / "corpus")  # found by the command below, which makes the same
    result = run_python(["-c", SPEAKING.replace("demo/", f"{scratch}/")])
    assert result.returncode == 0, result.stderr
    seconds, *chunks = result.stdout.splitlines()
    assert seconds.endswith(" seconds")
    assert len(chunks) == 2


COMMANDS = [
    shlex.split(line, comments=True)
    for block in code_blocks(ENGLISH, "bash")
    for line in block.splitlines()
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_is_one_this_checkout_has(command, scratch):
    program, *arguments = command
    if program == "make":
        makefile = (ROOT / "Makefile").read_text()
        assert re.search(rf"^{arguments[0]}:.*## ", makefile, re.MULTILINE)
        return  # this very test runs inside `make test`; the demo has a test of its own
    if program.endswith("myxtts"):
        arguments = ["-m", "myxtts", *arguments]
    elif "validate" in arguments[0]:
        arguments = [*arguments, "--help"]  # needs two GPUs; test_cli.py runs it simulated
    elif "--train-data" in arguments:
        arguments = [*arguments, "--print-config"]  # trains for long; test_trainer.py does so
    # What a document writes goes into the temporary folder of the whole run, not the checkout.
    arguments = [word.replace("demo/", f"{scratch}/") for word in arguments]
    result = run_python(arguments)
    assert result.returncode == 0, result.stdout + result.stderr
