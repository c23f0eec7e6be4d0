"""The training loop and its trainers."""

from __future__ import annotations

from myxtts import load_when_used

_HOMES = {
    "MemoryIsolatedDualGPUTrainer": "memory_isolated_trainer",
    "XTTSTrainer": "trainer",
    "make_trainer": "memory_isolated_trainer",
}
__all__ = list(_HOMES)

__getattr__ = load_when_used(__name__, _HOMES)
