"""What training will do with so many minutes of recordings, and how long that takes: honestly."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.messages import Message
from myxtts.training.recipe import MOST_MINUTES, choose_recipe, clips_a_batch

# Seconds of clips that `tiny` from the base voice trains on in a second, on two CPU cores of a
# shared virtual machine (docs/en/numbers.md). How much faster more cores are was not measured: the
# estimate counts on half of what they could bring.
CPU_SECONDS_A_SECOND = 112.0
CPU_CORES = 2
UNSURE = (0.5, 2.0)  # by how much such an estimate may be wrong
COMPILING_S = 60.0  # before the first step
MINUTES_UP_TO_S = 5400.0  # from then on it is said in hours

NOT_ON_GPU = Message(
    "How long it takes on this GPU is not known before: no run was measured on one. After the "
    "first steps the time left is shown."
)
NO_RECIPE = Message(
    "How long that takes is not known before. After the first steps the time left is shown."
)
MEASURED = Message("{} by the rate of the last run on this machine.")
ESTIMATED = Message(
    "About {} on this CPU: an estimate from two other cores; after the first steps the time left "
    "is shown."
)


@dataclass(frozen=True)
class TrainingPlan:
    """What will be trained, and for how long."""

    minutes: float  # of recordings
    steps: int
    has_recipe: bool  # else it is as long as the settings say
    time: Message


def plan_training(
    *,
    minutes: float,
    mean_seconds: float,
    steps: int | None,
    cores: int,
    has_gpu: bool,
    measured_rate: float | None = None,
) -> TrainingPlan:
    """The plan for so many minutes in clips of a mean length; the recipe's steps unless given."""
    chosen = steps or choose_recipe(minutes).steps
    has_recipe = minutes <= MOST_MINUTES
    time = NO_RECIPE  # its length is the settings', its size not the one that was measured
    if has_recipe or (steps and measured_rate):
        time = _time(chosen, mean_seconds, cores, has_gpu, measured_rate)
    return TrainingPlan(minutes=minutes, steps=chosen, has_recipe=has_recipe, time=time)


def _time(
    steps: int,
    mean_seconds: float,
    cores: int,
    has_gpu: bool,
    measured_rate: float | None,
) -> Message:
    if measured_rate:
        return Message(MEASURED.english, (duration(COMPILING_S + steps / measured_rate),))
    if has_gpu:
        return NOT_ON_GPU
    faster = 1 + max(0.0, cores / CPU_CORES - 1) / 2 if cores >= CPU_CORES else 0.5
    mean_seconds = max(1.0, mean_seconds)
    rate = CPU_SECONDS_A_SECOND / (clips_a_batch(mean_seconds) * mean_seconds) * faster
    low, high = (COMPILING_S + share * steps / rate for share in UNSURE)
    if high < MINUTES_UP_TO_S:
        between = Message("{} to {} minutes", (f"{low / 60:.0f}", f"{high / 60:.0f}"))
    else:
        between = Message("{} to {} hours", (f"{low / 3600:.1f}", f"{high / 3600:.1f}"))
    return Message(ESTIMATED.english, (between,))


def duration(seconds: float) -> Message:
    """A time as people say it, no more exact than it is known."""
    if seconds < 90:
        return Message("a minute")
    if seconds < MINUTES_UP_TO_S:
        return Message("{} minutes", (f"{seconds / 60:.0f}",))
    return Message("{} hours", (f"{seconds / 3600:.1f}",))
