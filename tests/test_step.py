"""One update: what it adds up, what it leaves alone, and that it can be taken back exactly."""

from __future__ import annotations

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import ModelConfig
from myxtts.errors import ConfigError
from myxtts.models.xtts import XTTS
from myxtts.pipeline.transfer import is_on
from myxtts.training import step as step_module
from myxtts.training.precision import choose_precision
from myxtts.training.schedule import FINAL_SHARE, WarmUpCosine
from myxtts.training.snapshot import restore_snapshot, take_snapshot
from myxtts.training.step import TrainStep
from myxtts.training.tracing import WARM_UP_BATCHES, TraceWatch, planned_shape
from tests.voices import (
    CLIPS,
    HEADS,
    ONE_BLOCK,
    PLAN,
    WIDTHS,
    losses_of,
    make_batch,
    make_clip,
    shared_voice,
)

DEVICE = PLAN.model_device


class Line(keras.Model):
    """Predicts one number from three: every update can be followed by hand."""

    def __init__(self) -> None:
        super().__init__(name="line")
        self.slope = keras.layers.Dense(2, name="slope", kernel_initializer="ones")
        self.sum = keras.layers.Dense(1, name="sum", kernel_initializer="ones")
        self.sum(self.slope(tf.zeros([1, 3])))
        self.built = True

    def compute_losses(self, batch, *, step, training):
        off = tf.cast(self.sum(self.slope(batch["x"])), tf.float32)[:, 0] - batch["y"]
        weight = tf.reduce_sum(batch["counts"])
        loss = tf.reduce_sum(tf.square(off) * batch["counts"]) / tf.maximum(weight, 1.0)
        return {"loss": loss, "weight": weight}


def make_rows(rows=8, *, seed=0, masked=()):
    random = np.random.default_rng(seed)
    counts = np.ones([rows], np.float32)
    counts[list(masked)] = 0.0
    with tf.device(DEVICE):
        return {
            "x": tf.constant(random.normal(size=[rows, 3]).astype(np.float32)),
            "y": tf.constant(random.normal(size=[rows]).astype(np.float32)),
            "counts": tf.constant(counts),
        }


def rows_of(batch, start, stop):
    with tf.device(DEVICE):
        return {name: tf.identity(value[start:stop]) for name, value in batch.items()}


def make_step(model=None, **options):
    if model is None:
        with tf.device(DEVICE):
            model = Line()
    step = TrainStep(
        model,
        device=DEVICE,
        **{"learning_rate": 0.05, "weight_decay": 0.01, "ema_decay": 0.9, **options},
    )
    step.build()
    return step


def flat_snapshot(step):
    groups = take_snapshot(step)
    return {
        f"{group}/{name}": np.array(value)
        for group, tensors in groups.items()
        for name, value in tensors.items()
    }


def assert_same(a, b, *, but=()):
    assert a.keys() == b.keys()
    for name in a.keys() - set(but):
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def assert_near(a, b, *, tolerance=1e-5):
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_allclose(value, b[name], atol=tolerance, err_msg=name)


def poisoned(batch):
    with tf.device(DEVICE):
        x = batch["x"].numpy()
        x[1, 1] = np.nan
        return {**batch, "x": tf.constant(x)}


# -- adding up --


@pytest.mark.parametrize("masked", [(), (0, 1, 2, 5)], ids=["whole", "unevenly masked"])
def test_four_batches_added_up_are_one_large_batch(masked):
    batch = make_rows(8, masked=masked)
    large, small = make_step(), make_step(grad_accum=4)
    for _ in range(3):
        expected = large(batch)
        for start in range(0, 8, 2):
            assert small.at_update == (start == 0)
            losses = small(rows_of(batch, start, start + 2))
        assert float(losses["gradient_norm"]) == pytest.approx(
            float(expected["gradient_norm"]), rel=1e-5
        )
    assert small.updates == 3
    assert_near(flat_snapshot(small), flat_snapshot(large))


