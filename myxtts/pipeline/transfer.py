"""Puts batches on devices; holds the one crossing from the data device to the model device."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.pipeline.devices import DevicePlan


def put_on_device(batch: Any, device: str) -> tuple[Any, list[Any]]:
    """The batch as tensors on this device, and a flat list of them. Text stays on the host."""
    leaves = tf.nest.flatten(batch)
    if all(_is_settled(leaf, device) for leaf in leaves):
        return batch, leaves
    tensors = []
    with tf.device(device):
        for leaf in leaves:
            if _is_text(leaf):
                with tf.device("/CPU:0"):  # no GPU holds text
                    tensors.append(tf.convert_to_tensor(leaf))
                continue
            tensor = tf.convert_to_tensor(leaf)  # a tensor stays where it is, an array is placed
            tensors.append(tensor if is_on(tensor, device) else tf.identity(tensor))
    return tf.nest.pack_sequence_as(batch, tensors), tensors


def _is_settled(leaf: Any, device: str) -> bool:
    """Whether a leaf needs no work: what a stage has just made on its device, or text."""
    return isinstance(leaf, tf.Tensor) and (is_on(leaf, device) or leaf.dtype == tf.string)


def copy_to_model_device(batch: Any, plan: DevicePlan) -> Any:
    """Copy a batch to the model device; returns when it has arrived. Text stays on the host."""
    # Between logical CPU devices tf.identity only aliases the buffer; DeepCopy really copies.
    copy = (lambda t: tf.raw_ops.DeepCopy(x=t)) if plan.simulated else tf.identity
    with tf.device(plan.model_device):
        moved = [t if t.dtype == tf.string else copy(t) for t in tf.nest.flatten(batch)]
        wait_for_gpu(moved, plan.model_device)
    return tf.nest.pack_sequence_as(batch, moved)


def is_on(tensor: Any, device: str) -> bool:
    """Whether a tensor or variable lives on this device."""
    return bool(tensor.device.endswith(_full_name(device)))


@lru_cache(maxsize=64)
def _full_name(device: str) -> str:
    return device.replace("/", "/device:")


def wait_for_gpu(tensors: list[Any], device: str) -> None:
    """Return when a GPU has really made these tensors: a call only queues its kernels.

    A GPU works its queue off in order, so fetching one element computed last waits for all before.
    CPU devices have finished when the call returns.
    """
    if runs_ahead(device) and tensors:
        # Integers may live in host memory even when TensorFlow says GPU.
        floats = [tensor for tensor in tensors if tensor.dtype.is_floating] or tensors
        fetch_element(floats[-1])


def fetch_element(tensor: Any) -> None:
    """Bring one element to the host, which waits for all that was queued before it."""
    tf.reshape(tensor, [-1])[:1].numpy()


def drain(device: str) -> None:
    """Return when a GPU has nothing queued."""
    with tf.device(device):
        fetch_element(tf.zeros([1]))


def runs_ahead(device: str) -> bool:
    """Whether calls on this device return before their work is done."""
    return device.startswith("/GPU")


def _is_text(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray):  # most often; comparing its type with TensorFlow's is slow
        return leaf.dtype.kind in "USO"
    return isinstance(leaf, (str, bytes)) or getattr(leaf, "dtype", None) == tf.string
