"""Any text in any column of any format is read back, or its row gets a verdict; none is lost."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import example, given, settings
from hypothesis import strategies as st

from myxtts.config.config import DataConfig
from myxtts.data.list_forms import Clip
from myxtts.data.manifests import read_manifest
from myxtts.data.prepare import prepare_data
from myxtts.data.summary import summarise, write_verdicts
from myxtts.data.verdicts import REMEDIES
from myxtts.messages import harmless

HEADER = ("audio_file", "text", "speaker_name", "language")
FIRST = ("first.wav", "Before.", "Ann", "en")
LAST = ("last.wav", "After.", "Bob", "fa")
ODD = "|\t,\"'\n\r\0\x1b\x85\u2028\u202e\u200c\ufeff\ud800\udcff\\[]{}:  aی\U0001f600"

# Two halves beside each other are one character to JSON.
whole = re.compile("[\ud800-\udbff][\udc00-\udfff]")
cells = st.text(st.sampled_from(ODD), max_size=12) | st.text(st.characters(), max_size=12)
cells = cells.filter(lambda cell: not whole.search(cell))
rows = st.lists(st.tuples(cells, cells, cells, cells), max_size=4)


def is_unicode(text):
    return text == text.encode(errors="replace").decode()


def expected(row):
    """What a row means where its format can hold it; None if it must be reported."""
    audio, text, speaker, language = (cell.strip() for cell in row)
    names = f"{audio}{speaker}{language}"
    if not audio or harmless(names) != names or not is_unicode(text):
        return None
    return Clip(audio, text, speaker or "speaker", language.lower().replace("_", "-") or "en")


def written(row, form):
    """A row as a line of the format."""
    if form == "json":
        return json.dumps(dict(zip(HEADER, row, strict=False)))
    if form == "json, as it is":
        return json.dumps(dict(zip(HEADER, row, strict=False)), ensure_ascii=False)
    if form == ",":
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(row)
        return line.getvalue()
    return form.join(row)


def can_hold(row, form):
    """Whether the line says the same as the row."""
    if form.startswith("json"):
        return True
    whole = "".join(row)
    if "\n" in whole or (form == "," and "\r" in whole):
        return False
    return form == "," or form not in whole


def read(text, form, delimiter=None):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("metadata.jsonl" if form.startswith("json") else "metadata.csv")
        path.write_bytes(text.encode(errors="surrogatepass"))
        return read_manifest(path, delimiter=delimiter)


def check(manifest, given_rows, lines, form, meaning):
    """Every line is listed in its order; what the format can hold is read back or reported."""
    whole = "\n".join(lines)
    assert len(manifest) == sum(bool(line.strip()) for line in whole.split("\n"))
    assert manifest[0] == meaning(FIRST)
    assert manifest[len(manifest) - 1] == meaning(LAST)
    assert not {0, len(manifest) - 1} & set(manifest.bad_rows)
    place = 0
    for row, line in zip(given_rows, lines, strict=True):
        listed = sum(bool(part.strip()) for part in line.split("\n"))
        if listed == 1 and can_hold(row, form):
            if meaning(row) is None:
                assert place in manifest.bad_rows
            else:
                assert manifest[place] == meaning(row)
                assert place not in manifest.bad_rows
        place += listed


@pytest.mark.parametrize("form", ["|", "\t", ",", "json", "json, as it is"])
@given(rows)
@example([("a", '"', "", ""), ("b", "x", "", "")])
@example([("a", "x\ry", "Andr\udce9", "")])
@settings(max_examples=60, deadline=None)
def test_any_text_in_any_column_is_read_back_or_reported(form, middle):
    given_rows = [FIRST, *middle, LAST]
    lines = [written(row, form) for row in given_rows]
    header = [] if form.startswith("json") else [form.join(HEADER)]
    manifest = read("\n".join([*header, *lines]), form)
    check(manifest, given_rows, lines, form, expected)


@pytest.mark.parametrize("form", ["|", "\t", ","])
@given(st.lists(st.tuples(cells, cells), max_size=4))
@settings(max_examples=60, deadline=None)
def test_without_a_header_as_well(form, middle):
    given_rows = [FIRST[:2], *middle, *[("x", "y")] * 8, LAST[:2]]
    lines = [written(row, form) for row in given_rows]
    manifest = read("\n".join(lines), form, delimiter=form)

    def meaning(row):
        return expected((*row[:2], "", ""))

    check(manifest, given_rows, lines, form, meaning)


@given(st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_listed_line_by_line(middle):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metadata.csv"
        path.write_bytes(b"path|text\nfirst|x\n" + middle + b"\nlast|y\n")
        manifest = read_manifest(path)
    lines = middle.decode(errors="surrogateescape").split("\n")
    assert len(manifest) == 2 + sum(bool(line.strip()) for line in lines)
    assert (manifest.audio[0], manifest.audio[-1]) == ("first", "last")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    soundfile.write(folder / "a.wav", 0.3 * np.sin(np.arange(22_050) / 20), 22_050)
    return folder


# A row without a language has that of --language, whose script is judged for the whole list.
@given(
    st.lists(st.tuples(st.just("a") | cells, cells, cells, st.just("en") | cells.filter(str.strip)))
)
@settings(max_examples=40, deadline=None)
def test_every_row_gets_a_verdict_and_what_is_kept_can_be_written_down(folder, some):
    given_rows = [*some, ("a", "Hello.", "Ann", "zh_CN")]
    lines = [written(row, "json") for row in given_rows]
    (folder / "metadata.jsonl").write_text("\n".join(lines))
    prepared = prepare_data(folder, DataConfig(tokenizer="characters", language="ko"))
    reasons = [verdict.reason for verdict in prepared.verdicts]
    assert len(reasons) == len(given_rows)
    assert set(reasons) <= {"", *REMEDIES}
    assert reasons[-1] == ""
    table = prepared.table()
    json.dumps(table.speaker_names, ensure_ascii=False).encode()
    summarise(prepared.manifest, prepared.verdicts, prepared.tokenizer.unknown_counts)
    write_verdicts(folder / "verdicts.csv", prepared.manifest, prepared.verdicts)
    with (folder / "verdicts.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == 1 + len(given_rows)
