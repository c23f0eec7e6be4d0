"""When the consumer works and when it waits, as its device sees it.

On a CPU a call has done its work when it returns. On a GPU it has only queued it: there the next
step is queued while the last one runs, and a thread of its own notes when each is really done.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from myxtts.pipeline.buffers import BoundedBuffer, BufferClosed, EndOfBatches
from myxtts.pipeline.telemetry import BUSY, IDLE, TRAIN, WAITING_INPUT, StageMeter, Telemetry
from myxtts.pipeline.transfer import fetch_element

_DRAIN_POLL_S = 0.001


class CallClock:
    """A batch is done when the consumer asks for the next."""

    thread: threading.Thread | None = None

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry, self._meter = telemetry, telemetry.meters[TRAIN]
        self._asked = 0.0

    def ask(self) -> None:
        """The consumer wants a batch."""
        self._asked = self._leave_batch(WAITING_INPUT)

    def take(self, shape: str, ready: int) -> None:
        """It got one, of this shape, when so many were ready."""
        got = self._meter.enter(BUSY)
        self._telemetry.delivered(at=got, waited=got - self._asked, shape=shape, ready=ready)

    def finish_with(self, tensor: Any) -> None:
        """Its work on this batch is done when this tensor is."""

    def pause(self) -> float:
        """It does something else; returns since when."""
        began = self._leave_batch(IDLE)
        self._telemetry.step_ended(at=began, waited=0.0)
        return began

    def end(self) -> None:
        """There are no more batches."""
        now = self._meter.enter(IDLE)
        self._telemetry.step_ended(at=now, waited=now - self._asked)

    def close(self) -> None:
        """The pipeline is over, in whatever state."""
        if self._meter.state != IDLE:
            self._meter.enter(IDLE)

    def _leave_batch(self, state: str) -> float:
        meter = self._meter
        return (meter.finish_batch if meter.state == BUSY else meter.enter)(state)


class QueueClock(CallClock):
    """A batch is done when the device has made the tensor that was named for it.

    `finish_with` returns when at most one step is queued behind the running one: the device always
    has its next work, and memory stays countable. A consumer that names no tensor is taken at its
    call's word, as on a CPU.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        *,
        name: str,
        on_failure: Callable[[StageMeter, BaseException], None],
        wait: Callable[[Any], None] = fetch_element,
    ) -> None:
        super().__init__(telemetry)
        self._on_failure, self._wait = on_failure, wait
        self._named: BoundedBuffer[Any] = BoundedBuffer(1)
        self._lock = threading.Lock()  # the meter has two owners here
        self._in_flight: deque[tuple[str, float]] = deque()  # shape, and idle seconds before it
        self._unnamed = False
        self._last_end: float | None = None
        self.thread = threading.Thread(target=self._watch, name=name, daemon=True)

    def ask(self) -> None:
        """The consumer wants a batch."""
        self._finish_unnamed()
        with self._lock:
            if self._meter.state == IDLE:
                self._meter.enter(WAITING_INPUT)

    def take(self, shape: str, ready: int) -> None:
        """It got one; the device is busy from now, if it was not already."""
        with self._lock:
            idle = 0.0
            if not self._in_flight:
                began, idle_before = self._meter.since, self._last_end is not None
                now = self._meter.enter(BUSY)
                idle = now - began if idle_before else 0.0
                self._last_end = now - idle
            self._in_flight.append((shape, idle))
        self._unnamed = True
        self._telemetry.found_ready(at=time.perf_counter(), ready=ready)

    def finish_with(self, tensor: Any) -> None:
        """Its work on this batch is done when this tensor is."""
        if self._unnamed:
            self._unnamed = False
            self._named.reserve()
            self._named.put(tensor)

    def pause(self) -> float:
        """Wait until the device is through; what follows is not training."""
        self._finish_unnamed()
        while self._in_flight and self.thread is not None and self.thread.is_alive():
            time.sleep(_DRAIN_POLL_S)
        with self._lock:
            self._last_end = None
            return self._meter.enter(IDLE)

    def end(self) -> None:
        """There are no more batches."""
        self.pause()

    def close(self) -> None:
        """The pipeline is over, in whatever state."""
        self._named.close()
        super().close()

    def _watch(self) -> None:
        try:
            while True:
                self._wait(self._named.get())
                self._done()
        except (BufferClosed, EndOfBatches):
            pass
        except BaseException as error:  # the device's own failure must reach the consumer
            self._named.close()
            self._on_failure(self._meter, error)

    def _finish_unnamed(self) -> None:
        if self._unnamed:
            self._unnamed = False  # only the consumer's thread touches it
            self._done()

    def _done(self) -> None:
        with self._lock:
            shape, idle = self._in_flight.popleft()
            now = self._meter.finish_batch(BUSY if self._in_flight else WAITING_INPUT)
            began, self._last_end = self._last_end, now
        assert began is not None, "a batch is taken before it is done"
        self._telemetry.record_step(shape, taken=now - began, waited=idle)
