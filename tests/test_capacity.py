"""Settings that ask too much or too little of the machine are named before the run starts."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from myxtts.config.config import XTTSConfig
from myxtts.pipeline.devices import DevicePlan, Mode, configure_devices
from myxtts.training.capacity import warn_of_misfits
from tests.support import FakeHardware

CARD = 24_576
CLIPS = Path("clips")


def warned(hardware: FakeHardware, *, size: str = "normal", **data: object) -> list[str]:
    """The warnings on a machine with these cards, or on simulated ones where it has none."""
    simulate = not hardware.cards()
    plan = configure_devices(0, 1, simulate=simulate, hardware=hardware)
    config = XTTSConfig(model={"size": size}, data={"train_data": CLIPS, **data})
    return warn_of_misfits(config, plan, hardware=hardware)


@pytest.mark.parametrize("cards", [(CARD, CARD), (8192, 8192), ()], ids=["24 GB", "8 GB", "none"])
def test_the_defaults_of_the_buffers_and_workers_are_not_warned_of(cards):
    assert warned(FakeHardware(*cards), batch_size=1) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"num_workers": 1}, "--num-workers 1 reads one file after the other: --num-workers 16"),
        ({"pipeline_buffer_size": 1}, "--buffer-size 1 reads no batch in reserve"),
        ({"pipeline_buffer_size": 3}, "--buffer-size 3 reads no batch in reserve"),  # half is one
        ({"prefetch_buffer_size": 1}, "--prefetch-buffer-size 1 leaves the data device idle"),
        ({"pipeline_depth": 1}, "--pipeline-depth 1 lets the model wait"),
        ({"batch_size": 1000}, "A batch of 1000 clips is likely too much"),
        ({"pipeline_buffer_size": 500}, "--buffer-size 500 takes host memory"),
        ({"prefetch_buffer_size": 20}, "--prefetch-buffer-size 20 takes memory from the data GPU"),
    ],
)
@pytest.mark.parametrize("cards", [(CARD, CARD), ()], ids=["GPUs", "simulated"])
def test_too_much_and_too_little_is_warned_of_on_gpus_and_where_they_are_simulated(
    given, said, cards, caplog
):
    caplog.set_level(logging.WARNING)
    (warning,) = warned(FakeHardware(*cards), **given)
    assert warning.startswith(said)
    assert caplog.messages == [warning]
    if not cards and "clips" in said:
        assert "(simulated GPU 1 = CPU:1)" in warning


def test_a_batch_too_large_names_the_one_that_fits_and_keeps_the_effective_batch():
    (warning,) = warned(FakeHardware(12_288, 12_288), batch_size=400)
    assert "by the estimate: --batch-size 134 --grad-accum 3" in warning
    assert warned(FakeHardware(12_288, 12_288), batch_size=134) == []


def test_a_budget_of_frames_is_judged_as_the_clips_it_holds():
    given = {"batch_size": 4000, "batch_frames": 16 * 1024}
    assert warned(FakeHardware(12_288, 12_288), **given) == []
    (warning,) = warned(FakeHardware(12_288, 12_288), batch_frames=400 * 1024)
    assert "batch_frames: 137216 under data" in warning


def test_a_model_of_somebody_elses_is_judged_by_the_published_table():
    plan = configure_devices(0, 1, hardware=(hardware := FakeHardware(12_288, 12_288)))
    config = XTTSConfig(data={"batch_size": 32})
    assert warn_of_misfits(config, plan, hardware=hardware) == []
    (warning,) = warn_of_misfits(config, plan, hardware=hardware, estimable=False)
    assert "about 8 by the published table for 12 GB: --batch-size 8 --grad-accum 4" in warning


def test_a_clip_too_long_for_the_card_is_said():
    (warning,) = warned(FakeHardware(2048, 2048), size="big", max_mel_frames=16_384)
    assert warning.startswith("Not even one clip of 16384 frames fits 1536 MB")


def test_one_worker_is_enough_where_nothing_is_read_from_files():
    assert warned(FakeHardware(), num_workers=1, cache="memory") == []
    assert warned(FakeHardware(), num_workers=1, train_data=None) == []


def test_on_a_cpu_that_stands_in_for_no_gpu_only_too_little_is_judged():
    plan = DevicePlan(Mode.SINGLE, "/CPU:0", "/CPU:0")
    config = XTTSConfig(data={"batch_size": 512, "pipeline_buffer_size": 1})
    (warning,) = warn_of_misfits(config, plan, hardware=FakeHardware())
    assert warning.endswith("--buffer-size 50")
