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
    """Copy a batch to the model device in one call; returns when it has arrived.

    Text stays on the host. A GPU's copies are done when the call returns: TensorFlow tells a
    traced call of a copy's end by an event behind it. So nothing is queued behind a training step
    only to wait for it.
    """
    leaves = tf.nest.flatten(batch)
    sent = [leaf for leaf in leaves if leaf.dtype != tf.string]
    with tf.device(plan.model_device):
        # To start a traced call takes longer than these copies between CPU devices: 0.2 ms.
        copy = copy_each if plan.simulated else crossing()
        arrived = iter(copy(sent) if sent else ())
    moved = [leaf if leaf.dtype == tf.string else next(arrived) for leaf in leaves]
    return tf.nest.pack_sequence_as(batch, moved)


def copy_each(tensors: list[Any]) -> list[Any]:
    """Real copies where `tf.identity` only aliases the buffer: between logical CPU devices."""
    return [tf.raw_ops.DeepCopy(x=tensor) for tensor in tensors]


@lru_cache(maxsize=1)
def crossing() -> Any:
    """The `tf.function` that copies tensors to the device it is called under.

    Call by call, each tensor would wait for the step that was queued before it. It is traced once
    for each set of shapes, and for any shape at all where they never repeat.
    """

    def copy_all(tensors: list[Any]) -> list[Any]:
        return [tf.identity(tensor) for tensor in tensors]

    return tf.function(copy_all, reduce_retracing=True, autograph=False)


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
