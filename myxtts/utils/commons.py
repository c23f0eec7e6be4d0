"""Published helpers: where tensors are, and where the log goes."""

from __future__ import annotations

import logging
from typing import Any

from myxtts.messages import harmless

log = logging.getLogger(__name__)

_said: set[str] = set()  # what is worth saying once


def get_device_context(device: str | None = None) -> Any:
    """A `tf.device` scope: the named device, else the first GPU, else the CPU."""
    import tensorflow as tf

    if device is None:
        device = "/GPU:0" if tf.config.list_logical_devices("GPU") else "/CPU:0"
    return tf.device(device)


def ensure_gpu_placement(tensor_or_nest: Any) -> Any:
    """The same tensors on the first GPU; without one they stay where they are, which is said once.

    Text stays on the host: no GPU holds it.
    """
    import tensorflow as tf

    if not tf.config.list_logical_devices("GPU"):
        _say_once("There is no GPU here: tensors stay on the CPU")
        return tensor_or_nest
    from myxtts.pipeline.transfer import put_on_device

    return put_on_device(tensor_or_nest, "/GPU:0")[0]


def setup_logging(level: int | str = logging.INFO) -> logging.Logger:
    """Show on standard error what MyXTTS logs, as its commands do; returns its logger."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter())
    logger = logging.getLogger("myxtts")
    logger.handlers = [handler]
    logger.setLevel(level)
    logger.propagate = False
    return logger


def warn_if_unheard() -> None:
    """Say once that nobody listens to the log, where the caller has set up none.

    Whose process it is decides what is printed in it; a warning is shown in any case.
    """
    if not log.hasHandlers():
        _say_once(
            "What MyXTTS does is logged, and this program shows no log; to see it: "
            "from myxtts.utils.commons import setup_logging; setup_logging()"
        )


class _Formatter(logging.Formatter):
    """Lines as people grep for them: whole, never wrapped, and only what is amiss has a label."""

    def format(self, record: logging.LogRecord) -> str:
        message = harmless(super().format(record), lines=True)
        plain = record.levelno == logging.INFO
        return message if plain else f"{record.levelname}: {message}"


def _say_once(message: str) -> None:
    if message not in _said:
        _said.add(message)
        log.warning("%s", message)
