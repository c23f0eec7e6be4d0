"""What an event of each kind must look like for its readers; an odd one is skipped and counted."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from myxtts.pipeline.telemetry import TRAIN

Count = Annotated[int, Field(ge=0, le=10**12)]
Amount = Annotated[FiniteFloat, Field(ge=0, le=1e15)]
Number = float  # of a loss, which may well be no number


class _Shape(BaseModel):
    """More than is asked for is fine: a newer version may tell more."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Exactly(BaseModel):
    """What a reader takes as it is."""

    model_config = ConfigDict(strict=True, extra="forbid")


class _Event(_Shape):
    kind: str
    time: Amount
    step: Count | None = None
    values: dict[str, Any] = {}


class _Stage(_Exactly):
    batches: Count
    busy_s: Amount
    waiting_input_s: Amount
    waiting_room_s: Amount
    queued_s: Amount = 0.0


class _Steps(_Exactly):
    shape: str
    steps: Count
    mean_s: Amount
    variation: Amount
    waiting_share_of_variance: FiniteFloat


class _Memory(_Shape):
    used_mb: Amount
    limit_mb: Amount | None = None
    source: str = ""


class _Pipeline(_Shape):
    stages: dict[str, _Stage] = {}
    steps: list[_Steps] = []
    ring_occupancy: list[Count] = Field(default=[], max_length=10_000)
    total_steps: Count | None = None
    steps_per_second: Amount | None = None
    memory: dict[str, _Memory | None] = {}


class _Replicas(_Shape):
    steps: Count
    work_s: list[Amount] = Field(min_length=1, max_length=10_000)
    sum_s: list[Amount] = Field(min_length=1, max_length=10_000)


class _Metrics(_Shape):
    __pydantic_extra__: dict[str, Number]


class _Config(_Shape):
    data: dict[str, Any] | None = None
    training: dict[str, Any] | None = None


class _Devices(_Shape):
    mode: str = ""
    data_gpu: Count | None = None
    model_gpu: Count | None = None


class _News(_Shape):
    run: str = ""
    config: _Config | None = None
    devices: _Devices = _Devices()


_VALUES: dict[str, type[BaseModel]] = {
    "pipeline": _Pipeline,
    "metrics": _Metrics,
    "replicas": _Replicas,
    "started": _News,
    "resumed": _News,
}


def is_sound(event: Any) -> bool:
    """Whether an event's readers can take it as it is."""
    try:
        told = _Event.model_validate(event)
        if told.kind == "memory":
            for memory in told.values.values():
                _Memory.model_validate(memory)
        elif told.kind in _VALUES:
            _VALUES[told.kind].model_validate(told.values)
    except ValidationError:
        return False
    # A pipeline's stages are told together, the step's among them.
    stages = told.values.get("stages")
    return told.kind != "pipeline" or not stages or (TRAIN in stages and told.step is not None)
