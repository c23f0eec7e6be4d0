"""The training loop and its trainers."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "MemoryIsolatedDualGPUTrainer": "memory_isolated_trainer",
    "XTTSTrainer": "trainer",
    "make_trainer": "memory_isolated_trainer",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a trainer when it is first used: it imports TensorFlow."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
