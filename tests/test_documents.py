"""One reader for JSON and one for YAML: odd and hostile files end in a sentence, at once."""

from __future__ import annotations

import os

import pytest

from myxtts import documents
from myxtts.config import yaml_files
from myxtts.config.config import XTTSConfig
from myxtts.errors import ConfigError


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b"\xff\xfe{", "codec can't decode|Expecting"),
        (b"1" * 5000, "limit"),
        (b"{", "Expecting"),
        (b"", "Expecting"),
    ],
)
def test_json_that_is_none_is_a_value_error(tmp_path, content, reason):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        documents.read_json(path)


ALIAS_BOMB = "a: &a [x, x]\n" + "".join(
    f"{'abcdefghij'[i]}: &{'abcdefghij'[i]} [*{'abcdefghij'[i - 1]}, *{'abcdefghij'[i - 1]}]\n"
    for i in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ALIAS_BOMB, "an alias"),
        ("[" * 100_000, "nested too deeply"),
        ("data: !!int abc", "not valid YAML"),
        ("training: {checkpoint_dir: 2024-02-30}", "not valid YAML"),
        ("training: {seed: " + "9" * 5000 + "}", "not valid YAML"),
        ("training: {seed: 99999999999}", "training.seed must be less than or equal to 4294967295"),
        ("data: !!python/name:os.system", "not valid YAML"),
        ("x" * (yaml_files.MAX_BYTES + 1), "at most 1"),
    ],
)
def test_yaml_that_is_no_config_is_refused_in_a_sentence(tmp_path, text, reason):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=reason):
        XTTSConfig.from_yaml(path)


def test_a_pipe_or_a_folder_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(OSError, match="regular file"):
            documents.read_json(path)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(documents.MAX_BYTES + 1)
    with pytest.raises(ValueError, match="at most 64"):
        documents.read_json(path)
