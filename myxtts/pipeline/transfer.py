"""The one crossing from the data device to the model device."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from myxtts.pipeline.devices import DevicePlan


def copy_to_model_device(batch: Any, plan: DevicePlan) -> Any:
    """Copy a batch to the model device; returns when it has arrived."""
    # Between logical CPU devices tf.identity only aliases the buffer; DeepCopy really copies.
    copy = (lambda t: tf.raw_ops.DeepCopy(x=t)) if plan.simulated else tf.identity
    with tf.device(plan.model_device):
        moved = [copy(tensor) for tensor in tf.nest.flatten(batch)]
        wait_for_gpu(moved, plan.model_device)
    return tf.nest.pack_sequence_as(batch, moved)


def wait_for_gpu(tensors: list[Any], device: str) -> None:
    """Return when a GPU has really made these tensors: a call only queues its kernels.

    A GPU works its queue off in order, so fetching one element computed last waits for all before.
    CPU devices have finished when the call returns.
    """
    if device.startswith("/GPU") and tensors:
        floats = [tensor for tensor in tensors if tensor.dtype.is_floating] or tensors
        tf.reshape(floats[-1], [-1])[:1].numpy()
