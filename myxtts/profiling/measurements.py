"""What a profile holds: every stage alone, all of them together, and what follows from it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from myxtts.config.config import XTTSConfig
from myxtts.errors import DataError
from myxtts.messages import Message
from myxtts.pipeline.limits import CUDA_CONTEXT_MB
from myxtts.pipeline.memory import RSS
from myxtts.pipeline.telemetry import (
    PROCESS,
    READ,
    STAGES,
    TRAIN,
    StageStats,
    StepStats,
    step_variation,
)
from myxtts.runs.diagnosis import Diagnosis, Measurements, diagnose
from myxtts.runs.remedies import DeviceMemory, Kind, Settings
from myxtts.runs.trace import Span

LayoutName = Literal["single", "split", "data-parallel", "split-parallel"]

PROFILE_VERSION = 2
# The host stage from other sources than the run's own, each measured alone.
READ_COLD, READ_CACHED, READ_NATIVE = "read_cold", "read_cached", "read_native"


@dataclass(frozen=True)
class StageTimes:
    """One stage with the machine to itself."""

    seconds: tuple[float, ...]  # wall time of each batch
    cpu_s: float = 0.0  # CPU time of a batch, all threads; on the average

    @property
    def mean_s(self) -> float:
        """Seconds a batch."""
        return statistics.fmean(self.seconds)

    @property
    def median_s(self) -> float:
        """Seconds of the middle batch, which a hiccup of the machine does not move."""
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Sample:
    """A look at the devices while all ran together."""

    at_s: float
    data_memory_mb: float
    model_memory_mb: float
    ring: int  # batches ready on the model device
    data_utilisation: float | None = None  # NVML's, from 0 to 1; None without a GPU
    model_utilisation: float | None = None


@dataclass(frozen=True)
class Together:
    """The whole pipeline at work, once its buffers were full."""

    wall_s: float
    stages: dict[str, StageStats]
    step_seconds: tuple[float, ...]  # from one delivered batch to the next
    buckets: tuple[StepStats, ...]
    ring_occupancy: tuple[int, ...]  # how often the model found 0, 1, ... batches ready
    retraces: int  # traces of the step beyond one for every planned shape
    spans: tuple[Span, ...] = ()  # the last steps, for the timeline
    samples: tuple[Sample, ...] = ()
    cpu_s: float = 0.0  # CPU time of a step, all threads; 0 in profiles that do not tell

    @property
    def steps(self) -> int:
        """Steps measured."""
        return len(self.step_seconds)

    @property
    def rate(self) -> float:
        """Steps a second."""
        return self.steps / self.wall_s if self.wall_s else 0.0

    @property
    def variation(self) -> float:
        """Coefficient of variation of the step time within each shape."""
        return step_variation(self.buckets) or 0.0

    @property
    def stall_share(self) -> float:
        """Share of the time that the model waited for a batch."""
        train = self.stages[TRAIN]
        whole = train.busy_s + train.waiting_input_s
        return train.waiting_input_s / whole if whole else 0.0


@dataclass(frozen=True)
class DeviceUse:
    """One role's device during the whole pipeline's run."""

    role: Literal["data", "model"]
    name: str  # "/GPU:0", also where a CPU device stands in for it
    description: str  # the card's name, or what stands in for it
    busy_share: float  # of its stage: process, or train
    memory_mb: float  # the most that was seen
    limit_mb: float | None  # None: no limit was set
    card_mb: float | None  # what the card has in all
    memory_source: str
    utilisation: float | None = None  # NVML's average, from 0 to 1

    @property
    def label(self) -> Message:
        """The device as people are told of it."""
        return Message("Data device {}" if self.role == "data" else "Model device {}", (self.name,))

    @property
    def memory(self) -> DeviceMemory | None:
        """How full it is; None where that is not known of it, as on a CPU."""
        limit = self.limit_mb or self.card_mb
        if self.memory_source == RSS or not limit:
            return None  # a process on the CPU holds much that a card would not
        room = 0.0
        if self.limit_mb is not None and self.card_mb is not None:
            room = self.card_mb - CUDA_CONTEXT_MB
        return DeviceMemory(self.role, self.label, self.memory_mb, limit, room)


@dataclass(frozen=True)
class Link:
    """The way from the data device to the model device."""

    kind: Literal["peer-to-peer", "through the host", "same device", "copy in memory", "unknown"]
    batch_mb: float
    mb_per_s: float


@dataclass(frozen=True)
class Change:
    """One setting to change, and why."""

    flag: str  # as typed: "--num-workers 24"
    settings: dict[str, Any]  # {"data.num_workers": 24}
    reason: str
    gain: float | None  # times the rate, this change alone; None where it cannot be foretold
    kind: Kind  # which of the remedies it is


@dataclass(frozen=True)
class Layout:
    """One way to use the devices, and how fast it is."""

    name: LayoutName
    rate: float  # batches a second, over all replicas
    basis: Literal["measured", "predicted"]


@dataclass(frozen=True)
class Advice:
    """What to change, what it brings, and how to use the devices."""

    changes: tuple[Change, ...]
    predicted_rate: float  # with all changes made
    layouts: tuple[Layout, ...]
    best_layout: str
    layout_reason: tuple[Message, ...]
    command: str
    verdict: Message  # the state of things in one sentence


@dataclass(frozen=True)
class Profile:
    """A finished profile. Written as JSON, it can be rendered, compared and asked what-if."""

    config: XTTSConfig
    simulated: bool
    cores: int
    machine: str  # "2 cores, no GPU"
    data_name: str  # the folder's name, or "built-in corpus"
    alone: dict[str, StageTimes]  # read (by one worker), read_cold, ..., process, transfer, train
    together: Together
    devices: tuple[DeviceUse, ...]
    link: Link
    on_cpu: bool = True  # both devices share the machine's cores
    crowding: float = 1.0  # times as long as sharing the cores explains, side by side on a CPU
    shapes: tuple[str, ...] = ()  # planned, as "16 clips x 224 frames x 48 tokens"
    clips_mb: float = 0.0  # all training clips, decoded
    host_free_mb: float = 0.0
    config_file: str = ""  # the settings came from there, and from flags
    made_at: str = ""  # ISO 8601
    version: int = PROFILE_VERSION
    advice: Advice | None = None
    measured_after: float | None = None  # the rate with the advice applied, where it was tried
    notes: tuple[str, ...] = field(default=())

    # -- what follows from the numbers --

    @property
    def bound(self) -> float:
        """The best rate there can be: the slowest stage's, or that of all CPU work on the cores."""
        return 1.0 / max(self.cpu_bound_s, *(self.stage_s(stage) for stage in self.stages))

    def stage_s(self, stage: str) -> float:
        """Seconds a batch of a stage with the machine to itself; several workers share reading."""
        seconds = self.alone[stage].mean_s
        cached = self.config.data.cache is not None
        return seconds / self.config.data.num_workers if stage == READ and not cached else seconds

    @property
    def cpu_bound_s(self) -> float:
        """Seconds a step takes if nothing but the cores limits it: all CPU work over the cores."""
        on_cores = self.stages if self.on_cpu else (READ,)
        work_s = sum(self.alone[stage].cpu_s for stage in on_cores)
        # Threads that have a core to spare spin while they wait: alone, a stage may burn more.
        return min(work_s, self.together.cpu_s or work_s) / self.cores

    @property
    def slowest(self) -> str:
        """The stage that takes longest alone."""
        return max(self.stages, key=self.stage_s)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that do any work: nothing crosses where one device does both jobs."""
        return STAGES if self.link.kind != "same device" else (READ, PROCESS, TRAIN)

    @property
    def efficiency(self) -> float:
        """Measured rate over the bound."""
        return self.together.rate / self.bound

    @property
    def diagnosis(self) -> Diagnosis:
        """What the numbers mean."""
        together = self.together
        return diagnose(
            Measurements(
                stages={stage: together.stages[stage] for stage in self.stages},
                ring=together.ring_occupancy,
                steps=together.buckets,
                memory=tuple(device.memory for device in self.devices if device.memory),
                retraces=together.retraces,
                rate=together.rate,
                bound=self.bound,
                alone_s={stage: self.stage_s(stage) for stage in self.stages},
                settings=Settings.of(self.config.model_dump()),
                shared_device=self.on_cpu or self.link.kind == "same device",
            )
        )

    def device(self, role: str) -> DeviceUse:
        """What a role's device did."""
        return next(device for device in self.devices if device.role == role)

    # -- as a file --

    def to_json(self) -> str:
        """All of it as JSON, with what follows from it under `derived`."""
        text = _adapter().dump_json(self, indent=1).decode()
        diagnosis = self.diagnosis
        derived = {
            "rate": self.together.rate,
            "bound": self.bound,
            "efficiency": self.efficiency,
            "bottleneck": diagnosis.bottleneck,
            "stall_share": self.together.stall_share,
            "variation": self.together.variation,
            "grade": diagnosis.grade,
            "doubt": None if diagnosis.doubt is None else str(diagnosis.doubt),
        }
        head = TypeAdapter(dict[str, Any]).dump_json({"derived": derived}, indent=1).decode()
        return head[:-2] + "," + text[1:]

    @classmethod
    def from_json(cls, text: str) -> Profile:
        """Read a profile back; the derived values are derived anew."""
        return _adapter().validate_json(text)


def read_profile(path: Path) -> Profile:
    """A profile from its file, or what is wrong with it."""
    try:
        return Profile.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"The profile {path} cannot be read: {error}",
            "check the path; `myxtts profile --json FILE` writes one",
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(
            f"{path} is not a profile of version {PROFILE_VERSION}: {where}: {first['msg']}",
            "make a new one: myxtts profile --json FILE",
        ) from error


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[Profile]:
    return TypeAdapter(Profile)
