"""The Python in the README and in the guides runs; commands: test_documented_commands.py."""

from __future__ import annotations

import re

import pytest

from myxtts.corpora.demo import make_demo_corpus
from myxtts.text.tokenizers import PhonemeTokenizer
from tests.small_runs import save_run
from tests.support import ROOT, run_warm

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs" / "en").glob("*.md"))]
EXAMPLES = [
    pytest.param(code, id=f"{document.stem}-{number}")
    for document in DOCUMENTS
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```", document.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
]
assert len(EXAMPLES) >= 5  # the documents were found, and read


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """After `make demo`, with a voice that was never trained."""
    folder = tmp_path_factory.mktemp("readme")
    make_demo_corpus(folder / "demo" / "corpus", sentences=64, held_out=8)
    save_run(folder / "demo" / "run", tokenizer=PhonemeTokenizer())
    return folder


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_python_example_runs_and_has_something_to_say(code, folder):
    result = run_warm(["-c", code], cwd=folder)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
