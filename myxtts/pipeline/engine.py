"""The producer-consumer pipeline: read, process, transfer and train, all at once."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, NoReturn

from myxtts.errors import ConfigError, StageLostError, StageStalledError
from myxtts.pipeline import THREAD_PREFIX
from myxtts.pipeline.alone import AloneTimer
from myxtts.pipeline.budget import MemoryBudget, batch_bytes, shape_of
from myxtts.pipeline.budget_check import BudgetCheck
from myxtts.pipeline.buffers import BoundedBuffer, BufferClosed, EndOfBatches
from myxtts.pipeline.consumer_clock import CallClock, QueueClock
from myxtts.pipeline.devices import DevicePlan, Mode
from myxtts.pipeline.iterators import iterate
from myxtts.pipeline.stage import Item, Stage, stack_of
from myxtts.pipeline.telemetry import (
    PROCESS,
    READ,
    TRAIN,
    TRANSFER,
    PipelineStats,
    StageMeter,
    Telemetry,
)
from myxtts.pipeline.transfer import (
    copy_to_model_device,
    put_on_device,
    runs_ahead,
    wait_for_gpu,
)
from myxtts.pipeline.watchdog import Watchdog

log = logging.getLogger(__name__)

Batch = Any  # any nest of arrays or tensors
HURRIED_CLOSE_S = 2.0  # when asked to stop, or after a failure
CLOSE_DEADLINE_S = 20.0  # a loaded machine may still be busy with a last read-ahead
_WARM_UP_POLL_S = 0.005

_pipeline_numbers = itertools.count(1)


class ProducerConsumerPipeline:
    """Iterates over batches that live on the model device, prepared ahead on the data device.

    `source` yields host batches (nests of arrays or tensors); `process` runs on the data device,
    best as a `tf.function`. Use it as a context manager: threads start on entry and end on exit.

    A source whose iterator has `get_state()` (as ours and grain's have) is asked after every batch,
    and the answer travels with the batch: `state` is where to go on behind the one taken last.

    The buffers are counted in batches: `buffer_size` on the host, `prefetch_buffer_size` on the
    data device, `depth` on the model device. `batch_spec` describes the largest batch, so that a
    run that cannot fit its memory limits is refused before it starts; without it the source's
    `element_spec` is used, and failing that each batch is checked as it comes. Once
    `stop_when()` is true the batches end as soon as one would have to be waited for.
    """

    def __init__(
        self,
        source: Iterable[Batch],
        *,
        plan: DevicePlan,
        process: Callable[[Batch], Batch] | None = None,
        depth: int = 3,
        prefetch_buffer_size: int = 4,
        buffer_size: int = 50,
        model_start_delay: float = 2.0,
        batch_spec: Any = None,
        stall_timeout: float = 120.0,
        stop_when: Callable[[], bool] = lambda: False,
    ) -> None:
        for name, value in (
            ("depth", depth),
            ("prefetch_buffer_size", prefetch_buffer_size),
            ("buffer_size", buffer_size),
        ):
            if not isinstance(value, int) or value < 1:
                raise ConfigError(
                    f"{name} must be a whole number, 1 or more, and is {value!r}.",
                    "give at least 1",
                )
        for name, seconds in (
            ("model_start_delay", model_start_delay),
            ("stall_timeout", stall_timeout),
        ):
            if not isinstance(seconds, (int, float)) or not seconds >= 0:
                raise ConfigError(
                    f"{name} must be seconds, 0 or more, and is {seconds!r}.",
                    "give a number; math.inf switches the watchdog off",
                )
        self.plan = plan
        self._source = source
        self._process_function = process
        self._start_delay = model_start_delay
        self._stop_when = stop_when
        self._budget = BudgetCheck(MemoryBudget(plan, prefetch_buffer_size, depth))
        self._host: BoundedBuffer[Item] = BoundedBuffer(buffer_size)
        self._prefetched: BoundedBuffer[Item] = BoundedBuffer(prefetch_buffer_size)
        self._ring: BoundedBuffer[Item] = BoundedBuffer(depth)
        self.telemetry = Telemetry(ring_capacity=depth)
        self._failure: BaseException | None = None
        self._failure_lock = threading.Lock()
        self._closed = threading.Event()
        self._started = False
        self._warm = False
        self._announced = False
        self._alone = AloneTimer(plan.model_device)
        self._iterator: Iterator[Batch] | None = None
        self.state: Any = None
        self.shape = ""  # of the batch taken last: that of each of its tensors
        self._consumer = threading.current_thread()
        self._process_id = os.getpid()
        self._stages = self._make_stages()
        self._clock = self._make_clock()
        self._watchdog = Watchdog(
            f"{self._prefix}-watchdog",
            stages=self._stages,
            train=self.telemetry.meters[TRAIN],
            consumer=lambda: self._consumer,
            timeout=stall_timeout,
            closed=self._closed,
            on_failure=self._fail,
        )
        spec = batch_spec if batch_spec is not None else getattr(source, "element_spec", None)
        self._budget.check_spec(spec, process)

    # -- life --

    def __enter__(self) -> ProducerConsumerPipeline:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Who asked to stop wants to leave, not to hear of a thread that waits for a dead disk.
        hurried = error is not None or self._stop_when()
        lingering = self.close(HURRIED_CLOSE_S if hurried else CLOSE_DEADLINE_S)
        self._failure = None  # its traceback holds frames, and they hold batches
        if lingering and not hurried:
            raise StageStalledError(
                f"These pipeline threads did not end within {CLOSE_DEADLINE_S:.0f} s: "
                + ", ".join(lingering),
                "look at what the source or the process function waits for; their stacks are in "
                "the log",
            )

    def start(self) -> None:
        """Start every stage at once: data must be ready before the model asks for it."""
        assert not self._started, "a pipeline runs once; make a new one"
        self._started = True
        log.info("Intelligent GPU Pipeline: %s%s", self.plan.mode.value, self.plan.note)
        self._budget.announce(host_buffer_size=self._host.capacity)
        for thread, _ in self._threads():
            thread.start()

    def close(self, within_s: float = HURRIED_CLOSE_S) -> list[str]:
        """End every thread within a deadline; returns the names of those that stay."""
        if os.getpid() != self._process_id:
            return []  # a forked child: the threads, and the locks they may hold, are its parent's
        self._closed.set()
        for buffer in (self._host, self._prefetched, self._ring):
            buffer.close()
        self._clock.close()
        deadline = time.monotonic() + within_s
        lingering = []
        for thread, owner in self._threads():
            if not thread.is_alive():
                continue
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                lingering.append(owner)
                log.error("Stage '%s' did not end:\n%s", owner, stack_of(thread))
        return lingering

    def _threads(self) -> list[tuple[threading.Thread, str]]:
        threads = [(stage.thread, stage.meter.name) for stage in self._stages]
        if self._clock.thread is not None:
            threads.append((self._clock.thread, TRAIN))
        return [*threads, (self._watchdog.thread, "watchdog")]

    # -- the consumer's side --

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        assert self._started, "use the pipeline in a `with` block"
        if os.getpid() != self._process_id:
            raise StageLostError(
                f"This pipeline belongs to process {self._process_id}; in a forked child none of "
                "its stages runs.",
                "make the pipeline in the process that uses it, or start that with `spawn`",
            )
        if not self._warm:
            self._wait_until_warm()
        self._clock.ask()
        ready = len(self._ring)
        try:
            item = self._ring.get(self._give_up)
        except EndOfBatches:
            self._clock.end()
            if (lost := self._lost_stage()) is not None:
                raise StageLostError(
                    f"The thread of pipeline stage '{lost}' died without saying why.",
                    "look for its traceback above; the run's last checkpoint is whole",
                ) from None
            raise StopIteration from None
        except BufferClosed:
            self._raise_failure()
        if not self._announced:
            self._announced = True
            if self.plan.mode is Mode.MULTI:
                log.info("Model training starting now%s", self.plan.note)
        self._alone.let_pass()
        self._clock.take(item.shape, ready)
        self.state, self.shape = item.state, item.shape
        return item.data

    def finish_with(self, tensor: Any) -> None:
        """Name the tensor that is made last of the batch taken last.

        On a GPU calls only queue their work. With this the next step is queued while this one
        runs, and times are those of the work; without it a batch counts as done when the next is
        asked for.
        """
        try:
            self._clock.finish_with(tensor)
        except BufferClosed:
            self._raise_failure()

    def _give_up(self) -> bool:
        """Whether waiting for a batch has no sense; asked only while there is none."""
        return self._stop_when() or self._lost_stage() is not None

    def _lost_stage(self) -> str | None:
        return next((stage.meter.name for stage in self._stages if stage.is_lost), None)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Around what the consumer does besides training: it counts neither as work nor as rate."""
        began = self._clock.pause()
        try:
            yield
        finally:
            self.telemetry.paused(time.perf_counter() - began)

    def stats(self) -> PipelineStats:
        """Busy and waiting time of each stage, ring occupancy and rates so far."""
        return self.telemetry.stats()

    def _wait_until_warm(self) -> None:
        """Let the buffers fill before the model starts, but never longer than the start delay."""
        self._warm = True
        self._consumer = threading.current_thread()
        if self._start_delay and self.plan.mode is Mode.MULTI:
            log.info(
                "Multi-GPU Mode: Waiting %.1fs for data pipeline to warm up...%s",
                self._start_delay,
                self.plan.note,
            )
        deadline = time.monotonic() + self._start_delay
        while time.monotonic() < deadline and not (self._closed.is_set() or self._stop_when()):
            if self._ring.settled and self._prefetched.settled:
                break
            time.sleep(_WARM_UP_POLL_S)

    # -- the stages' work --

    def _make_stages(self) -> list[Stage]:
        self._prefix = f"{THREAD_PREFIX}{next(_pipeline_numbers)}"
        process: Callable[[Item], Item] = self._process
        transfer: Callable[[Item], Item] = self._transfer
        if self.plan.data_device == self.plan.model_device:
            process = self._alone.timed(self.telemetry.meters[PROCESS], process)
        else:
            transfer = self._alone.timed(self.telemetry.meters[TRANSFER], transfer)
        parts: list[tuple[str, Callable[[], Item], Callable[[Item], Item], Any]] = [
            (READ, lambda: Item(None), self._read, self._host),
            (PROCESS, self._host.get, process, self._prefetched),
            (TRANSFER, self._prefetched.get, transfer, self._ring),
        ]
        return [
            Stage(
                f"{self._prefix}-{name}",
                take=take,
                work=work,
                output=output,
                meter=self.telemetry.meters[name],
                on_failure=self._fail,
                device=self.plan.data_device if name == PROCESS else None,
                at_end=self._end_source if name == READ else None,
            )
            for name, take, work, output in parts
        ]

    def _make_clock(self) -> CallClock:
        if not runs_ahead(self.plan.model_device):
            return CallClock(self.telemetry)
        return QueueClock(self.telemetry, name=f"{self._prefix}-train", on_failure=self._fail)

    def _read(self, item: Item) -> Item:
        if self._iterator is None:
            self._iterator = iterate(self._source)
        try:
            item.data = next(self._iterator)
        except StopIteration:
            raise EndOfBatches from None
        if hasattr(self._iterator, "get_state"):
            item.state = self._iterator.get_state()
        return item

    def _end_source(self) -> None:
        """A source's own clean-up runs now, not some day, and where nobody has to wait for it."""
        iterator, self._iterator = self._iterator, None
        close_source = getattr(iterator, "close", None)
        if close_source is not None:
            close_source()

    def _process(self, item: Item) -> Item:
        device = self.plan.data_device
        ready, tensors = put_on_device(item.data, device)
        raw_bytes = batch_bytes(tensors) if self.plan.isolated else 0
        if self._process_function is not None:
            ready, tensors = put_on_device(self._process_function(ready), device)
        wait_for_gpu(tensors, device)
        nbytes = batch_bytes(tensors)
        self._budget.check(raw_bytes, nbytes)
        shape = " ".join("x".join(map(str, shape_of(tensor))) for tensor in tensors)
        return Item(ready, item.state, nbytes, shape)  # a new one: this thread may keep the old

    def _transfer(self, item: Item) -> Item:
        if self.plan.data_device == self.plan.model_device:
            return item  # one device does both jobs: there is nothing to cross
        moved = copy_to_model_device(item.data, self.plan)
        self.telemetry.transferred_bytes += item.nbytes
        return Item(moved, item.state, item.nbytes, item.shape)

    # -- failure --

    def _fail(self, meter: StageMeter, error: BaseException) -> None:
        """Keep the first failure and wake everyone: the consumer raises it at once."""
        with self._failure_lock:
            if self._failure is not None or self._closed.is_set():
                return
            self._failure = error
        if hasattr(error, "add_note"):  # Python 3.11
            with contextlib.suppress(Exception):  # it may be of any kind, and refuse a note
                error.add_note(f"in pipeline stage '{meter.name}', batch {meter.batches}")
        for buffer in (self._host, self._prefetched, self._ring):
            buffer.close()

    def _raise_failure(self) -> NoReturn:
        self._clock.close()
        failure = self._failure
        if failure is None:
            raise RuntimeError("this pipeline is closed; make a new one") from None
        if isinstance(failure, StopIteration):  # would end the consumer's loop as if all were well
            raise RuntimeError("a pipeline stage raised StopIteration") from failure
        raise failure
