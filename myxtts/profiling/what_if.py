"""Turns a profile and changed settings into a pipeline to simulate: what if it were like this?"""

from __future__ import annotations

from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.errors import ConfigError
from myxtts.pipeline.telemetry import PROCESS, READ, TRAIN, TRANSFER
from myxtts.profiling.measurements import (
    READ_CACHED,
    READ_NATIVE,
    LayoutName,
    Profile,
    StageTimes,
)
from myxtts.profiling.simulator import CPU, PipelineModel, Prediction, StageModel, simulate

READ_AHEAD = 4  # batches that wait, decoded, in front of the host buffer
HOST_BUFFER = 8  # more takes longer to fill than a profile lasts, and hides a slow disk meanwhile

# What may be asked, by its setting's name or by its flag's.
ALIASES = {
    "depth": "data.pipeline_depth",
    "pipeline_depth": "data.pipeline_depth",
    "prefetch": "data.prefetch_buffer_size",
    "prefetch_buffer_size": "data.prefetch_buffer_size",
    "num_workers": "data.num_workers",
    "workers": "data.num_workers",
    "cache": "data.cache",
    "use_tf_native_loading": "data.use_tf_native_loading",
}


def layout_of(profile: Profile) -> LayoutName:
    """How the profiled run used its devices."""
    return "single" if profile.link.kind == "same device" else "split"


def predict(profile: Profile, config: XTTSConfig, *, layout: LayoutName = "split") -> Prediction:
    """How the profiled machine would do with these settings."""
    return simulate(pipeline_model(profile, config, layout=layout))


def pipeline_model(
    profile: Profile, config: XTTSConfig, *, layout: LayoutName = "split"
) -> PipelineModel:
    """The profiled stages, between buffers of these settings."""
    data = config.data
    cached = data.cache is not None
    workers = 1 if cached else data.num_workers
    ahead = 0 if cached else workers + (READ_AHEAD if data.use_tf_native_loading else 0)
    devices = {PROCESS: "data device", TRANSFER: "", TRAIN: "model device"}
    times = {stage: profile.alone[stage] for stage in (PROCESS, TRANSFER, TRAIN)}
    if layout == "single":
        devices = {PROCESS: "device", TRANSFER: "", TRAIN: "device"}
        times[TRANSFER] = StageTimes((0.0,))  # nothing crosses
    stages = {READ: _on_cpu(read_times(profile, config))}
    for stage, measured in times.items():
        if profile.on_cpu:
            stages[stage] = _on_cpu(measured)
        else:
            stages[stage] = StageModel(measured.seconds, devices[stage])
    return PipelineModel(
        stages=stages,
        depth=data.pipeline_depth,
        prefetch_buffer_size=data.prefetch_buffer_size,
        buffer_size=min(HOST_BUFFER, data.host_buffer_size(two_devices=layout != "single")),
        num_workers=workers,
        read_ahead=ahead,
        capacity={CPU: profile.cores, **{name: 1.0 for name in devices.values() if name}},
        crowding={CPU: profile.crowding},
    )


def read_times(profile: Profile, config: XTTSConfig) -> StageTimes:
    """One worker's time for a batch, with these settings."""
    if config.data.cache is not None:
        return profile.alone.get(READ_CACHED, profile.alone[READ])
    if config.data.use_tf_native_loading and not profile.config.data.use_tf_native_loading:
        return profile.alone.get(READ_NATIVE, profile.alone[READ])
    return profile.alone[READ]


def _on_cpu(times: StageTimes) -> StageModel:
    """Work on the cores: while it takes wall time, it uses so many of them."""
    return StageModel(times.seconds, CPU, times.cpu_s / times.mean_s if times.mean_s else 0.0)


def parse_what_if(text: str) -> dict[str, Any]:
    """`depth=4,num_workers=8` as settings: {"data.pipeline_depth": 4, "data.num_workers": 8}."""
    asked: dict[str, Any] = {}
    for part in text.replace(" ", "").split(","):
        name, equals, value = part.partition("=")
        setting = ALIASES.get(name.replace("-", "_"))
        if setting is None or not equals or not value:
            raise ConfigError(
                f"--what-if does not understand {part!r}.",
                f"write name=value, with a name of: {', '.join(ALIASES)}",
            )
        asked[setting] = None if value == "none" else value
    return asked


def with_settings(config: XTTSConfig, settings: dict[str, Any]) -> XTTSConfig:
    """The same settings with these in their places: {"data.num_workers": 24}."""
    changed = config.model_copy(deep=True)
    for dotted, value in settings.items():
        section, field = dotted.split(".")
        setattr(getattr(changed, section), field, value)
    return changed
