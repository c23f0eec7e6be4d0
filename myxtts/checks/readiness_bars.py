"""What a traced function must be to be ready for a GPU, and what it lacks of that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from myxtts.checks.gpu_lowering import Lowering, lower
from myxtts.checks.gpu_readiness import Readiness, read_function
from myxtts.checks.hot_paths import HotPath
from myxtts.profiling.cards import CARDS
from myxtts.profiling.kernels import kernels_of
from myxtts.profiling.speed_estimate import Stage, StageTime, time_stage

MOST_LAUNCHES = {
    "data stage": 400,
    "played": 480,
}  # of a batch of 16 clips of 800 frames, without XLA
RTX_3090 = next(card.device() for card in CARDS if card.name == "RTX 3090")
MOST_LOOP_SHARE = 0.10  # of a compiled step as estimated for a 3090
# The length of speech decides the shape of all that follows, and shapes are the host's.
TRIPS_ALLOWED = {"speaking": 1}


@dataclass(frozen=True)
class Reading:
    """What was found in one function, as operations or as XLA compiles it."""

    name: str
    found: Readiness
    lowering: Lowering | None = None  # of a compiled one
    estimate: StageTime | None = None  # of a compiled step, on a 3090

    @property
    def trips(self) -> int:
        """Between the two memories, but for the input's own."""
        if self.lowering is not None:
            return self.lowering.branches
        return len(self.found.to_host) + len(self.found.from_host)


def read_path(path: HotPath) -> Reading:
    """Ask TensorFlow's registry, and XLA where it compiles the function."""
    found = read_function(path.concrete)
    if not path.compiled:
        return Reading(path.name, found)
    estimate = None
    if path.name == "gradients":
        step = Stage(path.name, kernels_of(path.concrete, compiled=True), compiled=True)
        estimate = time_stage(step, RTX_3090)
    return Reading(path.name, found, lower(path.concrete), estimate)


def shortcomings(reading: Reading) -> Iterator[str]:
    """Each bar that is missed, in words."""
    found, lowering = reading.found, reading.lowering
    trips = TRIPS_ALLOWED.get(reading.name, 0)
    if lowering is None:
        yield from _listed("no GPU kernel", found.missing)
        yield from _listed("computed by the host", found.on_host)
        if reading.trips > trips:
            yield from _listed("trip to the host", found.to_host)
            yield from _listed("trip from the host", found.from_host)
        most = MOST_LAUNCHES.get(reading.name)
        if most is not None and found.launches > most:
            yield f"{found.launches} launches, at most {most}"
        return
    if lowering.problem:
        yield f"XLA does not take it for a GPU: {lowering.problem}"
    yield from _listed("XLA has no GPU kernel", list(lowering.missing))
    if lowering.branches > trips:
        yield f"{lowering.branches} branches, each decided by the host"
    if reading.estimate is not None and reading.estimate.loop_share > MOST_LOOP_SHARE:
        yield f"loops are {reading.estimate.loop_share:.0%} of the step, at most 10 %"


def _listed(what: str, lines: list[Any]) -> Iterator[str]:
    yield from (f"{what}: {line}" for line in lines)
