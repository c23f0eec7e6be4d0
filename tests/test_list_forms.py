"""Lists as they come: each line is one clip or says why not, and known corpora are recognised."""

from __future__ import annotations

import json
import os
import threading

import numpy as np
import pytest
import soundfile

from myxtts.config.config import DataConfig
from myxtts.data import list_lines
from myxtts.data.list_forms import Clip
from myxtts.data.manifests import read_manifest
from myxtts.data.prepare import prepare_data
from myxtts.errors import DataError

RATE = 22_050


def write(folder, text, name="metadata.csv"):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def hum(path, seconds=1.0):
    path.parent.mkdir(exist_ok=True)
    soundfile.write(path, 0.3 * np.sin(np.arange(int(seconds * RATE)) / 20), RATE)


def test_one_lone_quotation_mark_takes_no_other_row_along(tmp_path):
    rows = [f"{i}.wav|text {i}" for i in range(40)]
    rows[5] = '5.wav|"He said no.'
    manifest = read_manifest(write(tmp_path, "audio_file|text\n" + "\n".join(rows)))
    assert len(manifest) == 40
    assert manifest[5].text == '"He said no.'
    assert manifest.bad_rows == {}


def test_with_commas_a_row_over_several_lines_is_reported_and_costs_only_its_lines(tmp_path):
    text = 'path,text\na,x\nb,"one\nc,y\nd,"two"three\ne,"z, w"\n'
    manifest = read_manifest(write(tmp_path, text))
    assert manifest.audio == ["a", "b", "c", "d", "e"]
    assert [manifest.texts[i] for i in (0, 2, 4)] == ["x", "y", "z, w"]
    assert set(manifest.bad_rows) == {1, 3}
    assert manifest.bad_rows[1].startswith("line 3: a quotation mark is opened and not closed")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("path|text\na|x|y\n", "line 2: the row has 3 columns, not 2: no pipe in a text"),
        ("a,x\nb,y, z\nc,w\n", "line 2: the row has 3 columns, not 2: put quotation marks"),
        ("a|x|y|z\n", "line 1: the row has 4 columns, not 3"),
        ("|x\n", "line 1: the row names no audio file"),
        ("path|text|speaker\na|x|A\x1b[31mnn\n", "line 2: a name holds control characters"),
        (b"path|text|speaker\na|x|Andr\xe9\n", "line 2: the row is not UTF-8"),
        ("a|" + "x" * (1 << 20) + "\n", "line 1: the row is longer than"),
    ],
)
def test_a_row_that_cannot_be_meant_is_named_with_its_line(tmp_path, text, problem):
    manifest = read_manifest(write(tmp_path, text))
    assert [found[: len(problem)] for found in manifest.bad_rows.values()] == [problem]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"path": "a", "text": "x", "speaker": "\ud800"}, "the row holds half a character"),
        ('{"path": "a", "text": "x", "text": "y"}', "the row has a key twice"),
        ("[" * 100_000, "the row is not valid JSON"),
        ('{"path": "a", "text": ' + "9" * 5000 + "}", "the row is not valid JSON"),
        ({"path": ["a"], "text": "x"}, "the row names no audio file"),
        ("7", "the row is not valid JSON"),
    ],
)
def test_an_odd_json_row_keeps_its_place(tmp_path, row, problem):
    line = row if isinstance(row, str) else json.dumps(row)
    good = json.dumps({"path": "b", "text": "y"})
    manifest = read_manifest(write(tmp_path, f"{line}\n{good}\n", "metadata.jsonl"))
    assert manifest.bad_rows == {0: f"line 1: {problem}"}
    assert manifest[1] == Clip("b", "y", "speaker", "en")


@pytest.mark.parametrize("mark", ["|", "\t", ","])
def test_a_header_that_names_a_column_twice_is_refused(tmp_path, mark):
    write(tmp_path, mark.join(["path", "text", "Text", "notes", "notes"]) + "\na\n")
    with pytest.raises(DataError, match="more than one column named text") as caught:
        read_manifest(tmp_path)
    assert "notes" not in str(caught.value)  # of no interest


def test_what_a_header_does_not_name_is_of_no_interest(tmp_path):
    write(tmp_path, "id\tnotes\tnotes\ttext\na\t1\t2\tx\nb\t\t\ty\t\t\n", "list.TSV")
    assert read_manifest(tmp_path).texts == ["x", "y"]


