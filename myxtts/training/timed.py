"""Training for so many minutes on any machine: the learning rate falls until they are over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from myxtts.training.trainer import XTTSTrainer

RATE_STEPS = 30  # after which the rate is known well enough to plan the rest
LAST_PLAN_S = 60.0  # before the end; the rate of learning falls smoothly from then on
SPENT = 0.97  # of the time: a run that has had it is over


def has_had(trainer: XTTSTrainer, *, minutes: float) -> bool:
    """Whether a run that goes on has had its time already."""
    return trainer.state.seconds >= SPENT * 60 * minutes


def train_for(
    trainer: XTTSTrainer, *, minutes: float, most_steps: int | None = None
) -> dict[str, Any]:
    """Train for so long, those minutes before a resume included; returns what came of it."""
    began = time.monotonic() - trainer.state.seconds
    first = trainer.state.step
    measured_at = 0.0

    def plan_the_rest(step: int, losses: Any) -> None:
        nonlocal measured_at
        now = time.monotonic()
        if step == first + 1:
            measured_at = now  # the first step compiled
        # Planned again and again, since a busy machine changes its pace.
        elif (step - first) % RATE_STEPS == 0:
            left = began + 60 * minutes - now
            rate = (step - first - 1) / (now - measured_at)
            if left > LAST_PLAN_S or step == first + RATE_STEPS:
                last = step + max(1, int(left * rate))
                trainer.stop_after(last if most_steps is None else min(last, most_steps))

    return trainer.train(on_step=plan_the_rest)
