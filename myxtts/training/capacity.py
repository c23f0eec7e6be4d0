"""Do these settings fit this machine: said before the start, and again when memory runs out."""

from __future__ import annotations

import logging

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.pipeline.devices import DevicePlan, Mode, machine_cards
from myxtts.pipeline.hardware import HARDWARE, Hardware
from myxtts.pipeline.limits import CardSettings, recommended_settings

log = logging.getLogger(__name__)

# The table is for `small` and `normal`; the others need about this much of it.
BATCH_SHARE = {"tiny": 2.0, "small": 1.0, "normal": 1.0, "big": 0.5}
TOLERANCE = 1.5  # the table is a place to start from, not a border


def warn_of_misfits(
    config: XTTSConfig, plan: DevicePlan, *, hardware: Hardware = HARDWARE
) -> list[str]:
    """Log each setting that asks too much or too little of the machine, with what to use instead.

    What is too much is judged by the model's card; a simulated GPU poses as one.
    """
    advice = _advice(plan, hardware)
    warnings = _too_little(config.data, plan)
    if advice is not None:
        warnings += _too_much(config, plan, advice)
    for warning in warnings:
        log.warning("%s", warning)
    return warnings


def _too_much(config: XTTSConfig, plan: DevicePlan, advice: CardSettings) -> list[str]:
    data, warnings = config.data, []
    batch = max(1, int(advice.batch_size * BATCH_SHARE[config.model.size]))
    if data.batch_size > TOLERANCE * batch:
        warnings.append(
            f"--batch-size {data.batch_size} is likely too much for {advice.card_gb} GB"
            f"{plan.role_note('model')} with --model-size {config.model.size}: "
            f"{_smaller_batch(data.batch_size, batch, config)}"
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
    if not plan.logical_name("model").startswith("/GPU"):
        return None
    cards = {card.index: card for card in machine_cards(simulate=plan.simulated, hardware=hardware)}
    card = cards.get(plan.model_gpu or 0)
    return None if card is None else recommended_settings(card.total_mb)
