"""Puts batches on devices; holds the one crossing from the data device to the model device."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import tensorflow as tf

from myxtts.pipeline.devices import DevicePlan


def put_on_device(batch: Any, device: str) -> tuple[Any, list[Any]]:
    """The batch as tensors on this device, and a flat list of them. Text stays on the host."""
    tensors = []
    with tf.device(device):
        for leaf in tf.nest.flatten(batch):
            if _is_text(leaf):
                with tf.device("/CPU:0"):  # no GPU holds text
                    tensors.append(tf.convert_to_tensor(leaf))
                continue
            tensor = tf.convert_to_tensor(leaf)  # a tensor stays where it is, an array is placed
            tensors.append(tensor if is_on(tensor, device) else tf.identity(tensor))
    return tf.nest.pack_sequence_as(batch, tensors), tensors


def copy_to_model_device(batch: Any, plan: DevicePlan) -> Any:
    """Copy a batch to the model device in one call; returns when it has arrived.

    Text stays on the host. A GPU's copies are done when the call returns: TensorFlow tells a
    traced call of a copy's end by an event behind it. So nothing is queued behind a training step
    only to wait for it.
    """
    leaves = tf.nest.flatten(batch)
    sent = [leaf for leaf in leaves if leaf.dtype != tf.string]
    with tf.device(plan.model_device):
        arrived = iter(crossing(simulated=plan.simulated)(sent) if sent else ())
    moved = [leaf if leaf.dtype == tf.string else next(arrived) for leaf in leaves]
    return tf.nest.pack_sequence_as(batch, moved)


@lru_cache(maxsize=2)
def crossing(*, simulated: bool) -> Any:
    """The `tf.function` that copies tensors to the device it is called under.

    Call by call, each tensor would wait for the step that was queued before it. It is traced once
    for each set of shapes, and for any shape at all where they never repeat.
    """
    # Between logical CPU devices tf.identity only aliases the buffer; DeepCopy really copies.
    copy = (lambda t: tf.raw_ops.DeepCopy(x=t)) if simulated else tf.identity
    return tf.function(
        lambda tensors: [copy(tensor) for tensor in tensors], reduce_retracing=True, autograph=False
    )


def is_on(tensor: Any, device: str) -> bool:
    """Whether a tensor or variable lives on this device."""
    return bool(tensor.device.endswith(device.replace("/", "/device:")))


def wait_for_gpu(tensors: list[Any], device: str) -> None:
    """Return when a GPU has really made these tensors: a call only queues its kernels.

    A GPU works its queue off in order, so fetching one element computed last waits for all before.
    CPU devices have finished when the call returns.
    """
    if device.startswith("/GPU") and tensors:
        # Integers may live in host memory even when TensorFlow says GPU.
        floats = [tensor for tensor in tensors if tensor.dtype.is_floating] or tensors
        tf.reshape(floats[-1], [-1])[:1].numpy()


def _is_text(leaf: Any) -> bool:
    if isinstance(leaf, (str, bytes)):
        return True
    dtype = getattr(leaf, "dtype", None)
    return dtype == tf.string or getattr(dtype, "kind", "") in ("U", "S", "O")
