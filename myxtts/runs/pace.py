"""How the replicas of a run keep step with each other: who works longest, and who waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ReplicaPace:
    """One replica in the mean step of the last few."""

    rank: int
    work_s: float  # until its gradients are ready
    waits_s: float  # for the slowest


@dataclass(frozen=True)
class Pace:
    """All replicas of a run; none where one process trains alone."""

    replicas: tuple[ReplicaPace, ...] = ()
    sum_s: float = 0.0  # of a step: adding up the gradients, once all are ready

    @property
    def slowest(self) -> ReplicaPace:
        """The one that the others wait for."""
        return max(self.replicas, key=lambda replica: replica.work_s)

    @property
    def step_s(self) -> float:
        """A step, from one sum to the next."""
        return self.slowest.work_s + self.sum_s

    @property
    def sum_share(self) -> float:
        """How much of a step the adding up takes."""
        return self.sum_s / self.step_s if self.step_s else 0.0


ALONE = Pace()


def read_pace(values: Mapping[str, Any]) -> Pace | None:
    """What a `replicas` event tells; None where it tells of no step."""
    work, sums = values["work_s"], values["sum_s"]
    if not values["steps"] or len(work) != len(sums):
        return None
    longest = max(work)
    replicas = (ReplicaPace(rank, taken, longest - taken) for rank, taken in enumerate(work))
    return Pace(tuple(replicas), min(sums))  # the slowest finds all the others waiting already
