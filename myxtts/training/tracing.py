"""Notices when the step is traced anew in the middle of a run, which costs seconds each time."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

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
        self.late = 0

    def check(self, traces: int, batch: Any) -> None:
        """Look at the step's count of traces after it has worked on a batch."""
        self._batches += 1
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