def test_a_pipe_as_clip_list_does_not_hang(tmp_path):
    fifo = tmp_path / "metadata.csv"
    os.mkfifo(fifo)
    found = []

    def read():
        for source in (fifo, tmp_path):
            with pytest.raises(DataError) as caught:
                read_manifest(source)
            found.append(caught.value.problem)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(20)
    assert "is no regular file" in found[0]
    assert "holds no clip list" in found[1]


def test_a_list_that_is_too_large_or_of_another_encoding_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(list_lines, "MAX_LIST_BYTES", 10)
    with pytest.raises(DataError, match="at most 0 MB are read"):
        read_manifest(write(tmp_path, "a|some text\n"))
    monkeypatch.undo()
    with pytest.raises(DataError, match="is UTF-16"):
        read_manifest(write(tmp_path, "a\tx\n".encode("utf-16")))


COMMON_VOICE = (
    "client_id\tpath\tsentence_id\tsentence\tsentence_domain\tup_votes\tdown_votes\tage\tgender"
    "\taccents\tvariant\tlocale\tsegment\n"
)


def test_common_voice_is_read_as_it_is_shipped(tmp_path, caplog):
    folder = tmp_path / "cv-corpus" / "fa"
    (folder / "clips").mkdir(parents=True)
    sentences = ["سلام دنیا", 'او گفت "نه', "کتاب‌ها"]
    rows = ""
    for i, sentence in enumerate(sentences):
        name = f"common_voice_fa_{i}.mp3"
        soundfile.write(folder / "clips" / name, 0.3 * np.sin(np.arange(48_000) / 20), 32_000)
        client = f"{i % 2:0128x}"
        rows += f"{client}\t{name}\t{i:064x}\t{sentence}\t\t2\t0\t\t\t\t\tfa\t\n"
    for name in ("validated", "train", "dev", "test", "other", "invalidated"):
        write(folder, COMMON_VOICE + rows, f"{name}.tsv")
    write(folder, "clip\tduration[ms]\n", "clip_durations.tsv")
    caplog.set_level("INFO", "myxtts")
    prepared = prepare_data(folder, DataConfig(tokenizer="characters"))
    assert [verdict.reason for verdict in prepared.verdicts] == ["", "", ""]
    assert prepared.verdicts[0].path == "clips/common_voice_fa_0.mp3"
    assert prepared.manifest.texts == sentences
    assert prepared.manifest.languages == ["fa"] * 3
    assert prepared.table().speaker_names == (f"{0:0128x}", f"{1:0128x}")
    assert f"{folder} is read as Common Voice" in caplog.text


def test_pipers_speakers_are_read(tmp_path, caplog):
    rows = [("a", "ann", "Hello."), ("b", "ann", "How are you?"), ("c", "bob", "Well.")]
    rows += [("d", "bob", "Good bye.")]
    write(tmp_path, "".join("|".join(row) + "\n" for row in rows))
    for name, _, _ in rows:
        hum(tmp_path / "wav" / f"{name}.wav")
    caplog.set_level("INFO", "myxtts")
    prepared = prepare_data(tmp_path, DataConfig(tokenizer="characters"))
    assert [(c.audio, c.speaker, c.text) for c in prepared.manifest] == rows
    assert all(verdict.kept for verdict in prepared.verdicts)
    assert "is read as Piper's id|speaker|text" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "a|7|seven\nb|7|seven\nc|8|eight\nd|8|eight\n",  # a text and how it is said
        "a|Hello.|Hello.\nb|Dr. No|Doctor No\n",
        "a|Hello.|\nb|Hello.|\nc|Bye.|\n",
    ],
)
def test_lj_speechs_normalised_text_is_not_taken_for_a_speaker(tmp_path, text):
    manifest = read_manifest(write(tmp_path, text))
    assert (set(manifest.speakers), manifest.form) == ({"speaker"}, "")


def test_a_short_row_among_pipers_is_reported(tmp_path):
    text = "a|ann|Hello.\nb|ann|Bye.\nc|What?\nd|ann|x|y\ne|ann|Yes.\n"
    assert set(read_manifest(write(tmp_path, text)).bad_rows) == {2, 3}
