"""A stage of the pipeline: the named owner of one thread."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import tensorflow as tf

from myxtts.pipeline.buffers import BoundedBuffer, BufferClosed, EndOfBatches
from myxtts.pipeline.telemetry import BUSY, IDLE, WAITING_INPUT, WAITING_ROOM, StageMeter

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Item:
    """A batch on its way, with what others want to know of it."""

    data: Any  # a nest of arrays or tensors
    state: Any = None  # where its source goes on behind it
    nbytes: int = 0
    shape: str = ""


class Stage:
    """Takes an item, works on it, puts the result into its bounded buffer, until items end."""

    def __init__(
        self,
        name: str,
        *,
        take: Callable[[], Item],
        work: Callable[[Item], Item],
        output: BoundedBuffer[Item],
        meter: StageMeter,
        on_failure: Callable[[StageMeter, BaseException], None],
        device: str | None = None,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        self._take, self._work, self._output = take, work, output
        self.meter = meter
        self._on_failure, self._device, self._at_end = on_failure, device, at_end
        self._ended = False  # in order: with the items, with the pipeline, or with a failure told
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        meter = self.meter
        try:
            # Once for the thread: to enter a device takes longer than to place a small batch.
            with tf.device(self._device):
                self._work_on_all()
        except EndOfBatches:
            self._output.finish()
        except BufferClosed:
            pass  # the pipeline is ending
        except BaseException as error:  # whatever it is, the consumer must see it
            self._on_failure(meter, error)
        finally:
            meter.enter(IDLE)
        self._ended = True
        if self._at_end is not None:
            try:
                self._at_end()
            except BaseException as error:
                log.warning("Stage '%s' could not clean up: %r", meter.name, error)

    def _work_on_all(self) -> NoReturn:
        meter = self.meter
        meter.enter(WAITING_ROOM)
        while True:
            # Room first: a batch in work already has its place, so memory stays bounded.
            self._output.reserve()
            meter.enter(WAITING_INPUT)
            item = self._take()
            meter.enter(BUSY)
            self._output.put(self._work(item))
            meter.finish_batch(WAITING_ROOM)

    @property
    def is_lost(self) -> bool:
        """Whether its thread is gone and nobody was told why."""
        return not self._ended and self.thread.ident is not None and not self.thread.is_alive()


def stack_of(thread: threading.Thread) -> str:
    """Where a thread is now, as a traceback prints it."""
    frame = sys._current_frames().get(thread.ident or -1)
    return "".join(traceback.format_stack(frame)) if frame else "(it has ended)"
