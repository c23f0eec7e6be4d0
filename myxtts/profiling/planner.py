"""Plans memory for cards of a size: what fits the limits, and which batch and buffers to use."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.commands import training_command
from myxtts.config.config import XTTSConfig
from myxtts.pipeline.hardware import MB, Card
from myxtts.pipeline.limits import plan_limits, recommended_settings
from myxtts.profiling.what_if import with_settings
from myxtts.training.batch_fit import BatchFit, Footprint, Room, fit_batch
from myxtts.training.model_memory import BatchShape, StepMemory, ready_batch_bytes

SMALLEST_PREFETCH = 2
BUCKET_SHARES = (0.25, 0.5, 0.75, 1.0)  # of the longest clip, for the table


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
    fit: BatchFit  # how its batch size was decided
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
        return self.fit.largest != 0


def plan_memory(config: XTTSConfig, *, gpu_memory_mb: int) -> MemoryPlan:
    """Plan for two cards of this size; buffers and limits start from the table for them."""
    start = recommended_settings(gpu_memory_mb)
    data_limit, model_limit = plan_limits(
        Card(0, "", gpu_memory_mb, gpu_memory_mb, "0"),
        Card(1, "", gpu_memory_mb, gpu_memory_mb, "1"),
        data_mb=config.data.data_gpu_memory,
        model_mb=config.data.model_gpu_memory,
    )
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
    room = Room(gpu_memory_mb, model_limit, data_limit)
    notes = []
    fit = fit_batch(planned, room)
    while fit.largest == 0 and planned.data.prefetch_buffer_size > SMALLEST_PREFETCH:
        planned.data.prefetch_buffer_size -= 1
        fit = fit_batch(planned, room)
    if planned.data.prefetch_buffer_size < start.prefetch_buffer_size:
        notes.append(
            f"prefetch buffer {planned.data.prefetch_buffer_size} instead of "
            f"{start.prefetch_buffer_size}: the data limit holds no more"
        )
    if fit.is_too_much and fit.largest:
        notes.append(
            f"batch {fit.batch} instead of {fit.asked}: {fit.limit}; {fit.flags} keeps the "
            "effective batch"
        )
    if fit.largest == 0:
        notes.append(
            "even a single clip of this length does not fit: a smaller --model-size or "
            "--max-mel-frames, or larger limits"
        )
    planned = with_settings(planned, fit.settings)
    footprint = Footprint(planned, room)
    shape = BatchShape(fit.batch, config.data.max_mel_frames, config.data.max_text_length)
    return MemoryPlan(
        config=planned,
        fit=fit,
        card_mb=gpu_memory_mb,
        data_limit_mb=data_limit,
        model_limit_mb=model_limit,
        step=footprint.step(shape),
        waiting_mb=footprint.held_mb(shape)[1] - ready_batch_bytes(shape) / MB,
        model_mb=footprint.model_mb(shape),
        data_mb=footprint.data_mb(shape),
        buckets=tuple(_bucket(footprint, fit.batch, share) for share in BUCKET_SHARES),
        notes=tuple(notes),
        command=training_command(planned),
    )


def _bucket(footprint: Footprint, rows: int, share: float) -> BucketPlan:
    data = footprint.config.data
    frames, tokens = (
        max(1, round(share * longest)) for longest in (data.max_mel_frames, data.max_text_length)
    )
    shape = BatchShape(rows, frames, tokens)
    return BucketPlan(
        shape=shape,
        activations_mb=footprint.step(shape).activations / MB,
        model_mb=footprint.model_mb(shape),
        data_mb=footprint.data_mb(shape),
        largest_batch=footprint.largest_batch(frames, tokens),
    )
