"""A bounded hand-off between two threads, whose room is taken before the work that fills it."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_RECHECK_S = 0.2  # nothing waits longer than this without looking again
WOKEN_FOR = 8  # as often in a buffer's length
_WAKE_UP: Any = object()  # stands in a queue for "look at the flags"


class BufferClosed(Exception):  # noqa: N818 - a signal between threads, not a fault
    """The pipeline is ending; drop what you hold."""


class EndOfBatches(Exception):  # noqa: N818
    """No more items will come."""


class BoundedBuffer(Generic[T]):
    """At most `capacity` items, those still being made included.

    A producer reserves a slot before it starts work, so what is waiting and what is in work never
    exceed the capacity together: that is what makes device memory countable. Slots and items are
    two queues of the interpreter's own: a hand-off by conditions took three times as long.
    """

    def __init__(self, capacity: int) -> None:
        assert capacity >= 1
        self.capacity = capacity
        self._items: SimpleQueue[T] = SimpleQueue()
        self._slots: SimpleQueue[None] = SimpleQueue()
        for _ in range(capacity):
            self._slots.put(None)
        self._owed_slots = 0  # freed, and not given back yet
        self._finished = False
        self._closed = False

    def __len__(self) -> int:
        """How many finished items wait."""
        return max(0, self._items.qsize() - self._finished)

    @property
    def settled(self) -> bool:
        """Whether waiting longer brings no more: it is full, or nothing more will come."""
        return len(self) >= self.capacity or self._finished or self._closed

    def reserve(self) -> None:
        """Wait for a free slot and take it."""
        self._take(self._slots)

    def put(self, item: T) -> None:
        """Fill the reserved slot."""
        if self._closed:
            raise BufferClosed
        self._items.put(item)

    def get(self, give_up: Callable[[], bool] = lambda: False) -> T:
        """Wait for the oldest item; raises `EndOfBatches` after the last, or when given up."""
        item: T = self._take(self._items, give_up)
        # A producer that waits for room in a deep buffer is woken for several slots at once.
        self._owed_slots += 1
        if self._owed_slots >= max(1, self.capacity // WOKEN_FOR):
            while self._owed_slots:
                self._slots.put(None)
                self._owed_slots -= 1
        return item

    def finish(self) -> None:
        """Say that no more items will come."""
        self._finished = True
        self._items.put(_WAKE_UP)

    def close(self) -> None:
        """Wake everyone who waits, drop the items, refuse new ones."""
        self._closed = True
        while self._items.qsize():
            try:
                self._items.get_nowait()
            except Empty:  # its owner was quicker
                break
        for queue in (self._items, self._slots):
            queue.put(_WAKE_UP)

    def _take(self, queue: SimpleQueue[Any], give_up: Callable[[], bool] = lambda: False) -> Any:
        while not self._closed:
            try:
                taken = queue.get_nowait() if queue.qsize() else _wait(queue, give_up)
            except Empty:
                continue
            if taken is not _WAKE_UP:
                return taken
            queue.put(_WAKE_UP)  # for whoever looks next
            if not self._closed:
                raise EndOfBatches
        raise BufferClosed


def _wait(queue: SimpleQueue[Any], give_up: Callable[[], bool]) -> Any:
    return _WAKE_UP if give_up() else queue.get(timeout=_RECHECK_S)
