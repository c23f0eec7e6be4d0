"""Do these settings fit this machine: said before the start, and again when memory runs out."""

from __future__ import annotations

import logging

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.pipeline.devices import DevicePlan, Mode
from myxtts.pipeline.hardware import HARDWARE, Hardware
from myxtts.pipeline.limits import recommended_settings
from myxtts.training.batch_fit import Room, fit_batch, room_of

log = logging.getLogger(__name__)


def warn_of_misfits(
    config: XTTSConfig,
    plan: DevicePlan,
    *,
    estimable: bool = True,
    hardware: Hardware = HARDWARE,
) -> list[str]:
    """Log each setting that asks too much or too little of the machine, with what to use instead.

    What is too much is judged by the model's card; a simulated GPU poses as one. `estimable` is
    false for a model of somebody else's: then the published table judges its batch size.
    """
    room = room_of(plan, hardware=hardware)
    warnings = _too_little(config.data, plan)
    if room is not None:
        warnings += _too_much(config, plan, room, estimable=estimable)
    for warning in warnings:
        log.warning("%s", warning)
    return warnings


def _too_much(config: XTTSConfig, plan: DevicePlan, room: Room, *, estimable: bool) -> list[str]:
    data, warnings = config.data, []
    advice = recommended_settings(room.card_mb)
    fit = fit_batch(config, room, estimable=estimable)
    if fit.largest == 0:
        warnings.append(
            f"Not even one clip of {fit.frames} frames fits {room}{plan.role_note('model')} with "
            f"--model-size {config.model.size} by the estimate: a smaller --max-mel-frames or "
            "--model-size"
        )
    elif fit.is_too_much:
        warnings.append(
            f"A batch of {fit.asked} clips is likely too much{plan.role_note('model')} with "
            f"--model-size {config.model.size}, {fit.limit}: {fit.flags}"
        )
    if data.pipeline_buffer_size > 2 * advice.pipeline_buffer_size:
        warnings.append(
            f"--buffer-size {data.pipeline_buffer_size} takes host memory, and more than helps: "
            f"--buffer-size {advice.pipeline_buffer_size}"
        )
    if data.prefetch_buffer_size > 2 * advice.prefetch_buffer_size:
        warnings.append(
            f"--prefetch-buffer-size {data.prefetch_buffer_size} takes memory from the data GPU: "
            f"--prefetch-buffer-size {advice.prefetch_buffer_size}"
        )
    return warnings


def _too_little(data: DataConfig, plan: DevicePlan) -> list[str]:
    """Settings with nothing in reserve: one slow file or batch then stops the training."""
    usual, warnings = DataConfig(), []
    if data.num_workers == 1 and data.train_data is not None and data.cache is None:
        warnings.append(
            f"--num-workers 1 reads one file after the other: --num-workers {usual.num_workers}"
        )
    if data.host_buffer_size(two_devices=plan.mode is Mode.MULTI) == 1:
        warnings.append(
            f"--buffer-size {data.pipeline_buffer_size} reads no batch in reserve: "
            f"--buffer-size {usual.pipeline_buffer_size}"
        )
    if data.prefetch_buffer_size == 1:
        warnings.append(
            "--prefetch-buffer-size 1 leaves the data device idle until its batch is taken: "
            f"--prefetch-buffer-size {usual.prefetch_buffer_size}"
        )
    if data.pipeline_depth == 1:
        warnings.append(
            "--pipeline-depth 1 lets the model wait while the next batch is copied: "
            f"--pipeline-depth {usual.pipeline_depth}"
        )
    return warnings


def what_would_fit(
    config: XTTSConfig, plan: DevicePlan, *, micro_batch: int, hardware: Hardware = HARDWARE
) -> str:
    """What to try after the model ran out of memory working on `micro_batch` rows at a time."""
    ways = []
    if micro_batch > 1:
        half = micro_batch // 2
        accumulation = config.training.grad_accum * -(-config.data.batch_size // half)
        ways.append(
            f"--batch-size {half} --grad-accum {accumulation} (the same effective batch), "
            "or --auto-batch, which does it by itself"
        )
    ways.append(f"--max-mel-frames under {config.data.max_mel_frames}")
    room, limit = room_of(plan, hardware=hardware), plan.limit_mb("model")
    if room is not None and limit is not None:
        usual = recommended_settings(room.card_mb).model_limit_mb
        if usual > limit:
            ways.append(f"--model-gpu-memory {usual}, which this card has room for")
    if config.model.size != "tiny":
        ways.append("a smaller --model-size")
    return "; or ".join(ways)
