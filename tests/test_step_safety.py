"""A step learns nothing from a broken batch, stays on its device, and can be taken back exactly."""

from __future__ import annotations

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.errors import ConfigError
from myxtts.pipeline.transfer import is_on
from myxtts.training import step as step_module
from myxtts.training.precision import choose_precision
from myxtts.training.schedule import WarmUpCosine
from myxtts.training.snapshot import restore_snapshot, take_snapshot
from myxtts.training.tracing import WARM_UP_BATCHES, TraceWatch, planned_shape
from tests.steps import (
    DEVICE,
    assert_near,
    assert_same,
    flat_snapshot,
    make_rows,
    make_step,
    poisoned,
)
from tests.voices import PLAN

# -- what is not a number --


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("grad_accum", [1, 2])
def test_a_poisoned_batch_changes_nothing_and_is_counted(jit_compile, grad_accum):
    step = make_step(jit_compile=jit_compile, grad_accum=grad_accum)
    good, bad = make_rows(), poisoned(make_rows())
    for _ in range(grad_accum):
        step(good)
    before = flat_snapshot(step)
    assert step.updates == 1
    for times in (1, 2):
        for number in range(grad_accum):
            step(bad if number == 0 else good)
        counted = {"optimizer/skipped": times, "optimizer/skipped_in_a_row": times}
        after = flat_snapshot(step)
        assert_same(after, before, but=counted)
        assert {name: int(after[name]) for name in counted} == counted
    for _ in range(grad_accum):
        step(good)
    assert step.updates == 2
    assert int(step.skipped) == 2
    assert int(step.skipped_in_a_row) == 0
    assert np.isfinite(flat_snapshot(step)["model/slope/kernel"]).all()


def test_a_loss_that_is_not_finite_is_skipped_even_where_its_gradient_is():
    batch = make_rows()
    with tf.device(DEVICE):
        batch["y"] = tf.constant([np.inf, *np.zeros(7)], tf.float32)
        batch["counts"] = tf.constant([0.0, *np.ones(7)], tf.float32)  # infinity times zero
    step = make_step()
    step(batch)
    assert step.updates == 0
    assert int(step.skipped) == 1


def test_an_overflow_in_half_precision_halves_the_scale_and_is_nothing_wrong(monkeypatch):
    monkeypatch.setattr(step_module, "FIRST_LOSS_SCALE", 8.0)
    monkeypatch.setattr(step_module, "LOSS_SCALE_GROWTH_STEPS", 2)
    step = make_step(scale_loss=True)
    before = flat_snapshot(step)
    scales, in_a_row = [], []
    for _ in range(4):
        step(poisoned(make_rows()))
        scales.append(float(step.loss_scale))
        in_a_row.append(int(step.skipped_in_a_row))
    assert scales == [4.0, 2.0, 1.0, 1.0]
    assert in_a_row == [0, 0, 0, 1]  # only where no smaller scale is left is something wrong
    np.testing.assert_array_equal(
        flat_snapshot(step)["model/slope/kernel"], before["model/slope/kernel"]
    )
    for _ in range(4):
        step(make_rows())
        scales.append(float(step.loss_scale))
    assert scales[4:] == [1.0, 2.0, 2.0, 4.0]


def test_a_scaled_loss_gives_the_same_update():
    plain, scaled = make_step(), make_step(scale_loss=True)
    assert float(scaled.loss_scale) == step_module.FIRST_LOSS_SCALE
    plain(make_rows())
    scaled(make_rows())
    a, b = flat_snapshot(plain), flat_snapshot(scaled)
    for name in ("optimizer/loss_scale", "optimizer/good_steps"):
        a.pop(name), b.pop(name)
    assert_near(a, b)


# -- where, and how often --


@pytest.mark.parametrize("jit_compile", [False, True])
def test_everything_lives_on_the_model_device_and_a_shape_is_traced_once(jit_compile):
    with tf.device(DEVICE):
        schedule = WarmUpCosine(0.01, warm_up_steps=1, total_steps=10)
    step = make_step(jit_compile=jit_compile, learning_rate=schedule)
    for seed in range(3):
        losses = step(make_rows(8, seed=seed))
        step(make_rows(4, seed=seed))
    assert step.traces == 2
    values = [*step.model.variables, *step.variables.values(), step.weights]
    values = [v.value if isinstance(v, keras.Variable) else v for v in values]
    assert len(values) > 10
    assert all(is_on(value, DEVICE) for value in [*values, *losses.values()])


def batch_of_shape(rows, frames, tokens):
    return {"mels": tf.zeros([rows, frames, 80]), "tokens": tf.zeros([rows, tokens])}


