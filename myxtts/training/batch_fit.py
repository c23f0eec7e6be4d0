"""How many clips of a batch fit a card: decided here once, and rendered by all who speak of it.

The estimate of memory rules. The published table of settings is what is left where nothing can be
estimated (a model of somebody else's), and is shown beside the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from myxtts.config.commands import flag_for
from myxtts.config.config import XTTSConfig
from myxtts.pipeline.budget import MemoryBudget
from myxtts.pipeline.devices import DevicePlan, Mode, machine_cards
from myxtts.pipeline.hardware import HARDWARE, MB, Hardware
from myxtts.pipeline.limits import CUDA_CONTEXT_MB, recommended_settings
from myxtts.training.model_memory import (
    BatchShape,
    StepMemory,
    process_bytes,
    raw_batch_bytes,
    ready_batch_bytes,
    step_memory,
)

USABLE = 0.85  # of a limit: workspaces of the kernels and gaps between buffers take the rest
MOST_ROWS = 4096
# The table is for `small` and `normal`; the others need about this much of it.
TABLE_SHARE = {"tiny": 2.0, "small": 1.0, "normal": 1.0, "big": 0.5}
TOLERANCE = 1.5  # the table is a place to start from, not a border


@dataclass(frozen=True)
class Room:
    """Megabytes that a run may take on the model's device, and on the data's where it has one."""

    card_mb: int  # the model's whole card
    model_mb: float
    data_mb: float | None  # None: one device does both jobs

    def __str__(self) -> str:
        if self.data_mb is None:
            return f"{self.model_mb:.0f} MB"
        return f"{self.model_mb:.0f} MB for the model and {self.data_mb:.0f} MB for the data"


def room_of(plan: DevicePlan, *, hardware: Hardware = HARDWARE) -> Room | None:
    """What this run has; None where no GPU is there to be judged, or none that tells its size."""
    if not plan.logical_name("model").startswith("/GPU"):
        return None
    cards = {card.index: card for card in machine_cards(simulate=plan.simulated, hardware=hardware)}
    model, data = cards.get(plan.model_gpu or 0), cards.get(plan.data_gpu or 0)
    if model is None or data is None:
        return None
    if plan.model_limit_mb is not None and plan.data_limit_mb is not None:
        return Room(model.total_mb, plan.model_limit_mb, plan.data_limit_mb)
    shared = plan.data_device == plan.model_device
    grows_to = [card.total_mb - CUDA_CONTEXT_MB for card in (model, data)]
    return Room(model.total_mb, grows_to[0], None if shared else grows_to[1])


@dataclass(frozen=True)
class BatchFit:
    """What was decided of a batch size."""

    asked: int  # clips of the longest batches, by the settings
    batch: int  # clips to use: those asked for, or as many as fit
    accumulated: int  # batches that make up for what is missing
    largest: int | None  # the most that fit by the estimate, 0 for none; None: not estimated
    published: int  # by the table
    frames: int  # of the longest clip
    config: XTTSConfig
    room: Room

    @property
    def is_too_much(self) -> bool:
        """Whether what was asked for does not fit."""
        return self.batch < self.asked or self.largest == 0

    @property
    def settings(self) -> dict[str, Any]:
        """The settings to use: {"data.batch_size": 8, "training.grad_accum": 4}."""
        if self.config.data.batch_frames is None:
            settings = {"data.batch_size": self.batch}
        elif self.is_too_much:
            settings = {"data.batch_frames": self.batch * self.frames}
        else:
            settings = {"data.batch_frames": self.config.data.batch_frames}
        if self.accumulated > 1:
            settings["training.grad_accum"] = self.config.training.grad_accum * self.accumulated
        return settings

    @property
    def flags(self) -> str:
        """The same as it is typed."""
        return " ".join(flag_for(name, value) for name, value in self.settings.items())

    @property
    def limit(self) -> str:
        """The most there may be, and who says so."""
        card_gb = round(self.room.card_mb / 1024)
        if self.largest is None:
            return f"about {self.published} by the published table for {card_gb} GB"
        return (
            f"at most {self.largest} clips of {self.frames} frames fit {self.room} by the estimate"
        )

    @property
    def beside_the_table(self) -> str:
        """The estimate and the published table in one sentence, with why they differ."""
        card_gb = round(self.room.card_mb / 1024)
        said = f"{self.limit}; the published table says {self.published} for {card_gb} GB"
        if self.largest is None or self.largest == self.published:
            return said
        return (
            f"{said}, a place to start from on any data. The estimate counts this model, these "
            "lengths and these limits, and rules. That a batch fits does not say that it learns "
            "best: 16 is what the demo's voices were trained with"
        )


def asked_rows(config: XTTSConfig) -> int:
    """Clips of the longest batches, as the settings ask for them."""
    data = config.data
    if data.batch_frames is None:
        return data.batch_size
    return max(1, data.batch_frames // data.max_mel_frames)


def fit_batch(config: XTTSConfig, room: Room, *, estimable: bool = True) -> BatchFit:
    """Decide the batch size for these settings in this room.

    What the settings ask for stays if it fits; else as many equal parts as fit make up for it.
    `estimable` is false for a model whose memory nobody has counted: then the table rules.
    """
    data = config.data
    frames, asked = data.max_mel_frames, asked_rows(config)
    table = recommended_settings(room.card_mb)
    published = max(1, int(table.batch_size * TABLE_SHARE[config.model.size]))
    largest = None
    if estimable:
        largest = Footprint(config, room).largest_batch(frames, data.max_text_length)
        most = max(1, largest)
    else:
        most = asked if asked <= TOLERANCE * published else published
    parts = -(-asked // most)
    return BatchFit(
        asked=asked,
        batch=-(-asked // parts),
        accumulated=parts,
        largest=largest,
        published=published,
        frames=frames,
        config=config,
        room=room,
    )


class Footprint:
    """Counts what the devices hold for a shape, under the settings it was made with.

    Cards work in half precision where the settings allow it, as those since 2018 do.
    """

    def __init__(self, config: XTTSConfig, room: Room) -> None:
        self.config = config
        self.room = room
        self.half = config.training.mixed_precision
        devices = DevicePlan(Mode.MULTI, "/GPU:0", "/GPU:1")
        if room.data_mb is None:
            devices = DevicePlan(Mode.SINGLE, "/GPU:0", "/GPU:0")
        buffers = config.data.prefetch_buffer_size, config.data.pipeline_depth
        self._budget = MemoryBudget(devices, *buffers)

    def step(self, shape: BatchShape) -> StepMemory:
        """What training on it takes."""
        training = self.config.training
        return step_memory(
            self.config.model,
            shape,
            half=self.half,
            critic=training.sharpness > 0,
            dropout=training.dropout > 0,
        )

    def process_mb(self, shape: BatchShape) -> float:
        """What making its features takes."""
        return process_bytes(shape, played=self.config.data.augment_speed > 0) / MB

    def held_mb(self, shape: BatchShape) -> tuple[float, float]:
        """Batches in flight on the data and on the model device; all on the latter if shared."""
        held = self._budget.held_bytes(
            raw_bytes=raw_batch_bytes(shape), ready_bytes=ready_batch_bytes(shape)
        )
        return held.get("data", 0) / MB, held["model"] / MB

    def data_mb(self, shape: BatchShape) -> float:
        """All that the data device holds; nothing where the model's does its job."""
        held_mb = self.held_mb(shape)[0] + self.process_mb(shape)
        return 0.0 if self.room.data_mb is None else held_mb

    def model_mb(self, shape: BatchShape) -> float:
        """All that the model device holds at the worst moment."""
        step = self.step(shape)
        work_mb = self.process_mb(shape) if self.room.data_mb is None else 0.0
        return (step.total - step.batch) / MB + self.held_mb(shape)[1] + work_mb

    def fits(self, shape: BatchShape) -> bool:
        """Whether both devices stay inside what is usable of their room."""
        data_mb = self.room.data_mb
        return self.model_mb(shape) <= USABLE * self.room.model_mb and (
            data_mb is None or self.data_mb(shape) <= USABLE * data_mb
        )

    def largest_batch(self, frames: int, tokens: int) -> int:
        """The most clips of this length that fit; all that is counted grows with the clips."""
        low, high = 0, MOST_ROWS
        while low < high:
            middle = (low + high + 1) // 2
            fitting = self.fits(BatchShape(middle, frames, tokens))
            low, high = (middle, high) if fitting else (low, middle - 1)
        return low