def test_what_is_left_at_the_end_of_a_run_makes_an_update():
    batch = make_rows()
    large, small = make_step(), make_step(grad_accum=4)
    large(batch)
    assert not small.apply_what_is_left()
    small(rows_of(batch, 0, 4))
    small(rows_of(batch, 4, 8))
    assert small.apply_what_is_left()
    assert small.at_update
    assert_near(flat_snapshot(small), flat_snapshot(large))


def test_a_batch_worked_on_in_halves_gives_the_same_update_and_losses():
    batch = make_rows(8, masked=(0, 1, 2))
    whole, halved = make_step(), make_step()
    assert halved.halve_micro_batch(8) == 4
    assert halved.halve_micro_batch(8) == 2
    for _ in range(2):
        expected, losses = whole(batch), halved(batch)
        assert_near(
            {name: value.numpy() for name, value in losses.items()},
            {name: value.numpy() for name, value in expected.items()},
        )
    assert_near(flat_snapshot(halved), flat_snapshot(whole))
    assert halved.traces == 1


def test_a_single_row_cannot_be_halved():
    step = make_step()
    assert step.halve_micro_batch(1) is None
    assert [step.halve_micro_batch(6) for _ in range(3)] == [3, 1, None]


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_memory_that_runs_out_within_a_batch_does_not_change_the_update(fails_at, monkeypatch):
    batch = make_rows(8, masked=(0, 1, 2))
    calm, unlucky = make_step(grad_accum=2), make_step(grad_accum=2)
    for step in (calm, unlucky):
        step(batch)
        step.halve_micro_batch(8)
        step.halve_micro_batch(8)
    calm(batch)

    compute, calls = unlucky._gradients, iter(range(100))

    def run_out_once(micro_batch):
        if next(calls) == fails_at:
            raise tf.errors.ResourceExhaustedError(None, None, "injected")
        return compute(micro_batch)

    monkeypatch.setattr(unlucky, "_gradients", run_out_once)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="injected"):
        unlucky(batch)
    assert unlucky.updates == 0
    assert unlucky.halve_micro_batch(8) == 1
    unlucky(batch)
    assert unlucky.updates == calm.updates == 1
    assert_near(flat_snapshot(unlucky), flat_snapshot(calm))


# -- the update --


def test_clipping_bounds_the_gradient_and_reports_its_norm():
    batch = make_rows()
    step = make_step(gradient_clip=0.01)
    loose = make_step(gradient_clip=1e9)
    norms = [float(s(batch)["gradient_norm"]) for s in (step, loose)]
    assert norms[0] == pytest.approx(norms[1])
    assert norms[0] > 0.1
    # Adam's first momentum is a tenth of the gradient it was given.
    momenta = [
        np.linalg.norm(flat_snapshot(s)["optimizer/weights_momentum"]) for s in (step, loose)
    ]
    assert momenta[0] == pytest.approx(0.1 * 0.01, rel=1e-4)
    assert momenta[1] == pytest.approx(0.1 * norms[0], rel=1e-4)


def test_the_rate_rises_to_its_peak_and_falls_to_its_final_share():
    schedule = WarmUpCosine(2.0, warm_up_steps=50, total_steps=1050)
    rates = {step: float(schedule(step)) for step in (0, 24, 49, 50, 550, 1050, 5000)}
    assert rates == pytest.approx(
        {
            0: 2.0 / 50,
            24: 1.0,
            49: 2.0,
            50: 2.0,
            550: 2.0 * (1 + FINAL_SHARE) / 2,
            1050: 2.0 * FINAL_SHARE,
            5000: 2.0 * FINAL_SHARE,
        },
        rel=1e-4,
    )


