"""Reads how much memory each role holds, and says where the reading comes from."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import psutil

from myxtts.errors import DeviceError
from myxtts.pipeline.devices import DevicePlan, RoleName
from myxtts.pipeline.hardware import HARDWARE, MB, Card, Hardware

log = logging.getLogger(__name__)

ALLOCATOR = "TensorFlow allocator"
NVML = "NVML"
RSS = "process RSS"


@dataclass(frozen=True)
class MemoryReading:
    """Memory in use against what may be used, in MB."""

    used_mb: float
    total_mb: float  # the role's limit, else the card's or the machine's size; 0 where unknown
    source: str

    @property
    def free_mb(self) -> float:
        """What is left."""
        return max(0.0, self.total_mb - self.used_mb)

    @property
    def percent(self) -> float:
        """Use in per cent."""
        return 100.0 * self.used_mb / self.total_mb if self.total_mb else 0.0

    def __str__(self) -> str:
        if not self.total_mb:
            return f"{self.used_mb:.0f}MB (of an unknown size)"
        return f"{self.used_mb:.0f}/{self.total_mb:.0f}MB ({self.percent:.1f}%)"

    def has_grown(self, name: str, *, baseline_mb: float, threshold_mb: float) -> bool:
        """Whether it holds more than the threshold above its baseline; logs a warning if so."""
        growth = self.used_mb - baseline_mb
        if growth <= threshold_mb:
            return False
        log.warning(
            "%s holds %.0f MB more than its baseline of %.0f MB (threshold %.0f MB)",
            name,
            growth,
            baseline_mb,
            threshold_mb,
        )
        return True


def read_role(plan: DevicePlan, role: RoleName, hardware: Hardware = HARDWARE) -> MemoryReading:
    """Memory of one role: its GPU's allocator, or the process where the role runs on a CPU."""
    limit = plan.limit_mb(role)
    if plan.device(role).startswith("/CPU"):
        return read_process(limit)
    used = hardware.allocated_mb(plan.device(role))
    gpu = plan.gpu(role)
    if limit is None and gpu is not None:
        limit = hardware.card_mb(gpu)
    return MemoryReading(used, limit or 0, ALLOCATOR)


def read_card(index: int, hardware: Hardware = HARDWARE) -> MemoryReading:
    """Memory of a whole card, every program on it counted."""
    card = find_card(hardware.cards(), index, hardware)
    return MemoryReading(card.total_mb - card.free_mb, card.total_mb, NVML)


def find_card(cards: list[Card], index: int, hardware: Hardware = HARDWARE) -> Card:
    """The card with this index, or an error that says which there are."""
    for card in cards:
        if card.index == index:
            return card
    present = f"GPUs 0 to {len(cards) - 1} are here" if cards else hardware.missing_reason
    raise DeviceError(
        f"There is no GPU {index} to read: {present}.",
        "run nvidia-smi to see the GPUs, or use simulate=True where there is none",
    )


def read_process(limit_mb: int | None = None) -> MemoryReading:
    """What this process holds in the host's memory."""
    used = psutil.Process().memory_info().rss / MB
    return MemoryReading(used, limit_mb or psutil.virtual_memory().total / MB, RSS)
