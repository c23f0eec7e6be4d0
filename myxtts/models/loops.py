"""A loop whose rounds the host counts by itself.

`tf.scan` and `tf.map_fn` also ask, in every round, whether the most rounds are reached, and join
the two answers by an operation of the device: on a GPU that is a trip there and back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from myxtts.models.layers import size_of


def scan(step: Callable[[Any, Any], tf.Tensor], elements: Any, first: tf.Tensor) -> tf.Tensor:
    """What `tf.scan` returns, for one tensor that is handed on; it has no gradient."""
    elements = tf.nest.map_structure(tf.stop_gradient, elements)
    count = size_of(tf.nest.flatten(elements)[0], 0)
    results = tf.TensorArray(first.dtype, count, element_shape=first.shape)

    def one_round(at: tf.Tensor, before: tf.Tensor, results: Any) -> tuple[Any, ...]:
        here = tf.nest.map_structure(lambda element: element[at], elements)
        found = step(before, here)
        found.set_shape(first.shape)
        return at + 1, found, results.write(at, found)

    _, _, results = tf.while_loop(
        lambda at, *_: at < count, one_round, (0, first, results), parallel_iterations=1
    )
    return results.stack()
