"""Says in one sentence how a run is doing, and what to change; either language can speak it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from myxtts.messages import Message, percent
from myxtts.pipeline.telemetry import (
    HIGH_VARIATION,
    PROCESS,
    READ,
    TRAIN,
    TRANSFER,
    StageStats,
)

Grade = Literal["excellent", "good", "minimum", "below minimum"]
# Shares of busy time of the model device, and step variation. The data device's share is shown
# beside them: a light load there is no fault.
GRADES: tuple[tuple[Grade, float, float], ...] = (
    ("excellent", 0.90, 0.20),
    ("good", 0.80, 0.30),
    ("minimum", 0.70, 0.40),
)

FEEDING = (READ, PROCESS, TRANSFER)
BUSY_ENOUGH = 0.9  # of the model: what is left is not worth a change
AT_ITS_LIMIT = 0.85  # a stage that works this much of its time cannot give more
FULL_MEMORY = 0.95
MORE_WORKERS = 24
FEWEST_BATCHES = 3


@dataclass(frozen=True)
class Verdict:
    """How the run is doing; `flags` are what to change, nothing where a profile must tell."""

    sentence: Message
    good: bool
    advice: Message | None = None
    flags: tuple[str, ...] = ()


TOO_EARLY = Verdict(Message("Too early to tell: the pipeline is warming up."), good=True)


def judge(
    stages: Mapping[str, StageStats],
    *,
    variation: float | None,
    fullest: tuple[Message, float] | None = None,
    data_config: Mapping[str, Any] | None = None,
) -> Verdict:
    """The verdict on what the stages did; `fullest` is a device's name and its share of memory."""
    train = stages.get(TRAIN)
    if train is None or train.batches < FEWEST_BATCHES:
        return TOO_EARLY
    if fullest is not None and fullest[1] >= FULL_MEMORY:
        return Verdict(
            Message("{} holds {} of its memory limit.", (fullest[0], percent(fullest[1]))),
            good=False,
            advice=Message("A smaller batch, or smaller buffers, keeps it from running out."),
        )
    if train.busy_share >= BUSY_ENOUGH:
        return _judge_busy(percent(train.busy_share), variation, data_config or {})
    stage = max(
        (name for name in FEEDING if name in stages), key=lambda name: stages[name].busy_share
    )
    waits, busy = percent(1 - train.busy_share), percent(stages[stage].busy_share)
    if stages[stage].busy_share < AT_ITS_LIMIT:
        depth = int((data_config or {}).get("prefetch_buffer_size", 4))
        return Verdict(
            Message(
                "The model waits {} of the time, though no stage is at its limit (stage {} is busy "
                "{}): batches come unevenly.",
                (waits, stage, busy),
            ),
            good=False,
            advice=Message("A larger buffer evens them out."),
            flags=(f"--prefetch-buffer-size {2 * depth}",),
        )
    return Verdict(
        Message(
            "The model waits {} of the time for stage {}, which is busy {}: that is the "
            "bottleneck.",
            (waits, stage, busy),
        ),
        good=False,
        **_faster_reading(data_config or {}) if stage == READ else {"advice": _MEASURE},
    )


def grade_of(busy: float, variation: float | None) -> str:
    """The grade of a model device that is busy this share of its time."""
    for name, least_busy, most_variation in GRADES:
        if busy > least_busy and (variation or 0.0) < most_variation:
            return name
    return "below minimum"


_MEASURE = Message("A profile measures each stage alone and says what would make it faster.")


def _judge_busy(busy: str, variation: float | None, data_config: Mapping[str, Any]) -> Verdict:
    if variation is None or variation <= HIGH_VARIATION:
        return Verdict(
            Message("The model is busy {} of the time: the data side keeps up.", (busy,)),
            good=True,
        )
    one_shape = data_config.get("static_shapes") == "one"
    return Verdict(
        Message(
            "The model is busy {} of the time, but its step time varies by {}: the steps "
            "themselves are uneven.",
            (busy, percent(variation)),
        ),
        good=False,
        advice=Message(
            "Leave the machine to this run: the same work should take the same time."
            if one_shape
            else "One fixed shape makes every step the same work."
        ),
        flags=() if one_shape else ("--enable-static-shapes",),
    )


def _faster_reading(data_config: Mapping[str, Any]) -> dict[str, Any]:
    if not data_config.get("cache"):
        return {
            "advice": Message("A cache spares reading the files again."),
            "flags": ("--cache memory",),
        }
    if int(data_config.get("num_workers", MORE_WORKERS)) < MORE_WORKERS:
        return {
            "advice": Message("More workers read more files at once."),
            "flags": (f"--num-workers {MORE_WORKERS}",),
        }
    return {"advice": _MEASURE}
