"""A run that is given minutes ends when they are over, whatever the machine's pace."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from myxtts.training import timed
from myxtts.training.timed import has_had, train_for


class Trainer:
    """Takes steps of a length on a clock of its own; the first one compiles."""

    def __init__(self, monkeypatch, *, step_s, seconds=0.0, step=0):
        self.now, self.step_s, self.last = 1000.0, step_s, 10**9
        self.state = SimpleNamespace(seconds=seconds, step=step)
        monkeypatch.setattr(timed.time, "monotonic", lambda: self.now)

    def stop_after(self, steps):
        self.last = steps

    def train(self, *, on_step):
        began = self.now - self.state.seconds
        self.now += 20.0
        while self.state.step < self.last:
            self.state.step += 1
            self.now += self.step_s(self.state.step)
            on_step(self.state.step, {})
        self.state.seconds = self.now - began
        return {"steps": self.state.step}


@pytest.mark.parametrize(("seconds", "step"), [(0.0, 0), (300.0, 900)])
def test_it_ends_with_its_minutes_those_before_a_resume_included(monkeypatch, seconds, step):
    pace = lambda number: 0.5 if number % 400 < 200 else 0.25  # noqa: E731 - a busy machine
    trainer = Trainer(monkeypatch, step_s=pace, seconds=seconds, step=step)
    train_for(trainer, minutes=10)
    assert trainer.state.seconds == pytest.approx(600, abs=30)
    assert has_had(trainer, minutes=10)
    assert not has_had(trainer, minutes=12)


def test_it_takes_no_more_steps_than_it_may(monkeypatch):
    trainer = Trainer(monkeypatch, step_s=lambda _: 0.1)
    assert train_for(trainer, minutes=10, most_steps=700) == {"steps": 700}
