"""Do these settings fit this machine: said before the start, and again when memory runs out."""

from __future__ import annotations

import logging

from myxtts.config.config import XTTSConfig
from myxtts.pipeline.devices import DevicePlan
from myxtts.pipeline.hardware import HARDWARE, Hardware
from myxtts.pipeline.limits import CardSettings, recommended_settings

log = logging.getLogger(__name__)

# The table is for `small` and `normal`; the others need about this much of it.
BATCH_SHARE = {"tiny": 2.0, "small": 1.0, "normal": 1.0, "big": 0.5}
TOLERANCE = 1.5  # the table is a place to start from, not a border


def warn_of_misfits(
    config: XTTSConfig, plan: DevicePlan, *, hardware: Hardware = HARDWARE
) -> list[str]:
    """Log each setting that the model GPU is likely too small for, with what to use instead."""
    advice = _advice(plan, hardware)
    if advice is None:
        return []
    data, warnings = config.data, []
    batch = max(1, int(advice.batch_size * BATCH_SHARE[config.model.size]))
    if data.batch_size > TOLERANCE * batch:
        warnings.append(
            f"--batch-size {data.batch_size} is likely too much for {advice.card_gb} GB with "
            f"--model-size {config.model.size}: {_smaller_batch(data.batch_size, batch, config)}"
        )
    if data.pipeline_buffer_size > 2 * advice.pipeline_buffer_size:
        warnings.append(
            f"--buffer-size {data.pipeline_buffer_size} is more than helps here: "
            f"--buffer-size {advice.pipeline_buffer_size}"
        )
    if data.prefetch_buffer_size > 2 * advice.prefetch_buffer_size:
        warnings.append(
            f"--prefetch-buffer-size {data.prefetch_buffer_size} takes memory from the data GPU: "
            f"--prefetch-buffer-size {advice.prefetch_buffer_size}"
        )
    for warning in warnings:
        log.warning("%s", warning)
    return warnings


def what_would_fit(
    config: XTTSConfig, plan: DevicePlan, *, micro_batch: int, hardware: Hardware = HARDWARE
) -> str:
    """What to try after the model ran out of memory working on `micro_batch` rows at a time."""
    ways = []
    if micro_batch > 1:
        half = micro_batch // 2
        ways.append(
            f"{_smaller_batch(config.data.batch_size, half, config)} (the same effective batch), "
            "or --auto-batch, which does it by itself"
        )
    ways.append(f"--max-mel-frames under {config.data.max_mel_frames}")
    advice = _advice(plan, hardware)
    limit = plan.limit_mb("model")
    if advice is not None and limit is not None and advice.model_limit_mb > limit:
        ways.append(f"--model-gpu-memory {advice.model_limit_mb}, which this card has room for")
    if config.model.size != "tiny":
        ways.append("a smaller --model-size")
    return "; or ".join(ways)


def _smaller_batch(batch_size: int, wanted: int, config: XTTSConfig) -> str:
    accumulation = config.training.grad_accum * -(-batch_size // wanted)
    return f"--batch-size {wanted} --grad-accum {accumulation}"


def _advice(plan: DevicePlan, hardware: Hardware) -> CardSettings | None:
    """The table's row for the model's card; None where there is no GPU to judge."""
    if not plan.model_device.startswith("/GPU"):
        return None
    cards = {card.index: card for card in hardware.cards()}
    card = cards.get(plan.model_gpu or 0)
    return None if card is None else recommended_settings(card.total_mb)
