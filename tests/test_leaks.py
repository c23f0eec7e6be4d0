"""The live leak detector: steady growth is caught, everything that settles is not."""

from __future__ import annotations

import numpy as np
import pytest

from myxtts.pipeline.leaks import Leak, LeakDetector


def watch(memory, *, steps: int, every: int = 1, noise_mb: float = 0.0) -> list[tuple[int, Leak]]:
    random = np.random.default_rng(1)
    detector = LeakDetector("Model GPU 1")
    leaks = []
    for step in range(0, steps, every):
        leak = detector.update(step, 1000 + memory(step) + noise_mb * random.standard_normal())
        if leak is not None:
            leaks.append((step, leak))
    return leaks


@pytest.mark.parametrize("every", [1, 10, 25])
@pytest.mark.parametrize("noise_mb", [0, 3])
def test_a_leak_of_one_mb_a_step_is_caught_within_300_steps(every, noise_mb):
    leaks = watch(lambda step: step, steps=301, every=every, noise_mb=noise_mb)
    assert len(leaks) == 1
    assert leaks[0][1].mb_per_step == pytest.approx(1.0, abs=0.1)
    assert "Model GPU 1: memory grows steadily by" in str(leaks[0][1])


def test_a_leak_that_starts_late_and_a_slow_one_are_caught_too():
    late = watch(lambda step: max(0, step - 2000), steps=2301, every=10)
    assert late
    assert 2000 < late[0][0] <= 2300
    slow = watch(lambda step: 0.02 * step, steps=5000, every=10, noise_mb=1)
    assert slow[0][1].mb_per_step == pytest.approx(0.02, rel=0.2)


def test_a_leak_under_a_sawtooth_is_caught():
    assert watch(lambda step: step + 80 * (step % 30) / 30, steps=600, every=10)


@pytest.mark.parametrize("every", [10, 25, 100])
@pytest.mark.parametrize(
    "memory",
    [
        pytest.param(lambda step: 0, id="flat"),
        pytest.param(lambda step: 3 * min(step, 100), id="short warm-up"),
        pytest.param(lambda step: 3 * min(step, 250), id="long warm-up"),
        pytest.param(lambda step: 500 * (1 - np.exp(-step / 80)), id="settling warm-up"),
        *(
            pytest.param(lambda step, p=p: 300 * (step % p) / p, id=f"sawtooth of {p} steps")
            for p in (7, 20, 50, 100, 200, 230)
        ),
        *(
            pytest.param(lambda step, at=at: 400 * (step > at), id=f"jump at {at}")
            for at in (20, 60, 160, 300, 700)
        ),
        pytest.param(lambda step: 100 * (step > 300) + 100 * (step > 900), id="two jumps"),
    ],
)
def test_what_settles_is_no_leak(memory, every):
    assert watch(memory, steps=3000, every=every, noise_mb=2) == []


def test_a_lasting_leak_is_said_once_a_window_not_at_every_reading():
    assert len(watch(lambda step: step, steps=1300)) == 5
