"""Runs as their files tell them, for tests that look on: no training is needed to watch one."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from myxtts.pipeline.telemetry import BUSY, STAGES, WAITING_INPUT, WAITING_ROOM

BEGAN = 1_700_000_000.0
EVEN = {"read": 0.1, "process": 0.8, "transfer": 0.05, "train": 0.98}  # busy shares
PLAN = {
    "mode": "Multi-GPU Mode",
    "data_device": "/CPU:0",
    "model_device": "/CPU:1",
    "data_gpu": 0,
    "model_gpu": 1,
    "data_limit_mb": 8192,
    "model_limit_mb": 16384,
    "simulated": True,
}


def event(
    kind: str, step: int | None = None, /, *, at: float = 0.0, **values: Any
) -> dict[str, Any]:
    return {"time": BEGAN + at, "kind": kind, "step": step, "values": values}


def started(
    kind: str = "started", step: int = 0, *, at: float = 0.0, **news: Any
) -> dict[str, Any]:
    data = {"cache": None, "num_workers": 16, "prefetch_buffer_size": 4, "static_shapes": "buckets"}
    config = {"data": data, "training": {"max_steps": 100}}
    about = {"run": "my voice", "pid": os.getpid(), "host": socket.gethostname()}
    return event(kind, step, at=at, **{**about, "config": config, "devices": PLAN, **news})


def pipeline(
    step: int, *, seconds: float, busy: dict[str, float] = EVEN, variation: float = 0.1, **more: Any
) -> dict[str, Any]:
    """What the pipeline tells after this many seconds in which its stages were so busy."""
    stages = {}
    for name, share in busy.items():
        waits = "waiting_input_s" if name == "train" else "waiting_room_s"
        stages[name] = {"batches": step, "busy_s": share * seconds, "waiting_input_s": 0.0}
        stages[name] |= {"waiting_room_s": 0.0}
        stages[name][waits] = (1 - share) * seconds
    shape = {"shape": "4 4x80", "steps": step, "mean_s": seconds / step, "variation": variation}
    memory = {
        role: {"used_mb": 1000.0 + step, "limit_mb": limit, "source": "process RSS"}
        for role, limit in (("data", 8192), ("model", 16384))
    }
    values = {
        "batches": step,
        "wall_s": seconds,
        "stages": stages,
        "steps": [{**shape, "waiting_share_of_variance": 0.0}],
        "ring_occupancy": [0, 0, step, 0],
        "total_steps": 100,
        "steps_per_second": step / seconds,
        "memory": memory,
    }
    return event("pipeline", step, at=seconds, **{**values, **more})


def metrics(step: int, loss: float, *, at: float = 0.0) -> dict[str, Any]:
    return event("metrics", step, at=at, loss=loss, clips_per_second=32.0)


def half_a_run(busy: dict[str, float] = EVEN) -> list[dict[str, Any]]:
    """Fifty of a hundred steps, half a second each."""
    told = [started()]
    for step in (1, 10, 20, 30, 40, 50):
        told.append(metrics(step, 10 / step, at=step / 2))
        told.append(pipeline(step, seconds=step / 2, busy=busy))
    return told


def write_events(folder: Path, events: list[dict[str, Any]]) -> Path:
    """Add events to a run's file."""
    folder.mkdir(exist_ok=True)
    with (folder / "events.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(told) + "\n" for told in events)
    return folder


def write_trace(folder: Path, *, steps: int = 40, step_s: float = 0.5, busy: float = 0.8) -> None:
    """A timeline in which every stage works on a batch each, some of the time."""
    spans = []
    for number in range(steps):
        for i, stage in enumerate(STAGES):
            share = 1.0 if stage == "train" else busy
            batch, start = number + len(STAGES) - 1 - i, number * step_s
            waiting = WAITING_INPUT if stage == "train" else WAITING_ROOM
            for state, begin, length in (
                (BUSY, start, share * step_s),
                (waiting, start + share * step_s, (1 - share) * step_s),
            ):
                span = {"ph": "X", "name": stage, "cat": state, "pid": 1, "tid": i}
                span |= {"ts": begin * 1e6, "dur": length * 1e6, "args": {"batch": batch}}
                spans.append(span)
    (folder / "trace.json").write_text(json.dumps({"traceEvents": spans}))
