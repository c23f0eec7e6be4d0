"""Which of two forms of a function is quicker on this device, settled on the first batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import tensorflow as tf

from myxtts.pipeline.transfer import wait_for_gpu

log = logging.getLogger(__name__)

SHAPES = 2  # are looked at, each when its first batch comes
CALLS = 3  # are timed, after the one that traces and compiles


def seconds_of(call: Callable[[], Any], device: str) -> float:
    """Seconds of the quickest call: one alone on the device, whatever else is queued there."""
    times = []
    for _ in range(1 + CALLS):
        began = time.perf_counter()
        wait_for_gpu(tf.nest.flatten(call()), device)
        times.append(time.perf_counter() - began)
    return min(times[1:])


class QuickestForm:
    """Calls forms of one function, which give the same, and stays with the quicker."""

    def __init__(
        self, name: str, forms: Mapping[str, Callable[[Any], Any]], *, device: str
    ) -> None:
        self._name, self._forms, self._device = name, dict(forms), device
        self._seconds = dict.fromkeys(self._forms, 0.0)
        self._seen: set[str] = set()
        self._chosen: Callable[[Any], Any] | None = None

    def __call__(self, batch: Any) -> Any:
        """What the function makes of a batch."""
        if self._chosen is not None:
            return self._chosen(batch)
        if not tf.executing_eagerly():  # somebody only wants to know the result's shapes
            return next(iter(self._forms.values()))(batch)
        shape = str([leaf.shape for leaf in tf.nest.flatten(batch)])
        if shape not in self._seen:
            self._seen.add(shape)
            for name, form in self._forms.items():
                self._seconds[name] += seconds_of(partial(form, batch), self._device)
        quickest = min(self._seconds, key=self._seconds.__getitem__)
        if len(self._seen) == SHAPES:
            self._settle(quickest)
        return self._forms[quickest](batch)

    def _settle(self, quickest: str) -> None:
        self._chosen = self._forms[quickest]
        taken = ", ".join(f"{1000 * s / SHAPES:.1f} ms {name}" for name, s in self._seconds.items())
        log.info("%s: a batch takes %s; it goes on %s", self._name, taken, quickest)