def test_a_late_trace_is_warned_of_by_its_shape_unless_it_was_planned(caplog):
    watch = TraceWatch({planned_shape(4, 20, 5)})
    with caplog.at_level(logging.WARNING, "myxtts"):
        for _ in range(WARM_UP_BATCHES):
            watch.check(1, batch_of_shape(2, 10, 5))
        watch.check(2, batch_of_shape(4, 20, 5))
        assert not caplog.records
        watch.check(3, batch_of_shape(4, 30, 6))
        assert "4 x 30 frames x 6 tokens" in caplog.text
        watch.check(3, batch_of_shape(4, 30, 6))
        assert watch.late == 1
        watch.check(4, batch_of_shape(4, 20, 5))  # a planned shape, but for the second time
        assert watch.late == 2
        watch.expect_more()
        watch.check(5, batch_of_shape(4, 20, 5))
        assert watch.late == 2


def test_late_traces_are_warned_of_a_few_times_only(caplog):
    watch = TraceWatch()
    with caplog.at_level(logging.WARNING, "myxtts"):
        for number in range(WARM_UP_BATCHES + 20):
            watch.check(number if number > WARM_UP_BATCHES else 0, [tf.zeros([2, number])])
    assert watch.late > len(caplog.records) == 5
    assert "2x101" in caplog.text
    assert "the last warning of this kind" in caplog.records[-1].message


class FakeCard:
    def __init__(self, *capability):
        self._capability = capability

    def compute_capability(self, device):
        return self._capability


class GpuPlan:
    model_device = "/GPU:1"
    note = ""


@pytest.mark.parametrize(
    ("capability", "chosen"),
    [((6, 1), "float32"), ((7, 5), "mixed_float16"), ((8, 6), "mixed_bfloat16")],
)
def test_precision_is_what_the_card_is_fast_with_and_is_said(capability, chosen, caplog):
    with caplog.at_level(logging.INFO, "myxtts"):
        assert choose_precision(GpuPlan, mixed=True, hardware=FakeCard(*capability)) == chosen
    assert caplog.text.count("Mixed precision") == 1
    assert ("not used" in caplog.text) == (chosen == "float32")
    assert choose_precision(GpuPlan, mixed=False, hardware=FakeCard(*capability)) == "float32"


def test_a_cpu_trains_in_full_precision_and_says_so(caplog):
    with caplog.at_level(logging.INFO, "myxtts"):
        assert choose_precision(PLAN, mixed=True) == "float32"
    assert "float32" in caplog.text


# -- taking a run back --


def test_a_restored_snapshot_goes_on_bit_by_bit():
    options = {"scale_loss": True, "learning_rate": 0.02}
    step, other = make_step(**options), make_step(**options)
    for seed in range(3):
        step(make_rows(seed=seed))
        other(make_rows(seed=9 + seed))
    taken = take_snapshot(step)
    kept = flat_snapshot(step)
    for seed in range(3, 6):
        step(make_rows(seed=seed))
    np.testing.assert_array_equal(taken["model"]["slope/kernel"], kept["model/slope/kernel"])
    restore_snapshot(other, taken)
    assert_same(flat_snapshot(other), kept)
    for seed in range(3, 6):
        other(make_rows(seed=seed))
    assert_same(flat_snapshot(other), flat_snapshot(step))


def test_a_snapshot_that_does_not_fit_is_refused_and_changes_nothing():
    step = make_step()
    step(make_rows())
    before = flat_snapshot(step)
    step(make_rows(seed=1))
    taken = take_snapshot(step)

    def changed(group, name, value):
        tensors = {key: dict(arrays) for key, arrays in taken.items()}
        if value is None:
            del tensors[group][name]
        else:
            tensors[group][name] = value
        return tensors

    step = make_step()
    step(make_rows())
    cases = [
        (
            changed("model", "slope/kernel", np.zeros([4, 2])),
            r"slope/kernel has the shape \[4, 2\]",
        ),
        (changed("model", "extra", np.zeros([1])), "only the checkpoint has model tensor extra"),
        (changed("optimizer", "iteration", None), "only the model has optimizer tensor iteration"),
        (changed("ema", "sum/bias", None), "only the model has ema tensor sum/bias"),
        ({k: v for k, v in taken.items() if k != "ema"}, "only the model has ema tensor"),
    ]
    for tensors, words in cases:
        with pytest.raises(ConfigError, match=words):
            restore_snapshot(step, tensors)
        assert_same(flat_snapshot(step), before)
