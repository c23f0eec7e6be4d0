"""A bounded hand-off between two threads, whose room is taken before the work that fills it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_RECHECK_S = 0.2  # nothing waits longer than this without looking again


class BufferClosed(Exception):  # noqa: N818 - a signal between threads, not a fault
    """The pipeline is ending; drop what you hold."""


class EndOfBatches(Exception):  # noqa: N818
    """No more items will come."""


class BoundedBuffer(Generic[T]):
    """At most `capacity` items, those still being made included.

    A producer reserves a slot before it starts work, so what is waiting and what is in work never
    exceed the capacity together: that is what makes device memory countable.
    """

    def __init__(self, capacity: int) -> None:
        assert capacity >= 1
        self.capacity = capacity
        self._items: deque[T] = deque()
        self._reserved = 0
        self._finished = False
        self._closed = False
        lock = threading.Lock()
        self._has_room = threading.Condition(lock)
        self._has_item = threading.Condition(lock)

    def __len__(self) -> int:
        """How many finished items wait."""
        return len(self._items)

    @property
    def settled(self) -> bool:
        """Whether waiting longer brings no more: it is full, or nothing more will come."""
        return len(self._items) >= self.capacity or self._finished or self._closed

    def reserve(self) -> None:
        """Wait for a free slot and take it."""
        with self._has_room:
            self._wait(self._has_room, lambda: len(self._items) + self._reserved < self.capacity)
            self._reserved += 1

    def put(self, item: T) -> None:
        """Fill the reserved slot."""
        with self._has_item:
            if self._closed:
                raise BufferClosed
            self._reserved -= 1
            self._items.append(item)
            self._has_item.notify()

    def get(self, give_up: Callable[[], bool] = lambda: False) -> T:
        """Wait for the oldest item; raises `EndOfBatches` after the last, or when given up."""
        with self._has_item:
            self._wait(self._has_item, lambda: bool(self._items) or self._finished or give_up())
            if not self._items:
                raise EndOfBatches
            item = self._items.popleft()
            self._has_room.notify()
            return item

    def finish(self) -> None:
        """Say that no more items will come."""
        with self._has_item:
            self._finished = True
            self._has_item.notify_all()

    def close(self) -> None:
        """Wake everyone who waits, drop the items, refuse new ones."""
        with self._has_item:
            self._closed = True
            self._items.clear()
            self._has_item.notify_all()
            self._has_room.notify_all()

    def _wait(self, changed: threading.Condition, ready: Callable[[], bool]) -> None:
        while not self._closed and not ready():
            changed.wait(_RECHECK_S)
        if self._closed:
            raise BufferClosed
