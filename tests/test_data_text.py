"""`myxtts data text` shows what will be said; `data check` lists what was guessed."""

from __future__ import annotations

import json

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from myxtts.cli.app import app
from myxtts.errors import DataError
from myxtts.text import espeak

pytestmark = pytest.mark.skipif(not espeak.is_available(), reason="espeak-ng is not installed")


def run(*arguments: str, **options):
    return CliRunner().invoke(app, ["data", *arguments], **options)


def test_json_is_a_list_of_word_ezafe_phonemes_and_source():
    result = run("text", "--language", "fa", "--json", "کتاب من، قلمبرشتوک!")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [set(row) for row in rows] == [{"word", "ezafe", "phonemes", "source"}] * 3
    assert rows[0] == {"word": "کتاب", "ezafe": True, "phonemes": "ketˈɑbe", "source": "lexicon"}
    assert [row["source"] for row in rows] == ["lexicon", "lexicon", "guess"]


def test_the_table_shows_readings_and_what_is_uncertain():
    result = run("text", "--language", "fa", "مهر مادر و قلمبرشتوک")
    assert result.exit_code == 0, result.output
    for shown in (
        "mehr-e",
        "mˈehre",
        "uncertain",
        "or mohr",
        "guessed by espeak-ng",
        "--lexicon",
    ):
        assert shown in result.stdout


@pytest.mark.parametrize(
    ("language", "text", "phonemes"),
    [("en", "Hello 3", ["həlˈoʊ", "θɹˈiː"]), ("de", "Guten Tag", ["ɡˈuːtən", "tˈɑːk"])],
)
def test_every_language_is_shown(language, text, phonemes):
    rows = json.loads(run("text", "--language", language, "--json", text).stdout)
    assert [row["phonemes"] for row in rows] == phonemes
    assert {row["source"] for row in rows} == {"espeak-ng"}
    assert not any(row["ezafe"] for row in rows)


def test_a_lexicon_of_the_user_is_named_as_the_source(tmp_path):
    (tmp_path / "lexicon.csv").write_text("Nguyen,/wˈɪn/\n", encoding="utf-8")
    lexicon = str(tmp_path / "lexicon.csv")
    rows = json.loads(run("text", "--lexicon", lexicon, "--json", "Nguyen came").stdout)
    assert rows[0] == {"word": "Nguyen", "ezafe": False, "phonemes": "wˈɪn", "source": "user"}


def test_text_from_standard_input_and_text_of_another_script():
    assert "həlˈoʊ" in run("text", "-", input="Hello").stdout
    result = run("text", "سلام")
    assert isinstance(result.exception, DataError)
    assert "--language fa" in str(result.exception)
    assert "Nothing in it is said" in run("text", "...").stdout


def test_data_check_lists_guessed_words_the_most_frequent_first(tmp_path):
    rows = ["audio_file|text|language"]
    texts = ("قلمبرشتوک آمد", "قلمبرشتوک و بلغمشتیر", "سلام دنیا")
    for i, text in enumerate(texts):
        wave = np.sin(np.arange(44100) / 9).astype(np.float32) / 4
        soundfile.write(tmp_path / f"c{i}.wav", wave, 22050)
        rows.append(f"c{i}.wav|{text}|fa")
    (tmp_path / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    page = tmp_path / "page.html"
    result = run("check", str(tmp_path), "--language", "fa", "--report", str(page), "--lang", "fa")
    assert "guessed (2), most frequent first: قلمبرشتوک x 2, بلغمشتیر x 1" in result.stdout
    assert "قلمبرشتوک" in page.read_text(encoding="utf-8")