def test_a_short_run_warms_up_for_a_tenth_and_another_length_needs_no_new_schedule():
    schedule = WarmUpCosine(1.0, warm_up_steps=500, total_steps=100)
    assert float(schedule(9)) == pytest.approx(1.0)
    assert float(schedule(4)) == pytest.approx(0.5)
    rate = tf.function(schedule)
    assert float(rate(tf.constant(100))) == pytest.approx(FINAL_SHARE)
    schedule.total_steps.assign(10_000)
    assert float(rate(tf.constant(499))) == pytest.approx(1.0)
    assert float(WarmUpCosine(1.0, warm_up_steps=0, total_steps=10)(0)) == pytest.approx(1.0)


def test_the_averaged_weights_are_the_average_worked_out_by_hand():
    step = make_step(ema_decay=0.25)
    average = flat_snapshot(step)["model/slope/kernel"]
    for done in range(1, 6):
        step(make_rows(seed=done))
        decay = min(0.25, (1 + done) / (10 + done))
        average = average * decay + flat_snapshot(step)["model/slope/kernel"] * (1 - decay)
    np.testing.assert_allclose(flat_snapshot(step)["ema/slope/kernel"], average, rtol=1e-5)


def test_averaged_weights_are_lent_and_given_back_even_after_a_failure():
    step = make_step()
    for seed in range(3):
        step(make_rows(seed=seed))
    before = flat_snapshot(step)
    with step.averaged_weights():
        lent = step.model.slope.kernel.numpy()
    np.testing.assert_array_equal(lent, before["ema/slope/kernel"])
    assert not np.array_equal(lent, before["model/slope/kernel"])
    assert_same(flat_snapshot(step), before)
    with pytest.raises(ZeroDivisionError), step.averaged_weights():
        raise ZeroDivisionError
    assert_same(flat_snapshot(step), before)


def test_frozen_parts_stay_as_they_are():
    with tf.device(DEVICE):
        model = Line()
    model.slope.trainable = False
    step = make_step(model)
    before = flat_snapshot(step)
    for seed in range(3):
        step(make_rows(seed=seed))
    after = flat_snapshot(step)
    np.testing.assert_array_equal(after["model/slope/kernel"], before["model/slope/kernel"])
    assert not np.array_equal(after["model/sum/kernel"], before["model/sum/kernel"])
    assert [name for name in after if name.startswith("ema/")] == ["ema/sum/kernel", "ema/sum/bias"]


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


# -- with the voice model itself --


@pytest.mark.parametrize("head", HEADS)
def test_a_voice_models_update_does_not_depend_on_how_a_batch_is_split(head):
    batch = make_batch([*CLIPS, make_clip(6, 15, 8, 4)], masked_rows=1)
    step = make_step(shared_voice(head), gradient_clip=1e9)
    step._gradients = step._compute_gradients  # untraced: two traces would take far longer
    start = take_snapshot(step)
    whole = step(batch)
    wanted = flat_snapshot(step)["optimizer/weights_momentum"]
    restore_snapshot(step, start)
    assert step.halve_micro_batch(6) == 3
    halved = step(batch)
    assert float(halved["weight"]) == 5
    for name in ("loss", "mel", "duration", "gradient_norm"):
        assert float(halved[name]) == pytest.approx(float(whole[name]), rel=1e-4), name
    got = flat_snapshot(step)["optimizer/weights_momentum"]
    np.testing.assert_allclose(got, wanted, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("head", HEADS)
def test_a_voice_model_learns_four_clips_in_a_few_dozen_steps(head):
    keras.utils.set_random_seed(0)
    with tf.device(DEVICE):
        model = XTTS(ModelConfig(**{**WIDTHS, **ONE_BLOCK, "decoder_head": head}))
    step = make_step(model, learning_rate=5e-3)
    batch = make_batch(CLIPS)
    before = losses_of(model, batch, step=200)
    for _ in range(60):
        step(batch)
    after = losses_of(model, batch, step=200)
    assert after["loss"] < 0.8 * before["loss"]
    assert after["mel"] < before["mel"]
    assert after["duration"] < before["duration"]
    assert step.traces == 1
