"""The two READMEs say the same, and what they say runs."""

from __future__ import annotations

import re
import shlex

import pytest

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


def test_the_python_example_runs():
    (program,) = code_blocks(ENGLISH, "python")
    result = run_python(["-c", program])
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() in ("read", "process", "transfer", "train")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


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
        arguments = [*arguments, "--simulate"]  # as printed it needs two GPUs
    elif "--train-data" in arguments:  # as printed it trains for long, the second on two GPUs
        arguments = [*arguments, "--simulate", "--max-steps=1", "--optimization-level=basic"]
    # What a document writes goes into the temporary folder of the whole run, not the checkout.
    arguments = [word.replace("demo/", f"{scratch}/") for word in arguments]
    result = run_python(arguments)
    assert result.returncode == 0, result.stdout + result.stderr
