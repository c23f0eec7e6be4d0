"""Published names for memory isolation and memory readings; thin, over `myxtts.pipeline`."""

from __future__ import annotations

import logging
from typing import Any

from myxtts.pipeline.devices import (
    ROLES,
    DevicePlan,
    RoleName,
    configure_devices,
    configured_plan,
    machine_cards,
)
from myxtts.pipeline.limits import plan_limits
from myxtts.pipeline.memory import MemoryReading, find_card, read_card, read_role

log = logging.getLogger(__name__)


def setup_gpu_memory_isolation(
    data_gpu_id: int,
    model_gpu_id: int,
    data_gpu_memory_limit: int | None = 8192,
    model_gpu_memory_limit: int | None = 16384,
    *,
    simulate: bool = False,
) -> DevicePlan:
    """Give each GPU a hard memory limit in MB; `None` lets the planner choose for the card.

    Call it before TensorFlow makes its first tensor. The same arguments again are a no-op.
    """
    return configure_devices(
        data_gpu_id,
        model_gpu_id,
        isolate=True,
        data_limit_mb=data_gpu_memory_limit,
        model_limit_mb=model_gpu_memory_limit,
        simulate=simulate,
    )


def get_gpu_memory_info(gpu_id: int | None = None) -> dict[str, Any]:
    """Memory of one GPU in MB, or `{"gpus": [...]}` for all; `source` says who measured it.

    A GPU that has a role in this process is read from TensorFlow's allocator against its limit
    (a simulated one from the process), any other from NVML.
    """
    if gpu_id is None:
        plan = configured_plan()
        if plan is not None and plan.simulated:
            indices = sorted({plan.data_gpu, plan.model_gpu} - {None})  # type: ignore[type-var]
        else:
            indices = [card.index for card in machine_cards()]
        return {"gpus": [get_gpu_memory_info(index) for index in indices]}
    return _as_dict(gpu_id, _read(gpu_id))


def monitor_gpu_memory(
    data_gpu_id: int, model_gpu_id: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Memory of the data GPU and of the model GPU."""
    return (
        _as_dict(data_gpu_id, _read(data_gpu_id, "data")),
        _as_dict(model_gpu_id, _read(model_gpu_id, "model")),
    )


def log_memory_stats(data_gpu_id: int, model_gpu_id: int, step: int | None = None) -> None:
    """Log a line per GPU: `[Step 100] Data GPU 0: 5248/8192MB (64.1%)`."""
    prefix = "" if step is None else f"[Step {step}] "
    plan = configured_plan()
    roles: tuple[tuple[RoleName, int], ...] = (("data", data_gpu_id), ("model", model_gpu_id))
    for role, gpu_id in roles:
        reading = _read(gpu_id, role)
        note = f" [{reading.source}]{plan.note}" if plan and plan.simulated else ""
        log.info("%s%s GPU %d: %s%s", prefix, role.capitalize(), gpu_id, reading, note)


def detect_memory_leak(gpu_id: int, baseline_mb: float, threshold_mb: float = 200) -> bool:
    """Whether a GPU holds more than `threshold_mb` above its baseline; logs a warning if so.

    Take the baseline from `get_gpu_memory_info(gpu_id)["used_mb"]`, which reads the same source.
    """
    reading = _read(gpu_id)
    return reading.has_grown(f"GPU {gpu_id}", baseline_mb=baseline_mb, threshold_mb=threshold_mb)


def get_optimal_memory_limits(
    data_gpu_id: int, model_gpu_id: int, *, simulate: bool = False
) -> tuple[int, int]:
    """Memory limits (data, model) in MB for these cards; one index twice splits the card."""
    cards = machine_cards(simulate=simulate)
    return plan_limits(find_card(cards, data_gpu_id), find_card(cards, model_gpu_id))


def _read(gpu_id: int, role: RoleName | None = None) -> MemoryReading:
    plan = configured_plan()
    if plan is not None:
        mine = [name for name in ((role,) if role else ROLES) if plan.gpu(name) == gpu_id]
        devices = {plan.device(name) for name in mine}
        if len(devices) == 1 or (mine and plan.simulated):  # a split card is read as a whole
            return read_role(plan, mine[0])
    return read_card(gpu_id)


def _as_dict(gpu_id: int, reading: MemoryReading) -> dict[str, Any]:
    return {
        "gpu_id": gpu_id,
        "total_mb": reading.total_mb,
        "used_mb": reading.used_mb,
        "free_mb": reading.free_mb,
        "utilization_%": reading.percent,
        "source": reading.source,
    }
