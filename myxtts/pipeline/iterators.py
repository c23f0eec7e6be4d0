"""Reads data sets such that nobody waits for the end of a tf.data iterator."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import tensorflow as tf

T = TypeVar("T")


def iterate(source: Iterable[T]) -> Iterator[T]:
    """What `iter` gives; but a tf.data iterator's end, which may take a minute, waits aside.

    Its destructor joins the thread that autotunes, and now and then (on two cores every other time)
    that thread sleeps through its cancellation: TensorFlow wakes it before it sets the flag it
    looks at (`Model::OptimizeLoop`, `CancellationManager::StartCancel`). It then sleeps to the
    end of its period, which doubles each time, up to 60 s. Where autotuning is switched off there
    is no such thread; another's data set is not ours to change.
    """
    return _elements(source) if isinstance(source, tf.data.Dataset) else iter(source)


def _elements(dataset: Any) -> Iterator[Any]:
    held = [iter(dataset)]
    try:
        yield from held[0]
    finally:
        # A method of the list: no frame but the thread's ever holds the iterator itself.
        threading.Thread(target=held.clear, name="end-of-data-set", daemon=True).start()
