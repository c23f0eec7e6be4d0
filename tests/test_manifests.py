"""Lists of clips in every form, and a verdict with a reason for every clip."""

from __future__ import annotations

import json
import os
import time

import numpy as np
import pytest
import soundfile

from myxtts.data.clips import check_clips
from myxtts.data.list_forms import Clip
from myxtts.data.manifests import read_manifest
from myxtts.data.verdicts import REMEDIES
from myxtts.errors import DataError

RATE = 22_050


def write(folder, text, name="metadata.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


def tone(seconds=1.0, rate=RATE, channels=1):
    wave = 0.5 * np.sin(2 * np.pi * 200 * np.arange(int(seconds * rate)) / rate)
    return np.repeat(wave[:, None], channels, axis=1)


@pytest.mark.parametrize(
    ("text", "clips"),
    [
        ("a|Hello.\nb|Bye.\n", [("a", "Hello."), ("b", "Bye.")]),
        ("a|1 cat|one cat\nb|Bye.|\n", [("a", "one cat"), ("b", "Bye.")]),
        ('a|He said "no.\nb|"Yes.\n', [("a", 'He said "no.'), ("b", '"Yes.')]),
        ("a|x, y, z\r\nb|w\r\n", [("a", "x, y, z"), ("b", "w")]),
        ("a\tx, y\nb\tw\n", [("a", "x, y"), ("b", "w")]),
        ('a,"x, y"\nb,w\n', [("a", "x, y"), ("b", "w")]),
        ("\ufeffa|x\n\n\nb|y\n", [("a", "x"), ("b", "y")]),
        ("a.wav|سلام دنیا\n", [("a.wav", "سلام دنیا")]),
        ('"audio_file"|"text"\n"wavs/a.flac"|"x | ""y"""\n', [("wavs/a.flac", 'x | "y"')]),
        ('audio_file|text\na|"x\nb|"y"\n', [("a", '"x'), ("b", '"y"')]),
        ('path\ttext\na\tx "\nb\ty\t\t\n', [("a", 'x "'), ("b", "y")]),
        ('a, "x|y, z"\nb, w\n', [("a", "x|y, z"), ("b", "w")]),
        ("path,text\na,x|y\nb,|\n", [("a", "x|y"), ("b", "|")]),
        ("a|x\rb|y\r", [("a", "x"), ("b", "y")]),
        ("a|x\ry\nb|z\n", [("a", "x\ry"), ("b", "z")]),
    ],
)
def test_every_form_of_csv_gives_the_same_kind_of_list(tmp_path, text, clips):
    write(tmp_path, text)
    manifest = read_manifest(tmp_path)
    assert [(clip.audio, clip.text) for clip in manifest] == clips
    assert manifest.bad_rows == {}


def test_columns_with_a_header_bring_speaker_and_language(tmp_path):
    write(tmp_path, "audio_file|text|speaker_name|language\na.wav|Hi|Ann|EN\nb.wav|سلام||fa\n")
    assert list(read_manifest(tmp_path)) == [
        Clip("a.wav", "Hi", "Ann", "en"),
        Clip("b.wav", "سلام", "speaker", "fa"),
    ]


def test_json_lines_are_read_and_a_bad_line_keeps_its_place(tmp_path):
    rows = [
        json.dumps({"audio_filepath": "a.wav", "text": "Hi", "duration": 1.0, "speaker": 7}),
        "{broken",
        json.dumps({"text": "no file"}),
    ]
    write(tmp_path, "\n".join(rows), "metadata.jsonl")
    manifest = read_manifest(tmp_path, language="fa")
    assert manifest[0] == Clip("a.wav", "Hi", "7", "fa")
    assert manifest.bad_rows == {
        1: "line 2: the row is not valid JSON",
        2: "line 3: the row names no audio file",
    }


def test_bytes_that_are_no_utf8_cost_one_row(tmp_path):
    write(tmp_path, b"a|fine\nb|caf\xe9\nc|fine\n")
    assert read_manifest(tmp_path).bad_rows == {1: "line 2: the row is not UTF-8"}


@pytest.mark.parametrize(
    ("prepare", "problem"),
    [
        (lambda folder: None, "holds no clip list"),
        (lambda folder: write(folder, ""), "is empty"),
        (lambda folder: [write(folder, "a|b", f"{n}.csv") for n in "xy"], "several clip lists"),
    ],
)
def test_a_folder_without_a_usable_list_is_said(tmp_path, prepare, problem):
    prepare(tmp_path)
    with pytest.raises(DataError, match=problem):
        read_manifest(tmp_path)


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_manifest(tmp_path / "nowhere")


def test_every_kind_of_bad_clip_is_dropped_with_its_reason(tmp_path):
    folder = tmp_path / "data"
    (folder / "wavs").mkdir(parents=True)
    outside = tmp_path / "secret.wav"
    soundfile.write(outside, tone(), RATE)
    wavs = folder / "wavs"
    soundfile.write(wavs / "good.wav", tone(), RATE)
    (wavs / "empty.wav").touch()
    (wavs / "folder.wav").mkdir()
    (wavs / "good").mkdir()  # beside good.wav: not what the list means
    (wavs / "noise.wav").write_bytes(os.urandom(5000))
    whole = (wavs / "good.wav").read_bytes()
    (wavs / "cut.wav").write_bytes(whole[: len(whole) // 2])
    bomb = bytearray(whole)
    bomb[40:44] = (0x7FFFFFF0).to_bytes(4, "little")  # two gigabytes of promised samples
    (wavs / "bomb.wav").write_bytes(bomb)
    bomb[40:44] = (0xFFFFFFFF).to_bytes(4, "little")
    (wavs / "piped.wav").write_bytes(bomb)
    soundfile.write(wavs / "nan.wav", np.full([RATE], np.nan), RATE, subtype="FLOAT")
    soundfile.write(wavs / "silent.wav", np.zeros([RATE]), RATE)
    soundfile.write(wavs / "short.wav", tone(0.1), RATE)
    soundfile.write(wavs / "long.wav", tone(20), RATE)
    soundfile.write(wavs / "hours.flac", np.zeros([RATE * 600]), RATE)  # small, yet ten minutes
    (wavs / "link.wav").symlink_to(outside)
    (wavs / "dangling.wav").symlink_to(wavs / "nothing.wav")
    expected = {
        "good": "",
        "good.wav": "",
        "wavs/good.wav": "",
        "piped": "",
        "empty": "empty file",
        "folder.wav": "not a file",
        "noise": "unreadable",
        "cut": "truncated",
        "bomb": "truncated",
        "nan": "not a number",
        "silent": "silent",
        "short": "too short",
        "long": "too long",
        "hours": "too long",
        "link": "outside the data folder",
        "../secret.wav": "outside the data folder",
        "../nothing.wav": "outside the data folder",
        "/etc/nothing.wav": "outside the data folder",
        str(outside): "outside the data folder",
        "dangling": "missing",
        "nowhere": "missing",
        "x" * 5000: "missing",
    }
    write(folder, "".join(f"{name}|some text\n" for name in expected) + "good|  \nlonely\n")
    manifest = read_manifest(folder)
    verdicts = check_clips(manifest, max_seconds=12)
    reasons = dict(zip(manifest.audio[: len(expected)], (v.reason for v in verdicts), strict=False))
    assert reasons == expected
    assert [v.reason for v in verdicts[len(expected) :]] == ["empty text", "bad row"]
    assert len(verdicts) == len(manifest)  # kept + dropped = listed
    assert {v.reason for v in verdicts if v.reason} <= set(REMEDIES)


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "mp3"])
@pytest.mark.parametrize("rate", [16_000, 22_050, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_every_format_rate_and_channel_count_is_kept(tmp_path, ending, rate, channels):
    soundfile.write(tmp_path / f"a.{ending}", tone(1.0, rate, channels), rate)
    write(tmp_path, "a|text\n")
    (verdict,) = check_clips(read_manifest(tmp_path), max_seconds=12)
    assert (verdict.reason, verdict.sample_rate, verdict.channels) == ("", rate, channels)
    assert verdict.seconds == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_every_sample_width_is_kept(tmp_path, subtype):
    soundfile.write(tmp_path / "a.wav", tone(), RATE, subtype=subtype)
    write(tmp_path, "a|text\n")
    assert check_clips(read_manifest(tmp_path), max_seconds=12)[0].kept


def test_the_second_look_comes_from_the_cache_until_a_file_changes(tmp_path, monkeypatch):
    for name in "ab":
        soundfile.write(tmp_path / f"{name}.wav", tone(), RATE)
    write(tmp_path, "a|text\nb|text\n")
    manifest = read_manifest(tmp_path)
    first = check_clips(manifest, max_seconds=12)
    opened = []
    real_open = soundfile.SoundFile

    def note(path, *arguments):
        if not arguments:  # opened for reading
            opened.append(path)
        return real_open(path, *arguments)

    monkeypatch.setattr(soundfile, "SoundFile", note)
    assert check_clips(manifest, max_seconds=12) == first
    assert opened == []
    soundfile.write(tmp_path / "b.wav", tone(2), RATE)
    assert check_clips(manifest, max_seconds=12)[1].seconds == 2.0
    assert [os.path.basename(path) for path in opened] == ["b.wav"]
    (tmp_path / ".myxtts" / "verdicts.json").write_text("{damaged")
    assert check_clips(manifest, max_seconds=12)[0].kept


def test_a_long_list_is_read_in_seconds(tmp_path):
    rows = (f"clip{i:07d}|This is the text of clip number {i}.\n" for i in range(100_000))
    write(tmp_path, "".join(rows))
    began = time.monotonic()
    assert len(read_manifest(tmp_path)) == 100_000
    assert time.monotonic() - began < 5  # a million in 15 s is measured by benchmarks.data
