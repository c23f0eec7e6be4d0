"""The data stage's form on a GPU is chosen by the clock, and products there are never rounded."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.features import mels
from myxtts.features.pitch import Heard, pitches
from myxtts.pipeline import process
from myxtts.pipeline.devices import DevicePlan, Mode
from myxtts.training import quickest, setup
from myxtts.training.quickest import CALLS, QuickestForm
from tests.support import FakeHardware

GPU = DevicePlan(Mode.SINGLE, "/GPU:0", "/GPU:0", data_gpu=0, model_gpu=0)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only the forms move."""
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(quickest.time, "perf_counter", lambda: now.s)
    return now


def forms(clock, calls, **seconds):
    def form(name, costs):
        def call(batch):
            calls.append(name)
            clock.s += next(costs)
            return {"sum": tf.reduce_sum(batch["x"])}

        return call

    return {name: form(name, iter(costs)) for name, costs in seconds.items()}


def test_the_quicker_form_is_used_and_said_and_compiling_does_not_count(clock, caplog):
    calls = []
    plain, compiled = [0.5] + [0.03] * 50, [60.0] + [0.01] * 50
    stage = QuickestForm(
        "Data stage", forms(clock, calls, plain=plain, compiled=compiled), device="/CPU:0"
    )
    with caplog.at_level(logging.INFO, "myxtts"):
        for frames in (4, 4, 8, 4, 8):
            assert stage({"x": tf.ones([2, frames])})["sum"] == 2 * frames
    assert caplog.messages == [
        "Data stage: a batch takes 30.0 ms plain, 10.0 ms compiled; it goes on compiled"
    ]
    assert calls[-3:] == ["compiled"] * 3  # settled: nothing is tried any more
    assert calls.count("plain") == 2 * (1 + CALLS)


def test_before_it_is_settled_nothing_is_tried_while_tracing(clock):
    calls = []
    stage = QuickestForm("Stage", forms(clock, calls, a=[1.0] * 9, b=[0.5] * 9), device="/CPU:0")
    tf.function(stage).get_concrete_function({"x": tf.TensorSpec([2, 4])})
    assert calls == ["a"]


@pytest.mark.parametrize(
    ("asked", "plan", "made"),
    [
        ("auto", GPU, [False, True]),
        ("on", GPU, [True]),
        ("off", GPU, [False]),
        ("auto", DevicePlan(Mode.SINGLE, "/CPU:0", "/CPU:0"), [False]),
    ],
)
def test_which_forms_there_are(asked, plan, made, monkeypatch):
    asked_for = []

    def make(varied, **given):
        asked_for.append(given["jit_compile"])
        return lambda batch: batch

    monkeypatch.setattr(setup, "make_device_stage", make)
    config = XTTSConfig(training={"xla_process": asked})
    train, plain = setup.device_stages(config, plan)
    assert train is plain
    assert asked_for == made
    assert isinstance(train, QuickestForm) == (len(made) == 2)


def test_a_switch_of_a_run_made_before_is_still_read():
    assert XTTSConfig(training={"xla_process": True}).training.xla_process == "on"
    assert XTTSConfig(training={"xla_process": False}).training.xla_process == "off"


@pytest.mark.parametrize("tf32", [False, True])
def test_how_a_gpu_multiplies_is_decided_and_said(tf32, caplog):
    machine = FakeHardware(24_576)
    with caplog.at_level(logging.INFO, "myxtts"):
        process.prepare_process(GPU, seed=0, tf32=tf32, hardware=machine)
    assert machine.tf32 is tf32
    assert ("TF32" in caplog.text) == tf32
    assert f"training.tf32: {str(tf32).lower()}" in caplog.text


def test_with_tf32_no_feature_is_a_product_of_float32():
    """The registry of a GPU would round such a product; the graph must hold none."""

    @tf.function
    def features(waves, lengths):
        heard = pitches([Heard(waves, lengths)], by_row=False, exact=True)
        return mels.log_mel(waves, lengths, by_row=False, exact=True), heard

    traced = features.get_concrete_function(tf.TensorSpec([2, 8192]), tf.TensorSpec([2], tf.int32))
    products = [op for op in traced.graph.get_operations() if "MatMul" in op.type]
    assert products
    assert {op.inputs[0].dtype for op in products} == {tf.float64}


def test_exact_features_are_the_same_features():
    waves = np.random.default_rng(0).normal(0, 0.1, [2, 8192]).astype(np.float32)
    lengths = np.array([8192, 5000], np.int32)
    plain, exact = (mels.log_mel(waves, lengths, exact=exact) for exact in (False, True))
    np.testing.assert_allclose(plain, exact, atol=1e-5)
