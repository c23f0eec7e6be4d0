"""Says when the step is compiled for a shape, and warns if that happens in the middle of a run."""

from __future__ import annotations

import logging
import time
from typing import Any

import tensorflow as tf

from myxtts.data.training_data import TrainingData

log = logging.getLogger(__name__)

WARM_UP_BATCHES = 100
MOST_WARNINGS = 5


class TraceWatch:
    """Warns of a trace after warm-up, naming the shape; the shapes of the plan may come late."""

    def __init__(self, planned: set[str] | None = None) -> None:
        self._planned = planned or set()
        self._seen: set[str] = set()
        self._traces = 0
        self._batches = 0
        self._announced: set[str] = set()
        self._keys: set[str] = set()
        self._began: float | None = None  # while a new shape is compiled
        self.late = 0

    def announce(self, key: str, batch: Any) -> None:
        """Before the step: a shape it has not seen takes a while, and silence looks like a hang.

        `key` is the batch's shape as the pipeline has put it already, so that asking costs nothing.
        """
        if key in self._keys:
            return
        self._keys.add(key)
        shape = describe_shape(batch)
        self._announced.add(shape)
        if shape in self._planned:
            number = f"{len(self._announced & self._planned)} of {len(self._planned)}"
        elif len(self._announced) <= MOST_WARNINGS:
            number = str(len(self._announced))
        else:
            return  # every batch has its own
        self._began = time.monotonic()
        log.info("Compiling shape %s (%s) …", number, shape)

    def check(self, traces: int, batch: Any) -> None:
        """Look at the step's count of traces after it has worked on a batch."""
        self._batches += 1
        if self._began is not None:
            log.info("Compiled in %.1f s", time.monotonic() - self._began)
            self._began = None
        if traces == self._traces:
            return
        self._traces = traces
        shape = describe_shape(batch)
        repeated = shape in self._seen
        self._seen.add(shape)
        if not repeated and (shape in self._planned or self._batches <= WARM_UP_BATCHES):
            return
        self.late += 1
        if self.late <= MOST_WARNINGS:
            log.warning(
                "The step was traced again after warm-up, for the shape %s%s; "
                "try --enable-static-shapes, or batches of one shape from your own data set",
                shape,
                " (the last warning of this kind)" if self.late == MOST_WARNINGS else "",
            )

    def expect_more(self) -> None:
        """Forget what was seen: the step works on micro-batches from now on."""
        self._seen.clear()
        self._announced.clear()
        self._keys.clear()
        self._batches = 0


def describe_shape(batch: Any) -> str:
    """A batch's shape in a few words."""
    if isinstance(batch, dict) and {"mels", "tokens"} <= batch.keys():
        rows, frames = batch["mels"].shape[:2]
        return planned_shape(rows, frames, batch["tokens"].shape[1])
    return ", ".join("x".join(map(str, t.shape)) or "scalar" for t in tf.nest.flatten(batch))


def planned_shape(rows: int, frames: int, tokens: int) -> str:
    """How `describe_shape` puts a bucket of the plan."""
    return f"{rows} x {frames} frames x {tokens} tokens"


def planned_shapes(data: TrainingData | None) -> set[str]:
    """Every shape that the batches of a run will have."""
    if data is None:
        return set()
    return {planned_shape(s.rows, *s.bucket) for s in data.plan.bucket_stats()}
