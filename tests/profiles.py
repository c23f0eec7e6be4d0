"""Profiles made up from stage times, for tests of what is concluded from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.pipeline.memory import ALLOCATOR, RSS
from myxtts.pipeline.telemetry import BUSY, STAGES, StageStats, StepStats
from myxtts.profiling.measurements import (
    DeviceUse,
    Link,
    Profile,
    Sample,
    Span,
    StageTimes,
    Together,
)
from myxtts.profiling.simulator import simulate
from myxtts.profiling.what_if import layout_of, pipeline_model

STEPS = 50


def make_profile(
    *,
    seconds: dict[str, float | tuple[float, ...]] | None = None,
    cpu: dict[str, float] | None = None,
    data: dict[str, Any] | None = None,
    on_cpu: bool = False,
    link: str = "peer-to-peer",
    retraces: int = 0,
    memory: dict[str, float] | None = None,
    limit_mb: float | None = 8192,
    card_mb: float | None = 24_576,
    rate: float | None = None,
) -> Profile:
    """A profile of two GPUs whose stages take these seconds; together they do as simulated."""
    times = {"read": 0.01, "process": 0.03, "transfer": 0.002, "train": 0.06, **(seconds or {})}
    alone = {
        name: StageTimes(s if isinstance(s, tuple) else (s,), (cpu or {}).get(name, 0.0))
        for name, s in times.items()
    }
    devices = tuple(
        DeviceUse(
            role=role,
            name=name,
            description="made up",
            busy_share=0.5,
            memory_mb=(memory or {}).get(role, 1000.0),
            limit_mb=limit_mb,
            card_mb=card_mb,
            memory_source=RSS if on_cpu else ALLOCATOR,
        )
        for role, name in (("data", "/GPU:0"), ("model", "/GPU:1"))
    )
    nothing = Together(1.0, {}, (), (), (), retraces)
    profile = Profile(
        config=XTTSConfig(data={"data_gpu": 0, "model_gpu": 1, **(data or {})}),
        simulated=on_cpu,
        cores=2,
        machine="made up",
        data_name="made up",
        alone=alone,
        together=nothing,
        devices=devices,
        link=Link(link, 5.0, 5000.0),
        on_cpu=on_cpu,
        clips_mb=100.0,
        host_free_mb=8000.0,
    )
    return replace(profile, together=_together(profile, rate, retraces))


def _together(profile: Profile, rate: float | None, retraces: int) -> Together:
    seen = simulate(pipeline_model(profile, profile.config, layout=layout_of(profile)), steps=100)
    step_s = 1.0 / (rate or seen.rate)
    wall_s = STEPS * step_s
    return Together(
        wall_s=wall_s,
        stages={
            name: StageStats(
                STEPS, seen.busy_share[name] * wall_s, (1 - seen.busy_share[name]) * wall_s, 0.0
            )
            for name in STAGES
        },
        step_seconds=(step_s,) * STEPS,
        buckets=(StepStats("16x224x80", STEPS, step_s, seen.variation, 0.5),),
        ring_occupancy=(10, 10, 10, 20),
        retraces=retraces,
        spans=(Span("train", BUSY, 0, 0.0, step_s),),
        samples=(Sample(0.0, 100.0, 200.0, 2),),
    )
