"""The guide's log of a start is the real one: here of the devices; the rest is test_trainer's."""

from __future__ import annotations

import logging
import re

import pytest
import tensorflow as tf

from myxtts.cli.output import load_tensorflow
from myxtts.pipeline.devices import configure_devices
from tests.support import ROOT, FakeHardware

GUIDE = (ROOT / "docs" / "en" / "modes.md").read_text(encoding="utf-8")
SECTION = GUIDE.partition("## The log of a start\n")[2].partition("\n## ")[0]
LINES = re.findall(r"^```text\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)[0].splitlines()
CONFIGURED = "Multi-GPU configuration completed successfully"
DEVICES = LINES[: LINES.index(CONFIGURED) + 1]


def test_two_gpus_say_what_the_guide_says(caplog):
    caplog.set_level(logging.INFO, "myxtts")
    configure_devices(0, 1, isolate=True, hardware=FakeHardware(24_576, 24_576))
    assert caplog.messages == DEVICES


@pytest.mark.parametrize("line", [line.strip() for line in LINES if not line.startswith(" ")])
def test_every_line_is_explained(line):
    untold = {"Configured memory limit for model GPU: 16384 MB", "Model: 19.80 million parameters"}
    beginnings = ("No validation data", "Intelligent GPU Pipeline", "[Step 100] Model")
    if line not in untold and not line.startswith(beginnings):
        assert f"`{line}`" in SECTION


def test_shapes_that_are_planned_are_no_alarm(caplog):
    load_tensorflow()
    traced = tf.function(lambda values: values + 1.0)
    for length in range(1, 9):
        traced(tf.zeros([length]))
    assert traced.experimental_get_tracing_count() == 8
    assert "retracing" not in caplog.text
