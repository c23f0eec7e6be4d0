"""What to do when a step runs out of memory: work on fewer clips at a time, or say what fits."""

from __future__ import annotations

import logging
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.errors import MemoryBudgetError
from myxtts.pipeline.devices import DevicePlan
from myxtts.training.capacity import what_would_fit
from myxtts.training.step import TrainStep, num_rows
from myxtts.training.tracing import describe_shape

log = logging.getLogger(__name__)


def work_on_less(
    step: TrainStep, batch: Any, config: XTTSConfig, plan: DevicePlan, *, at: int, error: Exception
) -> int:
    """Let the step go on in smaller micro-batches, if that was asked for; how many clips each."""
    rows = num_rows(batch)
    micro = step.micro_rows or rows
    ways = what_would_fit(config, plan, micro_batch=micro)
    problem = (
        f"The model device ran out of memory at step {at}, working on {micro} clips at a time "
        f"({describe_shape(batch)})."
    )
    smaller = step.halve_micro_batch(rows) if config.training.auto_batch else None
    if smaller is None:
        raise MemoryBudgetError(problem, ways) from error
    log.warning(
        "%s Going on with %d at a time, %d times a batch: the effective batch stays. To start "
        "like this: %s",
        problem,
        smaller,
        -(-rows // smaller),
        ways,
    )
    return smaller
