"""One voice on batch size: planner, start of training, validators and profiler say the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.checks.validators import Target, recommended_batch, training_command
from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.pipeline.devices import DevicePlan, Mode
from myxtts.profiling.advisor import advise, room_of_profile
from myxtts.profiling.planner import plan_memory
from myxtts.training.batch_fit import Room, fit_batch
from myxtts.training.capacity import warn_of_misfits
from tests.profiles import make_profile
from tests.support import FakeHardware

CARDS = st.sampled_from([4096, 6144, 8192, 11_264, 12_288, 15_109, 16_384, 24_576, 40_960, 81_920])
SIZES = st.sampled_from(["tiny", "small", "normal", "big"])
CONFIGS = st.builds(
    lambda size, head, frames, tokens, batch, level: XTTSConfig(
        model={"size": size, "decoder_head": head},
        data={"max_mel_frames": frames, "max_text_length": tokens, "batch_size": batch},
        training={"optimization_level": level},
    ),
    SIZES,
    st.sampled_from(["regression", "flow"]),
    st.integers(64, 4096),
    st.integers(16, 512),
    st.integers(1, 600),
    st.sampled_from(["basic", "enhanced"]),
)


def devices_of(plan) -> DevicePlan:
    """What training sets up for a memory plan."""
    return DevicePlan(Mode.MULTI, "/GPU:0", "/GPU:1", 0, 1, plan.data_limit_mb, plan.model_limit_mb)


def batch_warnings(config, plan) -> list[str]:
    hardware = FakeHardware(plan.card_mb, plan.card_mb)
    warnings = warn_of_misfits(config, devices_of(plan), hardware=hardware)
    return [warning for warning in warnings if "clip" in warning]


@settings(max_examples=150, deadline=None)
@given(CONFIGS, CARDS)
def test_training_warns_of_exactly_the_batches_that_the_plan_calls_too_large(config, card_mb):
    plan = plan_memory(config, gpu_memory_mb=card_mb)
    assert plan.fits == (batch_warnings(plan.config, plan) == [])  # what it recommends passes
    asked = plan.config.model_copy(deep=True)
    asked.data.batch_size = config.data.batch_size
    warnings = batch_warnings(asked, plan)
    changed = plan.config.data.batch_size != config.data.batch_size
    assert bool(warnings) == (changed or not plan.fits)
    if warnings and plan.fits:
        (warning,) = warnings
        assert f"--batch-size {plan.config.data.batch_size} --grad-accum" in warning
        assert f"at most {plan.fit.largest} clips" in warning


@settings(max_examples=60, deadline=None)
@given(CONFIGS, CARDS)
def test_the_profilers_larger_batch_is_one_that_the_plan_lets_in(config, card_mb):
    plan = plan_memory(config, gpu_memory_mb=card_mb)
    batch = config.data.batch_size
    profile = make_profile(
        seconds={"train": 0.004, "process": 0.012, "read": 0.001},
        limit_mb=plan.model_limit_mb,
        card_mb=card_mb,
        memory={"data": 1.0, "model": 1.0},
    )
    object.__setattr__(profile, "config", config)
    limits = plan.data_limit_mb, plan.model_limit_mb
    for device, limit in zip(profile.devices, limits, strict=True):
        object.__setattr__(device, "limit_mb", limit)
    room = room_of_profile(profile)
    assert room == Room(card_mb, plan.model_limit_mb, plan.data_limit_mb)
    largest = fit_batch(config, room).largest
    changes = {change.kind: change.settings for change in advise(profile).changes}
    if min(largest, 2 * batch) > batch:
        assert changes["larger-batch"] == {"data.batch_size": min(largest, 2 * batch)}
    else:
        assert "larger-batch" not in changes


@pytest.mark.parametrize("card_mb", [4096, 8192, 12_288, 16_384, 24_576, 49_152])
def test_the_validators_command_has_the_batch_of_the_plan(card_mb):
    asked = DataConfig(data_gpu=0, model_gpu=1, enable_memory_isolation=True)
    target = Target(asked, FakeHardware(card_mb, card_mb))
    plan = plan_memory(XTTSConfig(), gpu_memory_mb=card_mb)
    fit = recommended_batch(target)
    assert fit is not None
    assert (fit.batch, fit.largest) == (plan.fit.batch, plan.fit.largest)
    batches = {
        re.search(r"--batch-size \d+", said)[0] for said in (training_command(target), plan.command)
    }
    assert len(batches) == 1


def test_the_published_table_stands_beside_the_estimate_with_the_reason():
    fit = fit_batch(XTTSConfig(), Room(12_288, 8192, 4096))
    assert (fit.batch, fit.published, fit.is_too_much) == (16, 8, False)
    said = fit.beside_the_table
    room = "8192 MB for the model and 4096 MB for the data"
    assert f"at most {fit.largest} clips of 1024 frames fit {room} by the estimate" in said
    assert "the published table says 8 for 12 GB" in said
    assert "and rules" in said


def test_one_card_that_does_both_jobs_holds_less_than_two():
    config = XTTSConfig()
    one = fit_batch(config, Room(12_288, 11_776, None))
    two = fit_batch(config, Room(12_288, 11_776, 11_776))
    assert 16 < one.largest < two.largest
