"""The guide's log of a start is the real one: of the devices on fake GPUs, of the rest on CPUs."""

from __future__ import annotations

import logging
import re

import pytest

from myxtts.pipeline.devices import configure_devices
from myxtts.training import make_trainer
from tests import runs
from tests.support import ROOT, FakeHardware

GUIDE = (ROOT / "docs" / "en" / "modes.md").read_text(encoding="utf-8")
SECTION = GUIDE.partition("## The log of a start\n")[2].partition("\n## ")[0]
LINES = re.findall(r"^```text\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)[0].splitlines()
CONFIGURED = "Multi-GPU configuration completed successfully"
DEVICES = LINES[: LINES.index(CONFIGURED) + 1]
# What is said of a GPU, of espeak-ng, and after 100 steps; a short run on the CPU says otherwise.
ELSEWHERE = ("text is read as", "Mixed precision", "[Step 100]")
REST = [line for line in LINES[len(DEVICES) :] if not line.startswith(ELSEWHERE)]


def shape(line: str) -> str:
    """A line without its numbers and without the devices that stand in."""
    return re.sub(r"\d+(\.\d+)?", "N", re.sub(r" \(simulated[^)]*\)", "", line))


def test_two_gpus_say_what_the_guide_says(caplog):
    caplog.set_level(logging.INFO, "myxtts")
    configure_devices(0, 1, isolate=True, hardware=FakeHardware(24_576, 24_576))
    assert caplog.messages == DEVICES


def test_a_simulated_start_says_the_rest_in_the_same_order(tmp_path, caplog):
    caplog.set_level(logging.INFO, "myxtts")
    data = {
        "train_data": runs.make_clips(tmp_path, 24),
        "max_mel_frames": 64,
        "pipeline_buffer_size": 50,
        "model_start_delay": 2.0,
    }
    with make_trainer(runs.in_process(tmp_path / "run", data=data, max_steps=1)) as trainer:
        trainer.train()
    said = iter([shape(message) for message in caplog.messages])
    for line in REST:
        assert shape(line) in said, f"not said, or not here: {line}"  # takes what comes before it


@pytest.mark.parametrize("line", [line.strip() for line in LINES if not line.startswith(" ")])
def test_every_line_is_explained(line):
    untold = {"Configured memory limit for model GPU: 16384 MB", "Model: 19.80 million parameters"}
    beginnings = ("No validation data", "Intelligent GPU Pipeline", "[Step 100] Model")
    if line not in untold and not line.startswith(beginnings):
        assert f"`{line}`" in SECTION
