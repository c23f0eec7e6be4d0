"""Which batches a replica takes: of every so many in a row, one; the same ones for any number."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Share(NamedTuple):
    """Which of the batches of a step a replica takes."""

    rank: int = 0
    world: int = 1


WHOLE = Share()


def take_share(batches: Iterator[T], share: Share) -> Iterator[tuple[T, T, bool]]:
    """Of each step: the replica's own batch, the last of all, and whether the own one is real.

    Where the last step has fewer batches than replicas, those left over get its first one, which
    is another's. A step goes on over the end of an epoch, as adding up gradients does: so many
    replicas take the batches that one would add up.
    """
    while step := list(itertools.islice(batches, share.world)):
        real = share.rank < len(step)
        yield step[share.rank if real else 0], step[-1], real
