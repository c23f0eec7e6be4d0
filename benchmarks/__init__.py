"""Measurements, each run as `python -m benchmarks.NAME`; compare within one run, as a ratio.

`feeding` is what `train` measures with.
"""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call it in a fresh process, never forked: its memory and TensorFlow's threads are its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()
