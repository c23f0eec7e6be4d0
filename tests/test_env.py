"""The report to paste into an issue: complete, short, and without anybody's secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from myxtts.checks.environment import Section, as_markdown, describe_environment
from myxtts.cli.env import env
from myxtts.config.config import XTTSConfig
from myxtts.errors import ConfigError
from tests.support import FakeHardware


def rows(sections: list[Section], title: str) -> dict[str, str]:
    return dict(next(section.rows for section in sections if section.title == title))


def test_it_prints_markdown_with_versions_machine_and_devices(capsys):
    env()
    printed = capsys.readouterr().out
    assert printed.startswith("### Versions\n- python: 3.")
    for line in ("- myxtts: 0.", "- tensorflow: 2.", "- cores to use: ", "### Environment"):
        assert f"\n{line}" in printed
    assert "- seen by TensorFlow: 0 (built " in printed
    assert all(line == "" or line.startswith(("### ", "- ")) for line in printed.splitlines())


def test_cards_are_listed_as_the_user_counts_them():
    machine = FakeHardware(24_576, 12_288, free_mb=10_000)
    found = rows(describe_environment(lambda: "2", hardware=machine), "GPUs")
    assert found["GPU 0"] == "Fake 24576, 24576 MB, 10000 MB free"
    assert found["GPU 1"] == "Fake 12288, 12288 MB, 10000 MB free"
    assert found["between GPU 0 and 1"] == "NVML does not say"
    assert found["seen by TensorFlow"] == "2"


def test_without_a_card_the_reason_is_given():
    found = rows(describe_environment(lambda: "0", hardware=FakeHardware()), "GPUs")
    assert found["NVIDIA"] == "no NVIDIA driver answers (fake)"


def test_secrets_and_the_name_of_the_user_stay_out_of_it(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    monkeypatch.setenv("MYXTTS_REAL_SPEECH", str(Path.home() / "clips"))
    for name in ("TF_VAR_db_password", "NVIDIA_API_KEY", "WANDB_API_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, "hunter2")
    text = as_markdown(describe_environment(lambda: "0", hardware=FakeHardware()))
    assert "- CUDA_VISIBLE_DEVICES: 1,0" in text
    assert "- MYXTTS_REAL_SPEECH: ~/clips" in text
    assert "hunter2" not in text


def test_a_runs_settings_are_those_that_were_changed(tmp_path):
    config = XTTSConfig()
    config.data.batch_size = 4
    config.training.freeze = ("encoder",)
    config.to_yaml(tmp_path / "config.yaml")
    found = describe_environment(lambda: "0", run=tmp_path, hardware=FakeHardware())
    assert rows(found, "Settings of the run") == {
        "data.batch_size": "4",
        "training.freeze": "['encoder']",
    }


def test_a_folder_that_is_no_run_is_refused_in_words(tmp_path):
    with pytest.raises(ConfigError, match="config.yaml cannot be read"):
        describe_environment(lambda: "0", run=tmp_path, hardware=FakeHardware())


def test_a_tensorflow_that_does_not_load_is_part_of_the_report(monkeypatch, capsys):
    def fail() -> None:
        raise ImportError("libcublas.so.12: cannot open\nshared object file")

    monkeypatch.setattr("myxtts.cli.env.load_tensorflow", fail)
    env()
    reason = "TensorFlow does not load (ImportError: libcublas.so.12: cannot open shared object"
    assert f"- seen by TensorFlow: {reason} file)" in capsys.readouterr().out
