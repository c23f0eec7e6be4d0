"""How many steps a second a device could do at the most: arithmetic on what the graphs really hold.

Each kernel takes the longest of three times: its arithmetic at the device's peak, its bytes at the
memory's bandwidth, or what it takes to start it. Kernels follow each other; stages on two devices
overlap. No device reaches its peaks, so the rate is an upper bound, but for what a launch costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from myxtts.profiling.cards import Device
from myxtts.profiling.kernels import Kernel

Rule = Literal["compute", "memory", "launches"]
RULES: tuple[Rule, ...] = ("compute", "memory", "launches")


@dataclass(frozen=True)
class Stage:
    """A traced function of the step, or of what comes before it."""

    name: str
    kernels: Sequence[Kernel]
    compiled: bool
    share: float = 1.0  # of the batches for which it runs

    @property
    def launches(self) -> int:
        """Kernels started, those in loops as often as they go round."""
        return sum(kernel.times for kernel in self.kernels)

    @property
    def flops(self) -> float:
        """Floating-point operations."""
        return sum(kernel.times * kernel.cost.flops for kernel in self.kernels)

    @property
    def bytes(self) -> float:
        """Bytes read and written."""
        return sum(kernel.times * kernel.cost.bytes for kernel in self.kernels)


@dataclass(frozen=True)
class StageTime:
    """What a stage takes on a device, in seconds a batch."""

    stage: Stage
    compute_s: float  # all its arithmetic at the peaks
    memory_s: float  # all its bytes at the bandwidth
    launch_s: float  # all its launches
    seconds: float  # the longest of the three of each kernel, one after another
    by_rule: dict[Rule, float]  # the same, by which of them it was
    loop_s: float  # of which inside loops

    @property
    def loop_share(self) -> float:
        """What part of it its loops take."""
        return self.loop_s / self.seconds if self.seconds else 0.0

    @property
    def rule(self) -> Rule:
        """What most of the time is due to."""
        return max(RULES, key=lambda rule: self.by_rule[rule])


def time_stage(stage: Stage, device: Device) -> StageTime:
    """The arithmetic for one stage."""
    totals: dict[Rule, float] = dict.fromkeys(RULES, 0.0)
    by_rule: dict[Rule, float] = dict.fromkeys(RULES, 0.0)
    loop_s = 0.0
    for kernel in stage.kernels:
        often = kernel.times * stage.share
        takes: dict[Rule, float] = {
            "compute": often * device.compute_s(kernel.cost),
            "memory": often * device.memory_s(kernel.cost),
            "launches": often * device.launch_s,
        }
        for rule, seconds in takes.items():
            totals[rule] += seconds
        longest = max(RULES, key=lambda rule: takes[rule])
        by_rule[longest] += takes[longest]
        loop_s += takes[longest] if kernel.loop else 0.0
    return StageTime(
        stage=stage,
        compute_s=totals["compute"],
        memory_s=totals["memory"],
        launch_s=totals["launches"],
        seconds=sum(by_rule.values()),
        by_rule=by_rule,
        loop_s=loop_s,
    )


@dataclass(frozen=True)
class Work:
    """All that one batch asks for, on the data device, between the devices and on the model's."""

    process: tuple[Stage, ...]
    train: tuple[Stage, ...]
    input_bytes: int  # from the host to the data device
    crossing_bytes: int  # from there to the model device


@dataclass(frozen=True)
class SpeedEstimate:
    """The most that one device, or two of them, could do."""

    device: Device
    process: tuple[StageTime, ...]
    train: tuple[StageTime, ...]
    input_s: float
    transfer_s: float

    @property
    def process_s(self) -> float:
        """On the data device."""
        return sum(time.seconds for time in self.process)

    @property
    def train_s(self) -> float:
        """On the model device."""
        return sum(time.seconds for time in self.train)

    @property
    def one_device_s(self) -> float:
        """Both jobs one after the other; what comes from the host comes meanwhile."""
        return max(self.process_s + self.train_s, self.input_s)

    @property
    def two_devices_s(self) -> float:
        """All at once: the slowest decides."""
        return max(self.process_s, self.train_s, self.input_s, self.transfer_s)


def estimate(work: Work, device: Device) -> SpeedEstimate:
    """The arithmetic for one device, or two like it."""

    def crossing(size: int) -> float:
        return 0.0 if device.bus is None else size / device.bus

    return SpeedEstimate(
        device=device,
        process=tuple(time_stage(stage, device) for stage in work.process),
        train=tuple(time_stage(stage, device) for stage in work.train),
        input_s=crossing(work.input_bytes),
        transfer_s=crossing(work.crossing_bytes),
    )
