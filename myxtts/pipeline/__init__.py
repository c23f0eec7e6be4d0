"""The engine: devices, batches and time. It knows nothing of speech."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "DevicePlan": "devices",
    "Mode": "devices",
    "configure_devices": "devices",
    "configured_plan": "devices",
    "PipelineStats": "telemetry",
    "ProducerConsumerPipeline": "engine",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a name's module on first use: the engine imports TensorFlow, the rest does not."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
