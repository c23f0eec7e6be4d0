"""Puts batches on devices; holds the one crossing from the data device to the model device."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.pipeline.devices import DevicePlan

_LEAVES = (np.ndarray, tf.Tensor)


def put_on_device(batch: Any, device: str) -> tuple[Any, list[Any]]:
    """The batch as tensors on this device, and a flat list of them. Text stays on the host."""
    leaves = tf.nest.flatten(batch)
    tensors = [_put(leaf, device) for leaf in leaves]
    if all(map(operator.is_, tensors, leaves)):  # as a stage has just made it
        return batch, leaves
    return _pack_like(batch, tensors), tensors


def _put(leaf: Any, device: str) -> Any:
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc":
        # A tensor may share an array's memory, and the array is its owner's to write again.
        return _place(leaf.copy(), device)
    if isinstance(leaf, tf.Tensor) and (is_on(leaf, device) or leaf.dtype is tf.string):
        return leaf
    with tf.device("/CPU:0" if _is_text(leaf) else device):  # no GPU holds text
        tensor = tf.convert_to_tensor(leaf)  # a tensor stays where it is, a number is placed
        return tensor if is_on(tensor, device) or _is_text(leaf) else tf.identity(tensor)


def copy_to_model_device(batch: Any, plan: DevicePlan) -> Any:
    """Copy a batch to the model device in one call; returns when it has arrived.

    Text stays on the host. A GPU's copies are done when the call returns: TensorFlow tells a
    traced call of a copy's end by an event behind it. So nothing is queued behind a training step
    only to wait for it.
    """
    leaves = tf.nest.flatten(batch)
    places = [place for place, leaf in enumerate(leaves) if leaf.dtype is not tf.string]
    if places:
        sent = [leaves[place] for place in places]
        if plan.simulated:  # to start a traced call takes longer than these copies: 0.2 ms
            arrived = copy_each(sent, plan.model_device)
        else:
            with tf.device(plan.model_device):
                arrived = crossing()(sent)
        for place, tensor in zip(places, arrived, strict=True):
            leaves[place] = tensor
    return _pack_like(batch, leaves)


def _pack_like(batch: Any, leaves: list[Any]) -> Any:
    """As `tf.nest` does it, and quicker for what nearly every batch is: a flat dictionary."""
    if type(batch) is dict and all(isinstance(value, _LEAVES) for value in batch.values()):
        named = dict(zip(sorted(batch), leaves, strict=True))  # `tf.nest` flattens in this order
        return {name: named[name] for name in batch}
    return tf.nest.pack_sequence_as(batch, leaves)


def copy_each(tensors: list[Any], device: str) -> list[Any]:
    """Real copies where `tf.identity` only aliases the buffer: between logical CPU devices."""
    home = _home(device)
    # `numpy` copies. To place an array straight on another device takes TensorFlow three times
    # as long as to place it on the first and name the other.
    return [_place(tensor.numpy(), "/CPU:0")._copy_to_device(home) for tensor in tensors]


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


def _place(array: Any, device: str) -> Any:
    """What `tf.convert_to_tensor` does with an array at the end of a way ten times as long."""
    return tf.__internal__.EagerTensor(array, _home(device), None)


@lru_cache(maxsize=64)
def _home(device: str) -> Any:
    """A device as a tensor names it; the first one asked for starts TensorFlow's devices."""
    with tf.device(device):
        return tf.zeros([]).device


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
    if isinstance(leaf, np.ndarray):  # comparing its type with TensorFlow's is slow
        return leaf.dtype.kind in "USO"
    return isinstance(leaf, (str, bytes)) or getattr(leaf, "dtype", None) == tf.string
