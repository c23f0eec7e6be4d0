"""Times a stage with the model device to itself, now and then.

A GPU works through one queue. What a stage asks of the device that also trains waits behind the
training, and its time says little of its own work. So one batch in fifty is worked on while the
consumer gets none and the queue is empty.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from myxtts.pipeline.telemetry import StageMeter
from myxtts.pipeline.transfer import drain, runs_ahead

T = TypeVar("T")

EVERY, FIRST = 50, 10  # batches; the first ones compile
MOST_HELD_BACK_S = 5.0  # a stage that takes longer is not timed but stuck


class AloneTimer:
    """Holds the consumer back while a stage is timed; does nothing where calls end with work."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._gate = threading.Lock()

    def let_pass(self) -> None:
        """Called by the consumer before it queues work of its own."""
        if self._gate.acquire(timeout=MOST_HELD_BACK_S):
            self._gate.release()

    def timed(self, meter: StageMeter, work: Callable[[T], T]) -> Callable[[T], T]:
        """The same work, whose time alone its meter gets to know."""
        if not runs_ahead(self._device):
            return work

        def sampled(item: T) -> T:
            if meter.batches % EVERY != FIRST:
                return work(item)
            with self._gate:
                drain(self._device)
                began = time.perf_counter()
                result = work(item)
                meter.timed_alone(time.perf_counter() - began)
            return result

        return sampled
