"""One update: what it adds up, and that a voice model learns by it."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import ModelConfig
from myxtts.models.xtts import XTTS
from myxtts.training.schedule import FINAL_SHARE, WarmUpCosine
from myxtts.training.snapshot import restore_snapshot, take_snapshot
from tests.steps import (
    DEVICE,
    Line,
    assert_near,
    assert_same,
    flat_snapshot,
    make_rows,
    make_step,
    rows_of,
)
from tests.voices import (
    CLIPS,
    HEADS,
    ONE_BLOCK,
    WIDTHS,
    losses_of,
    make_batch,
    make_clip,
    shared_voice,
)

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


def test_a_compiled_update_that_gets_no_memory_is_tried_again(monkeypatch):
    batch, step = make_rows(8), make_step(jit_compile=True)
    update, calls = step._update, iter(range(100))

    def run_out_once(gradients, weight):
        if next(calls) == 0:
            raise tf.errors.ResourceExhaustedError(None, None, "injected")
        return update(gradients, weight)

    monkeypatch.setattr(step, "_update", run_out_once)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="injected"):
        step(batch)
    assert step.updates_begun == 0  # so that what was there before may still be saved
    step(batch)
    assert (step.updates, step.updates_begun) == (1, 1)


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
