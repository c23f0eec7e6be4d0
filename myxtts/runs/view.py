"""A run at one moment: what the terminal, the live page and the report all show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from myxtts.messages import Message
from myxtts.pipeline.telemetry import StageStats
from myxtts.runs.diagnosis import TOO_EARLY, Diagnosis
from myxtts.runs.pace import ALONE, Pace

Status = Literal["running", "finished", "ended early", "failed", "killed"]
RoleName = Literal["data", "model"]

SHARED_MEMORY = "process RSS"  # on the CPU both roles show the whole process


@dataclass(frozen=True)
class DeviceView:
    """One role's device now."""

    role: RoleName
    label: Message
    busy: float | None  # share of its time, from 0 to 1
    used_mb: float | None = None
    limit_mb: float | None = None
    memory_source: str = ""

    @property
    def memory_share(self) -> float | None:
        """Memory in use over what may be used."""
        return self.used_mb / self.limit_mb if self.used_mb and self.limit_mb else None


@dataclass(frozen=True)
class Point:
    """What the pipeline did between two of its events."""

    time: float
    step: int
    busy: Mapping[str, float]  # of each stage
    step_s: float | None  # mean
    ring: float | None  # batches the model found ready, on the average
    used_mb: Mapping[str, float]  # of each role


@dataclass(frozen=True)
class RunView:
    """A run at one moment."""

    name: str = ""
    mode: str = ""
    simulated: bool = False
    status: Status = "running"
    error: str = ""
    step: int = 0
    total_steps: int | None = None
    seconds_left: float | None = None
    elapsed_s: float | None = None
    loss: float | None = None
    steps_per_second: float | None = None
    clips_per_second: float | None = None
    devices: tuple[DeviceView, ...] = ()
    stages: Mapping[str, StageStats] = field(default_factory=dict)  # of the last few seconds
    ring: float | None = None  # batches ready, on the average
    ring_size: int = 0
    step_s: float | None = None
    variation: float | None = None
    verdict: Diagnosis = TOO_EARLY
    pace: Pace = ALONE  # of several replicas

    @property
    def progress(self) -> float | None:
        """How much is done, from 0 to 1."""
        return min(1.0, self.step / self.total_steps) if self.total_steps else None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.status != "running"
