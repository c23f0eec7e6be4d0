"""The engine: devices, batches and time. It knows nothing of speech."""

from __future__ import annotations

from myxtts import load_when_used

_HOMES = {
    "DevicePlan": "devices",
    "Mode": "devices",
    "configure_devices": "devices",
    "configured_plan": "devices",
    "PipelineStats": "telemetry",
    "ProducerConsumerPipeline": "engine",
}
__all__ = list(_HOMES)

THREAD_PREFIX = "pipeline-"  # of the names of all its threads

__getattr__ = load_when_used(__name__, _HOMES)
