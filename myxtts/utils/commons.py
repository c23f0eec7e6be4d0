"""Published device helper."""

from __future__ import annotations

from typing import Any


def get_device_context(device: str | None = None) -> Any:
    """A `tf.device` scope: the named device, else the first GPU, else the CPU."""
    import tensorflow as tf

    if device is None:
        device = "/GPU:0" if tf.config.list_logical_devices("GPU") else "/CPU:0"
    return tf.device(device)
