"""Numbers of the telemetry on known times."""

from __future__ import annotations

import pytest

from myxtts.config.config import XTTSConfig
from myxtts.pipeline.telemetry import MANY_SHAPES, WARM_UP_STEPS, Telemetry


def play(waits: list[float], works: list[float]) -> Telemetry:
    """A run whose steps took these times, after a warm-up of wild ones."""
    telemetry = Telemetry(ring_capacity=3)
    now = 100.0
    telemetry.delivered(at=now, waited=0.0, shape="4x80 4", ready=0)
    for wait, work in [(0.0, 9.0)] * WARM_UP_STEPS + list(zip(waits, works, strict=True)):
        now += work + wait
        telemetry.delivered(at=now, waited=wait, shape="4x80 4", ready=2)
    return telemetry


def test_variation_is_deviation_over_mean_without_the_warm_up():
    stats = play([0.0] * 4, [1.0, 3.0, 1.0, 3.0]).stats()
    assert stats.steps[0].mean_s == pytest.approx(2.0, rel=1e-4)
    assert stats.variation == pytest.approx(0.5, rel=1e-3)


def test_what_varies_is_split_into_waiting_and_work():
    assert play([0.0, 2.0] * 5, [1.0] * 10).stats().steps[0].waiting_share_of_variance > 0.99
    assert play([0.0] * 10, [1.0, 3.0] * 5).stats().steps[0].waiting_share_of_variance == 0.0


def test_batches_that_all_differ_in_shape_are_counted_together():
    telemetry = Telemetry(ring_capacity=3)
    now = 0.0
    for number in range(20):
        telemetry.delivered(at=now, waited=0.0, shape=f"{number}x80", ready=1)
        now += 0.1 if number % 2 else 2.0
    stats = telemetry.stats()
    assert [step.shape for step in stats.steps] == [MANY_SHAPES]
    assert stats.variation > 0.5


def test_occupancy_counts_what_the_model_found_ready():
    stats = play([0.0] * 4, [1.0] * 4).stats()
    assert stats.ring_occupancy == (1, 0, 4 + WARM_UP_STEPS, 0)


def test_a_mark_starts_the_counts_anew():
    telemetry = play([0.0] * 4, [1.0] * 4)
    telemetry.transferred_bytes = 7
    telemetry.mark()
    stats = telemetry.stats()
    assert (stats.steps, stats.transferred_bytes, sum(stats.ring_occupancy)) == ((), 0, 0)
    assert stats.variation is None


def test_a_pause_counts_neither_as_a_step_nor_in_the_rate():
    telemetry = Telemetry(ring_capacity=3)
    now = 0.0
    for number in range(20):
        telemetry.delivered(at=now, waited=0.0, shape="4x80", ready=1)
        now += 1.0
        if number % 5 == 4:  # a validation of a minute
            telemetry.step_ended(at=now, waited=0.0)
            telemetry.paused(60.0)
            now += 60.0
    assert telemetry.stats().variation == 0.0


def test_the_warning_at_the_end_of_a_run_is_the_judges(plan, caplog):
    from myxtts.training.reporting import warn_of_uneven_steps

    warn_of_uneven_steps(play([0.1] * 6, [1.0] * 6).stats(), XTTSConfig(), plan)
    assert caplog.messages == []  # they are even
    uneven = play([0.0, 2.0] * 5, [1.0] * 10)
    for name, state in (("train", "waiting for input"), ("process", "waiting for room")):
        uneven.meters[name].seconds |= {"busy": 50.0, state: 25.0}
        uneven.meters[name].batches = 50
    warn_of_uneven_steps(uneven.stats(), XTTSConfig(), plan)
    (warning,) = caplog.messages
    assert warning.startswith("Step time varies by 50% (shape 4x80): 100% of that is the model")
    assert warning.endswith(
        "waiting for stage process. More batches ready on the data device "
        "bridge the slow ones. Try --prefetch-buffer-size 8"
    )
