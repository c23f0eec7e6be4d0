"""Plans memory for cards of a size: what fits the limits, and which batch and buffers to use."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.commands import training_command
from myxtts.config.config import XTTSConfig
from myxtts.pipeline.budget import MemoryBudget
from myxtts.pipeline.devices import DevicePlan, Mode
from myxtts.pipeline.hardware import MB, Card
from myxtts.pipeline.limits import plan_limits, recommended_settings
from myxtts.profiling.model_memory import (
    BatchShape,
    StepMemory,
    process_bytes,
    raw_batch_bytes,
    ready_batch_bytes,
    step_memory,
)
from myxtts.profiling.what_if import with_settings
from myxtts.training.capacity import BATCH_SHARE

USABLE = 0.85  # of a limit: workspaces of the kernels and gaps between buffers take the rest
SMALLEST_PREFETCH = 2
BUCKET_SHARES = (0.25, 0.5, 0.75, 1.0)  # of the longest clip, for the table
MOST_ROWS = 512


@dataclass(frozen=True)
class BucketPlan:
    """One shape of batches: what a step on it takes, and how many clips would fit."""

    shape: BatchShape
    activations_mb: float
    model_mb: float  # all that the model device holds
    data_mb: float
    largest_batch: int  # 0: not even one clip


@dataclass(frozen=True)
class MemoryPlan:
    """Settings that fit, and what they take on each device."""

    config: XTTSConfig  # with these settings in it
    card_mb: int
    data_limit_mb: int
    model_limit_mb: int
    step: StepMemory  # of the longest batches
    waiting_mb: float  # batches in flight on the model device
    model_mb: float
    data_mb: float
    buckets: tuple[BucketPlan, ...]
    notes: tuple[str, ...]
    command: str

    @property
    def fits(self) -> bool:
        """Whether both devices stay inside what is usable of their limits."""
        return (
            self.model_mb <= USABLE * self.model_limit_mb
            and self.data_mb <= USABLE * self.data_limit_mb
        )


def plan_memory(config: XTTSConfig, *, gpu_memory_mb: int, half: bool = True) -> MemoryPlan:
    """Plan for two cards of this size, starting from the recommended settings for them.

    `half`: the cards work in half precision where the settings allow it, as cards since 2018 do.
    """
    start = recommended_settings(gpu_memory_mb)
    card = Card(0, "", gpu_memory_mb, gpu_memory_mb, "0")
    data_limit, model_limit = plan_limits(
        card,
        Card(1, "", gpu_memory_mb, gpu_memory_mb, "1"),
        data_mb=config.data.data_gpu_memory,
        model_mb=config.data.model_gpu_memory,
    )
    wanted = max(1, int(start.batch_size * BATCH_SHARE[config.model.size]))
    if "batch_size" in config.data.model_fields_set:
        wanted = config.data.batch_size
    planned = with_settings(
        config,
        {
            "data.prefetch_buffer_size": start.prefetch_buffer_size,
            "data.pipeline_buffer_size": start.pipeline_buffer_size,
            "data.enable_memory_isolation": True,
            "data.data_gpu": 0 if config.data.data_gpu is None else config.data.data_gpu,
            "data.model_gpu": 1 if config.data.model_gpu is None else config.data.model_gpu,
            "data.data_gpu_memory": data_limit,
            "data.model_gpu_memory": model_limit,
        },
    )
    room = _Room(planned, data_limit, model_limit, half=half and config.training.mixed_precision)
    longest = config.data.max_mel_frames, config.data.max_text_length
    notes = []
    rows = min(wanted, max(1, room.largest_batch(*longest)))
    while (
        not room.fits(BatchShape(rows, *longest))
        and planned.data.prefetch_buffer_size > SMALLEST_PREFETCH
    ):
        planned.data.prefetch_buffer_size -= 1
        rows = min(wanted, max(1, room.largest_batch(*longest)))
    if planned.data.prefetch_buffer_size < start.prefetch_buffer_size:
        notes.append(
            f"prefetch buffer {planned.data.prefetch_buffer_size} instead of "
            f"{start.prefetch_buffer_size}: the data limit holds no more"
        )
    if rows < wanted:
        planned.training.grad_accum = config.training.grad_accum * -(-wanted // rows)
        notes.append(
            f"batch {rows} instead of {wanted}: no more fits {model_limit} MB; "
            f"--grad-accum {planned.training.grad_accum} keeps the effective batch"
        )
    planned.data.batch_size = rows
    shape = BatchShape(rows, *longest)
    if not room.fits(shape):
        notes.append(
            "even a single clip of this length does not fit: a smaller --model-size or "
            "--max-mel-frames, or larger limits"
        )
    return MemoryPlan(
        config=planned,
        card_mb=gpu_memory_mb,
        data_limit_mb=data_limit,
        model_limit_mb=model_limit,
        step=room.step(shape),
        waiting_mb=room.held_mb(shape)[1] - ready_batch_bytes(shape) / MB,
        model_mb=room.model_mb(shape),
        data_mb=room.data_mb(shape),
        buckets=tuple(room.bucket(rows, share) for share in BUCKET_SHARES),
        notes=tuple(notes),
        command=training_command(planned),
    )


class _Room:
    """Counts what both devices hold for a shape, under the settings it was made with."""

    def __init__(
        self, config: XTTSConfig, data_limit_mb: int, model_limit_mb: int, *, half: bool
    ) -> None:
        self.config = config
        self.limits = data_limit_mb, model_limit_mb
        self.half = half

    def step(self, shape: BatchShape) -> StepMemory:
        return step_memory(self.config.model, shape, half=self.half)

    def held_mb(self, shape: BatchShape) -> tuple[float, float]:
        """Batches in flight on the data and on the model device."""
        data = self.config.data
        devices = DevicePlan(Mode.MULTI, "/GPU:0", "/GPU:1")
        held = MemoryBudget(devices, data.prefetch_buffer_size, data.pipeline_depth).held_bytes(
            raw_bytes=raw_batch_bytes(shape), ready_bytes=ready_batch_bytes(shape)
        )
        return held["data"] / MB, held["model"] / MB

    def data_mb(self, shape: BatchShape) -> float:
        return self.held_mb(shape)[0] + process_bytes(shape) / MB

    def model_mb(self, shape: BatchShape) -> float:
        step = self.step(shape)
        return (step.total - step.batch) / MB + self.held_mb(shape)[1]

    def fits(self, shape: BatchShape) -> bool:
        return (
            self.data_mb(shape) <= USABLE * self.limits[0]
            and self.model_mb(shape) <= USABLE * self.limits[1]
        )

    def largest_batch(self, frames: int, tokens: int) -> int:
        """The most clips of this length that fit; all that is counted grows with the clips."""
        low, high = 0, MOST_ROWS
        while low < high:
            middle = (low + high + 1) // 2
            fitting = self.fits(BatchShape(middle, frames, tokens))
            low, high = (middle, high) if fitting else (low, middle - 1)
        return low

    def bucket(self, rows: int, share: float) -> BucketPlan:
        data = self.config.data
        frames, tokens = (
            max(1, round(share * longest))
            for longest in (data.max_mel_frames, data.max_text_length)
        )
        shape = BatchShape(rows, frames, tokens)
        return BucketPlan(
            shape=shape,
            activations_mb=self.step(shape).activations / MB,
            model_mb=self.model_mb(shape),
            data_mb=self.data_mb(shape),
            largest_batch=self.largest_batch(frames, tokens),
        )
