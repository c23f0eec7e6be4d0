"""The one collective of a step: gradients, and all that the replicas must agree on, in one sum."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.errors import ReplicaError
from myxtts.replicas.transport import Transport

Losses = Mapping[str, tf.Tensor]

DONE = 255  # a wish to stop that no signal caused; no signal has this number
LOSSES = 32  # places for them, whether a replica knows their names already or not
PARTS = 4  # of a 64-bit checksum, which a float holds exactly
MASK = (1 << 16) - 1
WISH, WORK, WAIT, PROOF = 0, 1, 2, 3  # columns of what each replica tells; the proof has four


class StoppedTogetherError(Exception):
    """A replica wishes to stop, and so all do: the sum that told so changes no weight."""

    def __init__(self, wishes: Mapping[int, int]) -> None:
        super().__init__(wishes)
        self.wishes = wishes  # of each rank that has one: a signal's number, or `DONE`

    @property
    def signal(self) -> tuple[int, int] | None:
        """The rank that got a signal, and which; None where none did."""
        found = [(rank, wish) for rank, wish in self.wishes.items() if wish != DONE]
        return found[0] if found else None


@dataclass
class Pace:
    """How the replicas kept step with each other, summed up since it was last asked."""

    steps: int
    work_s: Any  # [world], between two sums
    sum_s: Any  # [world], in the sum, waiting for the slowest included

    def as_dict(self) -> dict[str, Any]:
        """Means of a step, for the event file."""
        steps = max(1, self.steps)
        return {
            "steps": self.steps,
            "work_s": [round(float(s) / steps, 6) for s in self.work_s],
            "sum_s": [round(float(s) / steps, 6) for s in self.sum_s],
        }


class Exchange:
    """Adds up what a step made on each replica.

    `weights` gives the flat weights, whose checksum goes along in every sum: replicas that have
    drifted apart are refused, so that whatever is saved is what all of them have.
    """

    def __init__(self, transport: Transport, weights: Callable[[], Any], *, compiled: bool) -> None:
        self.transport, self._weights = transport, weights
        self._checksum = tf.function(_checksum, jit_compile=compiled)
        self._join = tf.function(_join, autograph=False)
        self._part = tf.function(_part, autograph=False)
        self._ended_at = time.perf_counter()
        self._last_sum_s = 0.0
        self._told = 0  # sums so far
        self._start_counting()

    def __call__(
        self, gradients: tf.Tensor, weight: tf.Tensor, losses: Losses
    ) -> tuple[tf.Tensor, tf.Tensor, dict[str, tf.Tensor]]:
        """Sums of gradients and weight over all replicas, and the means of a batch's losses.

        Raises `StoppedTogetherError` where a replica wishes to stop.
        """
        names = sorted(name for name in losses if name != "weight")[: LOSSES - 1]
        mine = [losses["weight"], *(losses[name] for name in names)]
        gradients, weight, means = self._sum(gradients, weight, mine, wish=0)
        clips, *values = tf.unstack(means, LOSSES)[: len(mine)]
        return gradients, weight, {**dict(zip(names, values, strict=True)), "weight": clips}

    def leave(self, *, wish: int = DONE) -> StoppedTogetherError:
        """Tell the others that this replica stops here; all of them then do."""
        with tf.device(self.transport.model_device):
            nothing = tf.zeros_like(tf.convert_to_tensor(self._weights()))
            try:
                self._sum(nothing, tf.constant(0.0), [tf.constant(0.0)], wish=wish)
            except StoppedTogetherError as together:
                return together
        raise AssertionError("a wish of our own was not heard")

    def take_pace(self) -> Pace:
        """How it went since this was last asked."""
        pace = Pace(self._steps, self._work_s, self._sum_s)
        self._start_counting()
        return pace

    def _start_counting(self) -> None:
        world = self.transport.cluster.world
        self._steps, self._work_s, self._sum_s = 0, np.zeros(world), np.zeros(world)

    def _sum(
        self, gradients: tf.Tensor, weight: tf.Tensor, losses: list[tf.Tensor], *, wish: int
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        cluster = self.transport.cluster
        proof = self._checksum(tf.convert_to_tensor(self._weights()))
        began = time.perf_counter()
        told = np.zeros([cluster.world, PROOF + PARTS], np.float32)
        told[cluster.rank, :PROOF] = wish, began - self._ended_at, self._last_sum_s
        packed = self._join(gradients, weight, losses, told, proof, cluster.rank)
        summed = self.transport.sum_on_model_device(packed)
        *sums, told_by_all = self._part(summed, cluster.world)
        told = told_by_all.numpy()  # waits for the sum, on a GPU too
        self._ended_at = time.perf_counter()
        self._last_sum_s = self._ended_at - began
        self._read(told)
        gradients, weight, means = sums
        return gradients, weight, means

    def _read(self, told: Any) -> None:
        """What the others say beside their gradients."""
        cluster = self.transport.cluster
        self._told += 1
        proofs = told[:, PROOF:]
        other = [rank for rank, proof in enumerate(proofs) if (proof != proofs[0]).any()]
        if other:
            raise ReplicaError(
                f"The weights of {cluster.names(other)} are no longer those of replica 0: its "
                "memory or its card may be at fault, or another program changed them.",
                "run the same command: it goes on from the last checkpoint; if it happens again, "
                "leave that machine out",
            )
        if self._told > 1:  # the time before the first is compiling and set-up
            self._steps += 1
            self._work_s += told[:, WORK]
            self._sum_s += told[:, WAIT] if self._told > 2 else 0.0
        wishes = {rank: int(wish) for rank, wish in enumerate(told[:, WISH]) if wish}
        if wishes:
            raise StoppedTogetherError(wishes)


def _join(
    gradients: tf.Tensor,
    weight: tf.Tensor,
    losses: list[tf.Tensor],
    told: tf.Tensor,
    proof: tf.Tensor,
    rank: tf.Tensor,
) -> tf.Tensor:
    """All of it end to end; the first of the losses is how many clips they are of."""
    clips, *others = losses
    weighted = tf.stack([clips, *(loss * clips for loss in others)])
    weighted = tf.pad(weighted, [[0, LOSSES - len(losses)]])
    mine = tf.cast(tf.range(tf.shape(told)[0]) == rank, tf.float32)[:, None]
    told = tf.concat([told[:, :PROOF], mine * proof[None, :]], axis=1)
    return tf.concat([gradients, tf.reshape(weight, [1]), weighted, tf.reshape(told, [-1])], axis=0)


def _part(summed: tf.Tensor, world: int) -> tuple[tf.Tensor, ...]:
    """What `_join` put together, summed: gradients, weight, clips and means of losses, the told."""
    columns = PROOF + PARTS
    told = tf.reshape(summed[-world * columns :], [world, columns])
    gradients, rest = (
        summed[: -world * columns - LOSSES - 1],
        summed[-world * columns - LOSSES - 1 :],
    )
    weight, weighted = rest[0], rest[1 : LOSSES + 1]
    means = weighted[1:] / tf.maximum(weighted[0], 1e-6)
    return gradients, weight, tf.concat([weighted[:1], means], axis=0), told


def _checksum(weights: tf.Tensor) -> tf.Tensor:
    """A number of the weights' very bits, in four parts of 16 bits each."""
    bits = tf.cast(tf.bitcast(weights, tf.int32), tf.int64)
    places = 2 * tf.range(tf.size(weights, out_type=tf.int64), dtype=tf.int64) + 1
    whole = tf.reduce_sum(bits * places)  # wraps around, as it should
    parts = [tf.bitwise.right_shift(whole, tf.constant(16 * i, tf.int64)) for i in range(PARTS)]
    return tf.cast(tf.bitwise.bitwise_and(tf.stack(parts), MASK), tf.float32)
