"""The reference says what the code says, in both languages."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from myxtts.config.commands import settings
from tests.support import ROOT
from tests.test_cli import FLAG_SETTINGS
from utilities import write_reference as reference

PAGES = reference.pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_pages_are_those_the_code_gives(path):
    assert path.read_text(encoding="utf-8") == PAGES[path], (
        "the code has changed: python utilities/write_reference.py"
    )


def test_every_help_text_has_its_persian_and_no_persian_is_left_over():
    assert set(reference.WORDS["persian"]) == reference.help_texts()


def test_persian_is_persian():
    persian = re.compile("[\u0600-\u06ff]")
    texts = [setting.fa for setting in settings().values()]
    texts += [switch.fa for setting in settings().values() for switch in setting.switches]
    for text in (*texts, *reference.WORDS["persian"].values(), *reference.PHRASES["fa"][:-1]):
        assert persian.search(text), text
        assert "ي" not in text, text  # the Arabic letters that look the same
        assert "ك" not in text, text


MIRRORED = [
    ("docs/en/reference-cli.md", "docs/fa/reference-cli.md"),
    ("docs/en/reference-config.md", "docs/fa/reference-config.md"),
    ("CONTRIBUTING.md", "CONTRIBUTING.fa.md"),
]


@pytest.mark.parametrize("names", MIRRORED, ids=lambda names: names[0])
def test_both_languages_have_the_same_tables_headings_and_code(names):
    english, persian = ((ROOT / name).read_text(encoding="utf-8") for name in names)
    assert english.count("\n|") == persian.count("\n|")
    assert re.findall(r"^#+ ", english, re.M) == re.findall(r"^#+ ", persian, re.M)
    code = [set(re.findall(r"`([^`\n]+)`", text)) for text in (english, persian)]
    assert code[0] == code[1]


def test_code_in_persian_keeps_its_direction():
    documents = [path.read_text(encoding="utf-8") for path in PAGES if path.parent.name == "fa"]
    documents.append((ROOT / "CONTRIBUTING.fa.md").read_text(encoding="utf-8"))
    for text in documents:
        codes = re.findall(r"(.)(?<!`)`[^`\n]+`(?!`)(.)", text)
        assert codes
        assert set(codes) == {(reference.LEFT_TO_RIGHT, reference.LEFT_TO_RIGHT)}


def test_a_setting_names_the_flag_that_sets_it():
    for example, (name, _) in FLAG_SETTINGS.items():
        assert example.split()[0] in reference.typed(settings()[name]).split(" / ")


def test_every_setting_and_flag_is_in_its_page():
    config = PAGES[ROOT / "docs" / "en" / "reference-config.md"]
    assert "| `pipeline_depth` | `int > 0, <= 1000` | `3` | `--pipeline-depth` |" in config
    command_line = PAGES[ROOT / "docs" / "en" / "reference-cli.md"]
    assert "| `--port N` | `8090`, `0<=x<=65535` |" in command_line
    assert r"| `--model-size tiny\|small\|normal\|big` | `normal` |" in command_line


def test_writing_it_needs_no_tensorflow():
    program = "import sys; import utilities.write_reference; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
