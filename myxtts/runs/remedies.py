"""What may help against what: no remedy is named that cannot change its cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from myxtts.config.commands import flag_for
from myxtts.messages import Message
from myxtts.pipeline.telemetry import PROCESS, READ, TRANSFER

CauseName = Literal[
    "full memory",  # of a role's device
    "slow stage",  # one before the model is at its limit
    "no reserve",  # it just manages
    "uneven feeding",  # the model waits though no stage before it is at its limit
    "retracing",
    "many shapes",
    "uneven step",  # the same work takes longer or shorter
]
Kind = Literal[
    "memory-limit", "smaller-buffers", "smaller-batch", "static-shapes", "native-loading", "cache",
    "workers", "buffer", "prefetch", "depth", "larger-batch", "own-device", "profile", "quiet"
]  # fmt: skip
Found = tuple[Kind, dict[str, Any]]  # a remedy and what to set for it

SATURATED = 0.97  # a stage that works this much of its time fills no buffer, however large
LARGEST = {  # more brings nothing more
    "num_workers": 64,
    "pipeline_buffer_size": 400,
    "prefetch_buffer_size": 16,
    "pipeline_depth": 8,
}

WORDS: dict[Kind, Message] = {
    "memory-limit": Message("Its card has room for a higher limit."),
    "smaller-buffers": Message("Fewer batches waiting on the data device take less of its memory."),
    "smaller-batch": Message(
        "A smaller batch takes less memory; accumulated gradients make up for it."
    ),
    "static-shapes": Message(
        "With one fixed shape the step is compiled once, and every step is the same work."
    ),
    "native-loading": Message("TensorFlow itself reads faster, outside Python."),
    "cache": Message("A cache spares reading the files again."),
    "workers": Message("More workers read more files at once."),
    "buffer": Message("More batches read ahead bridge the slow reads."),
    "prefetch": Message("More batches ready on the data device bridge the slow ones."),
    "depth": Message("More batches ready on the model device bridge the slow ones."),
    "larger-batch": Message(
        "The steps are so short that handing batches over counts: a larger batch is more work at a "
        "time."
    ),
    "own-device": Message(
        "Data and model share the same card or cores here; each on its own, they would not slow "
        "each other down."
    ),
    "profile": Message("A profile measures each stage alone and says what would make it faster."),
    "quiet": Message("Leave the machine to this run: the same work should take the same time."),
}

# What makes a stage quicker, and what bridges its slow batches: buffers behind it, not before it.
QUICKER: dict[str, tuple[Kind, ...]] = {
    READ: ("cache", "workers", "native-loading"),
    PROCESS: (),
    TRANSFER: (),
}
BRIDGES: dict[str, tuple[Kind, ...]] = {
    READ: ("buffer", "prefetch", "depth"),
    PROCESS: ("prefetch", "depth"),
    TRANSFER: ("depth",),
}


@dataclass(frozen=True)
class Settings:
    """The settings in which a cause may lie, or its remedy."""

    batch_size: int = 16
    grad_accum: int = 1
    num_workers: int = 16
    pipeline_buffer_size: int = 50
    prefetch_buffer_size: int = 4
    pipeline_depth: int = 3
    cache: str | None = None
    static_shapes: str = "buckets"
    use_tf_native_loading: bool = True

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """From settings as plain values; those of an older version may lack some."""
        given = {**(config.get("training") or {}), **(config.get("data") or {})}
        names = (field.name for field in fields(cls))
        return cls(**{name: given[name] for name in names if given.get(name) is not None})


@dataclass(frozen=True)
class DeviceMemory:
    """How full a role's device is."""

    role: Literal["data", "model"]
    label: Message
    used_mb: float
    limit_mb: float
    room_mb: float = 0.0  # how high the limit could be; 0 where that is not known

    @property
    def share(self) -> float:
        """Of the limit."""
        return self.used_mb / self.limit_mb if self.limit_mb else 0.0


@dataclass(frozen=True)
class Remedy:
    """Something that may change a cause."""

    kind: Kind
    why: Message  # its cause
    settings: Mapping[str, Any] = field(default_factory=dict)  # {"data.num_workers": 24}

    @property
    def words(self) -> Message:
        """What it does."""
        return WORDS[self.kind]

    @property
    def flags(self) -> tuple[str, ...]:
        """As it is typed; nothing where no setting does it."""
        return tuple(flag_for(setting, value) for setting, value in self.settings.items())


@dataclass(frozen=True)
class Cause:
    """Why a run is not as good as it could be, and what may help against that."""

    name: CauseName
    where: str  # the stage, or the device's role
    sentence: Message
    remedies: tuple[Remedy, ...] = ()

    @property
    def without_settings(self) -> Cause:
        """The same with only what no setting does."""
        return replace(self, remedies=tuple(r for r in self.remedies if not r.settings))

    def __str__(self) -> str:
        """All of it as text."""
        said = [str(self.sentence)]
        for remedy in self.remedies[:1]:
            said += [str(remedy.words), *(["Try", *remedy.flags] if remedy.flags else [])]
        return " ".join(said)


def relieve(memory: DeviceMemory, settings: Settings) -> Iterator[Found]:
    """Against a device that is nearly full. The host's read-ahead is not in its memory."""
    if memory.room_mb >= 1.1 * memory.limit_mb:
        raised = int(min(memory.room_mb, 1.5 * memory.limit_mb)) // 64 * 64
        yield "memory-limit", {f"data.{memory.role}_gpu_memory": raised}
    if memory.role == "data" and settings.prefetch_buffer_size > 2:
        yield "smaller-buffers", {"data.prefetch_buffer_size": settings.prefetch_buffer_size // 2}
    elif settings.batch_size > 1:
        halved = {"data.batch_size": settings.batch_size // 2}
        yield "smaller-batch", {**halved, "training.grad_accum": 2 * settings.grad_accum}


def feed(
    stage: str,
    settings: Settings,
    *,
    busy: float,
    bridges_first: bool = False,
    short_steps: bool = False,
) -> Iterator[Found]:
    """Against waiting for a stage that is busy this share of its time."""
    quicker, bridges = QUICKER[stage], BRIDGES[stage] if busy < SATURATED else ()
    for kind in (*bridges, *quicker) if bridges_first else (*quicker, *bridges):
        if (change := _more(kind, settings)) is not None:
            yield kind, change
    if short_steps:
        yield "larger-batch", {"data.batch_size": 2 * settings.batch_size}


def _more(kind: Kind, settings: Settings) -> dict[str, Any] | None:
    """The change that this kind of remedy is; None where it is made already, or does nothing."""
    if kind == "cache":
        return {"data.cache": "memory"} if settings.cache is None else None
    if kind == "native-loading":
        needed = settings.cache is None and not settings.use_tf_native_loading
        return {"data.use_tf_native_loading": True} if needed else None
    name, times = {
        "workers": ("num_workers", 1.5),  # 16 -> 24 -> 36
        "buffer": ("pipeline_buffer_size", 2),
        "prefetch": ("prefetch_buffer_size", 2),
        "depth": ("pipeline_depth", 2),
    }[kind]
    value: int = getattr(settings, name)
    useless = kind == "workers" and settings.cache is not None  # one thread reads from a cache
    if useless or value >= LARGEST[name]:
        return None
    return {f"data.{name}": min(max(value + 1, int(times * value)), LARGEST[name])}
