"""Who speaks next: a few threads that say lines of many texts in turn.

A text that has not been heard yet comes first, so that nobody waits for the end of somebody else's
book; then all take turns, line by line. No text is spoken far ahead of who listens to it, and one
that nobody listens to any more is dropped.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any

from myxtts.errors import MyXTTSError

AHEAD = 2  # lines that wait for their reader


class QueueFullError(MyXTTSError):
    """So many are waiting that one more is not let in."""


class Job:
    """A text that is being spoken, and the chunks that wait for its reader."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[Any] = asyncio.Queue()
        self.lines: Iterator[Any] | None = None
        self.waiting = 0  # chunks nobody took yet; guarded by the scheduler's lock
        self.is_fresh, self.is_busy, self.is_over = True, False, False

    async def chunks(self, lines: Iterator[Any]) -> AsyncIterator[Any]:
        """Speak the lines, and give each chunk when it is there."""
        self.lines = lines
        self._scheduler.start(self)
        while True:
            kind, value = await self._arrived.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            self._scheduler.taken(self)
            yield value

    def deliver(self, kind: str, value: Any = None) -> None:
        """Called by the threads that speak."""
        try:
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, (kind, value))
        except RuntimeError:  # the loop has ended, and with it all who listened
            self.is_over = True


class Scheduler:
    """Threads that speak, and the texts that they take turns with."""

    def __init__(self, *, workers: int, max_queue: int) -> None:
        self.max_queue = max_queue
        self._changed = threading.Condition()
        self._jobs: set[Job] = set()
        self._ready: deque[Job] = deque()
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"speaker {number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def admit(self) -> Job:
        """A place in the queue, or an error that says it is full. Give it back by `dismiss`."""
        with self._changed:
            if len(self._jobs) >= self.max_queue or self._is_closed:
                raise QueueFullError(
                    f"{len(self._jobs)} requests are being spoken or wait already.",
                    "again in a moment",
                )
            job = Job(self)
            self._jobs.add(job)
            return job

    def dismiss(self, job: Job) -> None:
        """The end of a text, said or not: its place is free, and no more of it is spoken."""
        with self._changed:
            job.is_over = True
            self._jobs.discard(job)
            if job in self._ready:
                self._ready.remove(job)
            close = None if job.is_busy else job.lines
        if isinstance(close, Iterator) and hasattr(close, "close"):
            close.close()

    def start(self, job: Job) -> None:
        """Its lines are known now."""
        with self._changed:
            self._ready.append(job)
            self._changed.notify()

    def taken(self, job: Job) -> None:
        """A chunk found its reader, so there is room for another."""
        with self._changed:
            job.waiting -= 1
            self._offer(job)

    @property
    def num_jobs(self) -> int:
        """Texts that speak or wait."""
        with self._changed:
            return len(self._jobs)

    def close(self) -> None:
        """End the threads; what they are saying is said to its line's end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=10.0)

    def _offer(self, job: Job) -> None:
        if not (job.is_over or job.is_busy or job in self._ready or job.waiting >= AHEAD):
            self._ready.append(job)
            self._changed.notify()

    def _next(self) -> Job | None:
        with self._changed:
            while not self._ready and not self._is_closed:
                self._changed.wait(timeout=1.0)
            if self._is_closed:
                return None
            job = next((job for job in self._ready if job.is_fresh), self._ready[0])
            self._ready.remove(job)
            job.is_busy = True
            return job

    def _work(self) -> None:
        while (job := self._next()) is not None:
            kind, value = "end", None
            try:
                assert job.lines is not None
                kind, value = "chunk", next(job.lines)
            except StopIteration:
                kind = "end"
            except BaseException as error:
                kind, value = "error", error
            with self._changed:
                job.is_busy = job.is_fresh = False
                job.waiting += kind == "chunk"
                job.is_over = job.is_over or kind != "chunk"
            job.deliver(kind, value)
            with self._changed:
                self._offer(job)
