"""Which file a list means, whose will a link is, and what a cache that came with data may say."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import soundfile

from myxtts.config.config import DataConfig
from myxtts.data.clips import check_clips
from myxtts.data.manifests import read_manifest
from myxtts.data.prepare import prepare_data
from myxtts.data.waves import decode
from myxtts.errors import DataError

RATE = 22_050
TONE = 0.5 * np.sin(2 * np.pi * 200 * np.arange(RATE) / RATE)


def listed(folder, *names, text="Some text."):
    (folder / "metadata.csv").write_text("".join(f"{name}|{text}\n" for name in names))
    return folder


def reasons(folder, max_seconds=12):
    return [v.reason for v in check_clips(read_manifest(folder), max_seconds=max_seconds)]


@pytest.fixture
def corpus(tmp_path):
    """A data folder whose `wavs` is a link to where the recordings are, and secrets beside them."""
    data, store = tmp_path / "data", tmp_path / "disk" / "recordings"
    data.mkdir()
    (store / "sub").mkdir(parents=True)
    for path in (store / "a.wav", store / "sub" / "b.wav", tmp_path / "disk" / "secret.wav"):
        soundfile.write(path, TONE, RATE)
    (data / "wavs").symlink_to(store)
    (store / "inner.wav").symlink_to(store / "a.wav")
    (store / "outer.wav").symlink_to(tmp_path / "disk" / "secret.wav")
    return data


def test_a_folder_that_is_a_link_is_the_users_will(corpus, caplog):
    caplog.set_level("INFO", "myxtts")
    listed(corpus, "a", "wavs/a.wav", "sub/b", "inner")
    prepared = prepare_data(corpus, DataConfig(tokenizer="characters"))
    assert [verdict.reason for verdict in prepared.verdicts] == [""] * 4
    table = prepared.table()
    assert table.paths == ("wavs/a.wav", "wavs/a.wav", "wavs/sub/b.wav", "wavs/inner.wav")
    assert all((table.folder / path).is_file() for path in table.paths)
    assert f"recordings are read from {corpus.parent / 'disk' / 'recordings'}" in caplog.text


def test_what_a_list_names_stays_inside_also_behind_a_link(corpus):
    outside = corpus.parent / "disk" / "secret.wav"
    listed(
        corpus,
        "outer",  # a link of its own that leads out
        "wavs/../secret.wav",  # by letters in the data folder, where it is not
        "../disk/secret.wav",
        "wavs/../../disk/secret.wav",
        str(outside),
        ".",
        "wavs/..",
    )
    out = "outside the data folder"
    assert reasons(corpus) == [out, "missing", out, out, out, out, out]


def test_a_linked_data_folder_may_be_named_either_way(corpus, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(corpus)
    listed(corpus, link / "wavs" / "a.wav", corpus / "wavs" / "a.wav", "a")
    assert reasons(link) == ["", "", ""]


def test_a_sibling_named_like_the_folder_is_not_meant(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    soundfile.write(tmp_path / "data.wav", TONE, RATE)
    assert reasons(listed(data, ".", "./", "x/..")) == ["outside the data folder"] * 3


def shipped(folder, **facts):
    """A data folder with one good clip and a verdict cache that says something else of it."""
    soundfile.write(folder / "a.wav", TONE, RATE)
    listed(folder, "a")
    check_clips(read_manifest(folder), max_seconds=12)
    path = folder / ".myxtts" / "verdicts.json"
    stored = json.loads(path.read_text())
    stored["clips"]["a.wav"][1].update(facts)
    path.write_text(json.dumps(stored))
    (verdict,) = check_clips(read_manifest(folder), max_seconds=12)
    return verdict


def test_a_cache_that_came_with_the_data_cannot_name_another_file(tmp_path):
    assert shipped(tmp_path, path="../../etc/passwd").path == "a.wav"


@pytest.mark.parametrize(
    "facts",
    [
        {"reason": "because"},
        {"frames": 10**15},
        {"frames": -1},
        {"frames": 10**400},
        {"frames": "many"},
        {"sample_rate": 0},
        {"seconds": float("nan")},
        {"unknown": 1},
        {"detail": None},
    ],
)
def test_what_such_a_cache_says_must_be_possible(tmp_path, facts):
    verdict = shipped(tmp_path, **facts)
    assert (verdict.reason, verdict.frames, verdict.sample_rate) == ("", RATE, RATE)


def test_a_cache_that_is_a_pipe_or_nested_deeply_is_none(tmp_path):
    shipped(tmp_path)
    path = tmp_path / ".myxtts" / "verdicts.json"
    path.write_text("[" * 100_000)
    assert reasons(tmp_path) == [""]
    path.unlink()
    os.mkfifo(path)
    assert reasons(tmp_path) == [""]


def test_channels_that_cancel_each_other_out_are_heard_by_one_of_them(tmp_path):
    quiet = np.stack([0.9 * TONE, -TONE], axis=1)
    soundfile.write(tmp_path / "cancels.wav", quiet, RATE)
    soundfile.write(tmp_path / "alike.wav", np.stack([TONE, TONE], axis=1), RATE)
    soundfile.write(tmp_path / "left.wav", np.stack([TONE, 0 * TONE], axis=1), RATE)
    manifest = read_manifest(listed(tmp_path, "cancels", "alike", "left"))
    verdicts = check_clips(manifest, max_seconds=12)
    assert [verdict.cancels for verdict in verdicts] == [True, False, False]
    peaks = [np.abs(decode(tmp_path / v.path).astype(int)).max() / 32768 for v in verdicts]
    assert peaks == pytest.approx([0.5, 0.5, 0.25], abs=0.01)


@pytest.mark.parametrize("tokenizer", ["characters", "auto"])
def test_a_text_of_marks_alone_has_nothing_to_say(tmp_path, tokenizer):
    soundfile.write(tmp_path / "a.wav", TONE, RATE)
    texts = ["...", "!!!", "— ?", "سلام", "No. 5", "&"]
    (tmp_path / "metadata.csv").write_text(
        "".join(f"a|{text}\n" for text in texts), encoding="utf-8"
    )
    found = prepare_data(tmp_path, DataConfig(tokenizer=tokenizer)).verdicts
    silent = ["nothing to say"] * 3
    assert [verdict.reason for verdict in found] == [*silent, "", "", ""]


def test_when_nothing_is_left_the_error_says_why_with_these_settings(tmp_path):
    soundfile.write(tmp_path / "a.wav", TONE, RATE)
    listed(tmp_path, "a", "a", "b")
    prepared = prepare_data(tmp_path, DataConfig(tokenizer="characters", max_mel_frames=1))
    with pytest.raises(DataError) as caught:
        prepared.table()
    said = "2 too long, 1 missing (for example a: 1.00 s, at most 0.01 s)"
    assert said in caught.value.problem
    assert "raise --max-mel-frames" in caught.value.remedy
