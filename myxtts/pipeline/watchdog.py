"""Names the stage that makes no progress, with its stack, instead of waiting for ever."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from myxtts.errors import StageStalledError
from myxtts.pipeline.stage import Stage, stack_of
from myxtts.pipeline.telemetry import BUSY, StageMeter

log = logging.getLogger(__name__)


class Watchdog:
    """Looks at every stage until `closed` is set, from a thread of its own.

    `consumer` tells whose thread trains, which is not known before the first batch is asked for.
    """

    def __init__(
        self,
        name: str,
        *,
        stages: Sequence[Stage],
        train: StageMeter,
        consumer: Callable[[], threading.Thread],
        timeout: float,
        closed: threading.Event,
        on_failure: Callable[[StageMeter, BaseException], None],
    ) -> None:
        self._stages, self._train, self._consumer = stages, train, consumer
        self._timeout, self._closed, self._on_failure = timeout, closed, on_failure
        self.thread = threading.Thread(target=self._watch, name=name, daemon=True)

    def _watch(self) -> None:
        train, warned_of_step = self._train, -1
        while not self._closed.wait(min(1.0, self._timeout / 4)):
            for stage in self._stages:
                stuck_for = _busy_for(stage.meter)
                if stuck_for > self._timeout:
                    log.error(
                        "Stage '%s' made no progress for %.0f s:\n%s",
                        stage.meter.name,
                        stuck_for,
                        stack_of(stage.thread),
                    )
                    self._on_failure(stage.meter, _stalled(stage.meter, stuck_for))
                    return
            # The model's own thread cannot be ended from here, and compiling a large model takes
            # minutes: say it once a step.
            if _busy_for(train) > self._timeout and train.batches != warned_of_step:
                warned_of_step = train.batches
                log.warning(
                    "Stage '%s' has worked on one batch for %.0f s:\n%s",
                    train.name,
                    _busy_for(train),
                    stack_of(self._consumer()),
                )


def _busy_for(meter: StageMeter) -> float:
    return time.perf_counter() - meter.since if meter.state == BUSY else 0.0


def _stalled(meter: StageMeter, seconds: float) -> StageStalledError:
    return StageStalledError(
        f"Pipeline stage '{meter.name}' made no progress for {seconds:.0f} s (batch "
        f"{meter.batches}).",
        "see its stack in the log; a hanging network disk or a deadlock in the data code is the "
        "usual cause",
    )
