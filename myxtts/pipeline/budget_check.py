"""Holds every batch against the memory budget: the largest before the start, where it is known."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from myxtts.pipeline.budget import MemoryBudget, spec_bytes

log = logging.getLogger(__name__)


class BudgetCheck:
    """Refuses a batch that does not fit; what is no larger than one before costs nothing."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._largest = (0, 0)  # bytes, raw and processed

    def announce(self, *, host_buffer_size: int) -> None:
        """Say how many batches wait where."""
        self._budget.announce(host_buffer_size=host_buffer_size)

    def check_spec(self, spec: Any, process: Callable[[Any], Any] | None) -> None:
        """Refuse a run whose largest batch cannot fit, before it starts."""
        raw_bytes = None if spec is None or not self._budget.plan.isolated else spec_bytes(spec)
        if raw_bytes is None:
            return  # no limits, or shapes unknown: each batch is checked as it comes
        ready_spec = spec
        if process is not None:
            ready_spec = _traced_output(process, spec, self._budget.plan.data_device)
        ready_bytes = None if ready_spec is None else spec_bytes(ready_spec)
        if ready_bytes is not None:
            self.check(raw_bytes, ready_bytes)

    def check(self, raw_bytes: int, ready_bytes: int) -> None:
        """Refuse a batch of this size, raw and processed, if it does not fit."""
        largest_raw, largest_ready = self._largest
        if raw_bytes > largest_raw or ready_bytes > largest_ready:
            self._budget.check(raw_bytes=raw_bytes, ready_bytes=ready_bytes)
            self._largest = (max(raw_bytes, largest_raw), max(ready_bytes, largest_ready))


def _traced_output(process: Callable[[Any], Any], spec: Any, device: str) -> Any:
    """What `process` makes of a batch like `spec`, traced and not run; None if it cannot be."""
    function: Any = process
    if not hasattr(process, "get_concrete_function"):
        function = tf.function(process, autograph=False)  # it warns of what it cannot convert
    try:
        with tf.device(device):
            return function.get_concrete_function(spec).structured_outputs
    except Exception as error:  # Python that needs real values; each batch is checked as it comes
        log.debug("The process function cannot be traced (%s): sizes are checked later", error)
        return None
