"""The profiler on pieces whose slowness is known, and on a real, very small voice."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from myxtts.pipeline import engine
from myxtts.pipeline.telemetry import PROCESS, READ, STAGES, TRAIN, TRANSFER
from myxtts.pipeline.transfer import copy_to_model_device
from myxtts.profiling import stage_timing
from myxtts.profiling.advisor import advise
from myxtts.profiling.describe import describe_advice, describe_profile
from myxtts.profiling.measurements import READ_CACHED, READ_COLD, READ_NATIVE, Profile
from myxtts.profiling.profiler import measure
from myxtts.profiling.subject import Subject, open_voice
from tests.runs import TOO_FEW_TO_VALIDATE, in_process, make_clips
from tests.support import pipeline_threads

SLOW_S, SLOWER_S = 0.03, 0.07  # a loaded machine takes some milliseconds to wake a thread


def delayed_subject(plan, run, delays, monkeypatch):
    """A run that multiplies a small matrix, with a delay in some of its stages."""
    matrix = np.eye(8, dtype=np.float32)

    def source():
        while True:
            time.sleep(delays.get(READ, 0.0))
            yield {"matrix": matrix}

    def process(batch):
        time.sleep(delays.get(PROCESS, 0.0))
        return {"matrix": tf.matmul(batch["matrix"], batch["matrix"])}

    def copy_slowly(batch, plan):
        time.sleep(delays.get(TRANSFER, 0.0))
        return copy_to_model_device(batch, plan)

    for module in (engine, stage_timing):
        monkeypatch.setattr(module, "copy_to_model_device", copy_slowly)

    def train(batch):
        time.sleep(delays.get(TRAIN, 0.0))
        with tf.device(plan.model_device):
            return tf.reduce_sum(batch["matrix"])

    config = in_process(
        run, data={"num_workers": 1, "prefetch_buffer_size": 1, "pipeline_depth": 1}
    )
    return Subject(config, plan, source, {READ: source}, process, train)


ONE_AT_A_TIME = [{stage: SLOW_S} for stage in STAGES]
TWO_AT_ONCE = [{a: SLOWER_S, b: SLOW_S} for a, b in itertools.combinations(STAGES, 2)]
TWO_AT_ONCE += [{TRAIN: SLOWER_S, PROCESS: SLOW_S}]


@pytest.mark.parametrize(
    "delays", ONE_AT_A_TIME + TWO_AT_ONCE, ids=lambda delays: " and ".join(delays)
)
def test_the_slow_stage_is_named(plan, tmp_path, delays, monkeypatch):
    profile = measure(delayed_subject(plan, tmp_path, delays, monkeypatch), num_steps=8)
    slowest = max(delays, key=delays.get)
    assert profile.diagnosis.bottleneck == slowest
    assert profile.together.steps == 8
    assert str(advise(profile).verdict).count(f"stage {slowest}") == (slowest != TRAIN)
    assert pipeline_threads() == []


def test_a_profile_of_a_real_voice_measures_every_stage_and_gives_advice(tmp_path, plan):
    clips = make_clips(tmp_path / "clips", TOO_FEW_TO_VALIDATE)
    config = in_process(
        tmp_path / "run", data={"train_data": str(clips), "use_tf_native_loading": False}
    )
    phases = set()
    with open_voice(config, data_name="hums") as subject:
        profile = measure(
            subject,
            num_steps=5,
            trace_file=tmp_path / "trace.json",
            on_progress=lambda phase, done, total: phases.add(phase),
        )
    assert phases == {"reading", "compiling", "each stage alone", "all together"}
    assert set(profile.alone) == {*STAGES, READ_COLD, READ_CACHED, READ_NATIVE}
    assert all(times.mean_s > 0 for times in profile.alone.values())
    assert profile.together.steps == 5
    assert profile.together.retraces == 0
    assert len(profile.shapes) == 1
    assert [device.name for device in profile.devices] == ["/GPU:0", "/GPU:1"]
    assert profile.device("model").limit_mb == 16384
    assert profile.simulated
    assert profile.link.kind == "copy in memory"
    assert {span.stage for span in profile.together.spans} == set(STAGES)
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert not (tmp_path / "run").exists()  # nothing of the run itself is touched
    profile = replace(profile, advice=advise(profile))
    assert Profile.from_json(profile.to_json()) == profile
    text = "\n".join([*describe_profile(profile), *describe_advice(profile.advice)])
    for words in ("simulated on CPU", "Bottleneck:", "measured/bound", "Grade:", "data-parallel"):
        assert words in text
