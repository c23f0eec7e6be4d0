"""Puts a run together from its events, as they come."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from myxtts.messages import Message
from myxtts.pipeline.telemetry import PROCESS, STAGES, TRAIN, StageStats, StepStats
from myxtts.runs.diagnosis import FEWEST_BATCHES, Diagnosis, Measurements, diagnose
from myxtts.runs.pace import ALONE, read_pace
from myxtts.runs.remedies import DeviceMemory, Settings
from myxtts.runs.view import SHARED_MEMORY, DeviceView, Point, RoleName, RunView, Status

MAX_POINTS = 2000  # of a curve; of a longer run every other is dropped, again and again

_STAGE_OF: dict[RoleName, str] = {"data": PROCESS, "model": TRAIN}

T = TypeVar("T")


class RunHistory:
    """Takes a run's events in their order, and tells how it is and how it came there."""

    def __init__(self) -> None:
        self._start_anew()

    def _start_anew(self) -> None:
        self.news: dict[str, Any] = {}  # of `started` or `resumed`
        self.points: list[Point] = []
        self.losses: list[tuple[int, float]] = []  # step and loss
        self.validation: list[tuple[int, float]] = []
        self.totals: dict[str, StageStats] = {}  # since the process started
        self.ring_counts: list[int] = []
        self.buckets: tuple[StepStats, ...] = ()  # step times of each batch shape
        self.pace = ALONE
        self.first_time = self.last_time = self.began = 0.0
        self._first: dict[str, StageStats] = {}  # up to the first word of them: it compiled
        self._window: dict[str, StageStats] = {}
        self._ring_window: list[int] = []
        self._latest: dict[str, Any] = {}  # the last `pipeline` event's values
        self._metrics: dict[str, float] = {}
        self._memory: dict[str, dict[str, Any]] = {}
        self._step = 0
        self._fresh = True  # its process has not told of its pipeline yet
        self._killed = False
        self._end: str | None = None  # its error; None before the end

    # -- listening --

    def add(self, event: Mapping[str, Any]) -> None:
        """Take one event; unknown ones are left alone, those of older versions understood."""
        kind, at = event.get("kind"), float(event.get("time") or 0.0)
        step, values = event.get("step"), event.get("values") or {}
        if kind == "started":
            self._start_anew()
        self.first_time = self.first_time or at
        self.last_time = max(self.last_time, at)
        if kind in ("started", "resumed"):
            self._begin(at, int(step or 0), values)
        elif kind == "ended":
            self._end = str(values.get("error", ""))
        elif kind == "memory":
            self._take_memory({k.removesuffix("_gpu"): v for k, v in values.items()})
        elif step is not None:
            self._step = max(self._step, int(step))
            if kind == "metrics":
                self._take_metrics(int(step), values)
            elif kind == "pipeline":
                self._take_pipeline(at, int(step), values)
            elif kind == "replicas":
                self.pace = read_pace(values) or self.pace

    def note_death(self) -> None:
        """Its process is gone, and wrote no end."""
        self._killed = True

    def _begin(self, at: float, step: int, values: dict[str, Any]) -> None:
        self.news, self.began, self._step = values, at, step
        self._end, self._killed, self._fresh = None, False, True
        self.pace = ALONE
        self._window = {}
        # A resume from an earlier step undoes what came after it.
        self.points = [point for point in self.points if point.step <= step]
        self.losses = [pair for pair in self.losses if pair[0] <= step]
        self.validation = [pair for pair in self.validation if pair[0] <= step]

    def _take_metrics(self, step: int, values: dict[str, float]) -> None:
        if "loss" in values:
            self._metrics = values
            _append(self.losses, (step, values["loss"]))
        if "validation/loss" in values:
            _append(self.validation, (step, values["validation/loss"]))

    def _take_memory(self, memory: Mapping[str, Any]) -> None:
        for role in _STAGE_OF:
            if isinstance(memory.get(role), dict):
                self._memory[role] = memory[role]

    def _take_pipeline(self, at: float, step: int, values: dict[str, Any]) -> None:
        stages = {
            name: StageStats(**stage)
            for name, stage in values.get("stages", {}).items()
            if name in STAGES
        }
        if not stages:
            return
        counts = [int(count) for count in values.get("ring_occupancy", ())]
        buckets = tuple(StepStats(**bucket) for bucket in values.get("steps", ()))
        continues = not self._fresh and self.totals[TRAIN].batches <= stages[TRAIN].batches
        before = self.totals if continues else {}
        if not continues:
            self._first = stages
        self._fresh = False
        self._window = {
            name: stage.minus(before[name]) if name in before else stage
            for name, stage in stages.items()
        }
        old_counts = self.ring_counts if continues else []
        older = [
            *old_counts,
            *[0] * len(counts),
        ]  # a ring of another size is odd, but no reason to end
        ring = [max(0, now - before) for now, before in zip(counts, older, strict=False)]
        self._ring_window = ring
        self._take_memory(values.get("memory", {}))
        point = Point(
            time=at,
            step=step,
            # Most of a process's first window is compiling: no point of a curve.
            busy={n: s.busy_share for n, s in self._window.items()} if continues else {},
            step_s=_mean_between(self.buckets if continues else (), buckets),
            ring=_mean_index(ring),
            used_mb={role: m["used_mb"] for role, m in self._memory.items()},
        )
        _append(self.points, point)
        self.totals, self.ring_counts, self.buckets = stages, counts, buckets
        self._latest = values

    # -- telling --

    @property
    def config(self) -> dict[str, Any]:
        """The run's settings, as they were at its last start."""
        return self.news.get("config") or {}

    @property
    def settled(self) -> dict[str, StageStats]:
        """The totals without the first steps, which compile; with them while there are no more."""
        since = {
            name: stage.minus(self._first[name])
            for name, stage in self.totals.items()
            if name in self._first
        }
        enough = TRAIN in since and since[TRAIN].batches >= FEWEST_BATCHES
        return since if enough else self.totals

    def view(self, now: float | None = None) -> RunView:
        """The run as it is now, or was at its end."""
        status = self._status()
        at = self.last_time if status != "running" else (time.time() if now is None else now)
        total = self._total_steps(status)
        rate = self._latest.get("steps_per_second") or self._metrics.get("steps_per_second")
        left = None
        if status == "running" and total is not None and rate:
            left = max(0.0, (total - self._step) / rate - max(0.0, at - self.last_time))
        recent, ring = self._window, self._ring_window
        if recent and recent[TRAIN].batches < FEWEST_BATCHES:  # slow steps: too few to judge by
            recent, ring = self.settled, self.ring_counts
        devices = self._devices(recent)
        verdict = self._diagnose(recent, ring, devices)
        point = self.points[-1] if self.points and not self._fresh else None
        return RunView(
            name=str(self.news.get("run") or ""),
            mode=self._mode(),
            simulated=self._simulated(),
            status=status,
            error=self._end or "",
            step=self._step,
            total_steps=total,
            seconds_left=0.0 if status == "finished" else left,
            elapsed_s=at - self.began if self.began else None,
            loss=self._metrics.get("loss"),
            steps_per_second=rate,
            clips_per_second=self._metrics.get("clips_per_second"),
            devices=devices,
            stages=recent,
            ring=None if point is None else point.ring,
            ring_size=max(0, len(self.ring_counts) - 1),
            step_s=None if point is None else point.step_s,
            variation=verdict.variation,
            verdict=verdict,
            pace=self.pace,
        )

    def verdict(self) -> Diagnosis:
        """The verdict on the whole run since its last start."""
        return self._diagnose(self.settled, self.ring_counts, self.devices())

    def devices(self) -> tuple[DeviceView, ...]:
        """Both roles, with their share of work since the last start."""
        return self._devices(self.settled)

    def busy_curves(self) -> dict[str, list[tuple[float, float]]]:
        """Of each role: step, and share of its time that it worked."""
        return {
            role: [(p.step, p.busy[stage]) for p in self.points if stage in p.busy]
            for role, stage in _STAGE_OF.items()
        }

    def memory_curves(self) -> dict[str, list[tuple[float, float]]]:
        """Of each role: step, and MB."""
        return {
            role: [(p.step, p.used_mb[role]) for p in self.points if role in p.used_mb]
            for role in _STAGE_OF
        }

    def _diagnose(
        self,
        stages: Mapping[str, StageStats],
        ring: Sequence[int],
        devices: tuple[DeviceView, ...],
    ) -> Diagnosis:
        plan = self._plan()
        same = plan.get("data_gpu") == plan.get("model_gpu")
        return diagnose(
            Measurements(
                stages=stages,
                ring=ring,
                steps=self.buckets,
                memory=tuple(
                    DeviceMemory(device.role, device.label, device.used_mb, device.limit_mb)
                    for device in devices
                    if device.used_mb and device.limit_mb and device.memory_source != SHARED_MEMORY
                ),
                settings=Settings.of(self.config),
                shared_device=same or self._simulated(),
            )
        )

    def _status(self) -> Status:
        if self._end is None:
            return "killed" if self._killed else "running"
        if self._end:
            return "failed"
        total = self._latest.get("total_steps")
        return "ended early" if total and self._step < total else "finished"

    def _total_steps(self, status: Status) -> int | None:
        if self._latest.get("total_steps"):
            return int(self._latest["total_steps"])
        planned = (self.config.get("training") or {}).get("max_steps")
        return self._step if status == "finished" else planned

    def _simulated(self) -> bool:
        return bool(self._plan().get("simulated"))

    def _mode(self) -> str:
        mode = str(self._plan().get("mode", ""))
        return f"{mode}, memory-isolated" if self._plan().get("data_limit_mb") else mode

    def _plan(self) -> dict[str, Any]:
        """The device plan; runs of earlier versions tell it only by their settings."""
        if "devices" in self.news:
            return dict(self.news["devices"])
        data = self.config.get("data") or {}
        two = data.get("data_gpu") is not None or bool(data.get("simulate"))
        return {
            "mode": "Multi-GPU Mode" if two else "Single-GPU Buffered Mode",
            "simulated": bool(data.get("simulate")),
            "data_gpu": (data.get("data_gpu") or 0) if two else None,
            "model_gpu": (data.get("model_gpu") or 1) if two else None,
            "data_limit_mb": data.get("enable_memory_isolation"),
        }

    def _devices(self, stages: Mapping[str, StageStats]) -> tuple[DeviceView, ...]:
        plan = self._plan()
        two = str(plan.get("mode", "")).startswith("Multi")
        found = []
        for role, stage in _STAGE_OF.items():
            memory = self._memory.get(role, {})
            gpu = plan.get(f"{role}_gpu")
            if two:
                label = Message("Data GPU {}" if role == "data" else "Model GPU {}", (str(gpu),))
            else:
                device = str(plan.get(f"{role}_device") or "CPU").strip("/")
                words = "Data side, {}" if role == "data" else "Model, {}"
                label = Message(words, (device,))
            found.append(
                DeviceView(
                    role=role,
                    label=label,
                    busy=stages[stage].busy_share if stage in stages else None,
                    used_mb=memory.get("used_mb"),
                    limit_mb=memory.get("limit_mb"),
                    memory_source=str(memory.get("source", "")),
                )
            )
        return tuple(found)


def _append(points: list[T], point: T) -> None:
    points.append(point)
    if len(points) > MAX_POINTS:
        del points[1::2]


def _mean_index(counts: list[int]) -> float | None:
    whole = sum(counts)
    return sum(i * n for i, n in enumerate(counts)) / whole if whole > 0 else None


def _mean_between(before: Sequence[StepStats], now: Sequence[StepStats]) -> float | None:
    """Mean step time of the steps that came after an earlier look at the same buckets."""
    (old_steps, old_seconds), (steps, seconds) = map(_summed, (before, now))
    if steps > old_steps and seconds > old_seconds:
        return (seconds - old_seconds) / (steps - old_steps)
    return seconds / steps if steps else None


def _summed(buckets: Sequence[StepStats]) -> tuple[int, float]:
    steps = sum(bucket.steps for bucket in buckets)
    return steps, sum(bucket.steps * bucket.mean_s for bucket in buckets)
