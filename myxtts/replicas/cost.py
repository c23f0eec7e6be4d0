"""What adding up gradients costs: a small model of a ring, for plans and for what is said of scale.

Around a ring of n each replica sends and receives 2 (n - 1) / n of the gradients' bytes, in
2 (n - 1) rounds: the bytes hardly grow with n, the rounds do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BITS = 8e-9  # Gb of a byte
USABLE = 0.8  # of a network's nominal rate, as protocols leave it; an assumption
NETWORK_LATENCY_S = 20e-6  # of a round over a network of today's data centres; an assumption


@dataclass(frozen=True)
class Link:
    """What connects one replica with the next."""

    bytes_per_s: float
    latency_s: float  # of one round

    @classmethod
    def of_network(cls, gigabits: float) -> Link:
        """A network of so many Gb/s."""
        return cls(USABLE * gigabits / BITS, NETWORK_LATENCY_S)


@dataclass(frozen=True)
class Measured:
    """One sum that was timed."""

    num_bytes: float
    replicas: int
    seconds: float


def ring_s(num_bytes: float, replicas: int, link: Link) -> float:
    """The time of one sum over all replicas."""
    rounds = 2 * (replicas - 1)
    return rounds * (num_bytes / replicas / link.bytes_per_s + link.latency_s)


def step_s(work_s: float, num_bytes: float, replicas: int, link: Link) -> float:
    """A step: the work of each replica, then the sum; nothing of them overlaps."""
    return work_s + ring_s(num_bytes, replicas, link)


def efficiency(work_s: float, num_bytes: float, replicas: int, link: Link) -> float:
    """How much of so many times one replica's rate is reached, from 0 to 1."""
    return work_s / step_s(work_s, num_bytes, replicas, link)


def fit_link(measured: Sequence[Measured]) -> Link:
    """The link that explains these times best; they should differ in bytes."""
    rounds = np.array([2 * (m.replicas - 1) for m in measured], float)
    sent = np.array([r * m.num_bytes / m.replicas for r, m in zip(rounds, measured, strict=True)])
    seconds = np.array([m.seconds for m in measured])
    slope, latency = np.linalg.lstsq(np.stack([sent, rounds], 1), seconds, rcond=None)[0]
    if latency < 0 or slope <= 0:  # noise: bytes alone explain it
        slope, latency = float((seconds * sent).sum() / (sent * sent).sum()), 0.0
    return Link(1.0 / float(slope), float(latency))
