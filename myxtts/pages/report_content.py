"""What a report shows, taken from a run's folder or from a profile; in no language yet."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.messages import Message, clock, percent, seen_from_here
from myxtts.pages.run_page import rate_cards
from myxtts.pipeline.telemetry import (
    BUSY,
    PROCESS,
    STAGES,
    TRAIN,
    WARM_UP_STEPS,
    StageStats,
    StepStats,
)
from myxtts.profiling.measurements import Change, Layout, Profile
from myxtts.runs.diagnosis import Diagnosis
from myxtts.runs.follow import RunFollower
from myxtts.runs.history import RunHistory
from myxtts.runs.pace import ALONE, Pace
from myxtts.runs.trace import TRACE_FILE, Span, read_trace
from myxtts.runs.view import DeviceView

TIMELINE_STEPS = 8
CURVE_POINTS = 20  # drawn from spans

Curve = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class ReportContent:
    """Everything on the page; what is empty is left out."""

    title: str
    about: tuple[Message, ...]  # under the title
    simulated: bool
    verdict: Diagnosis
    grade: str
    cards: tuple[tuple[str, Message], ...]
    command: str
    stages: Mapping[str, StageStats]
    devices: tuple[DeviceView, ...]
    ring_counts: Sequence[int]
    variation: float | None
    x_label: str  # of the curves: "step" or "seconds"
    busy: Mapping[str, Curve]  # by role, shares
    memory: Mapping[str, Curve]  # by role, MB
    spans: Sequence[Span] = ()
    step_seconds: Sequence[float] = ()
    buckets: tuple[StepStats, ...] = ()  # step times of each batch shape
    loss: Curve = ()
    validation: Curve = ()
    changes: tuple[Change, ...] = ()
    layouts: tuple[Layout, ...] = ()
    layout_reason: tuple[Message, ...] = ()
    predicted_rate: float | None = None  # with the changes, and what was then measured
    measured_after: float | None = None
    alone: Mapping[str, float] = field(default_factory=dict)  # seconds a batch
    trace: str = ""  # the file that Perfetto opens
    pace: Pace = ALONE  # of several replicas
    run: Path | None = None  # whose voice can be heard


def content_of(source: Path | Profile) -> ReportContent:
    """From a run's folder, or a profile."""
    if isinstance(source, Profile):
        return _of_profile(source)
    return _of_run(source, RunFollower(source).history)


def window(spans: Sequence[Span]) -> list[Span]:
    """The last few steps in which the model was not held up by a validation or a checkpoint."""
    steps = [s for s in spans if s.stage == TRAIN and s.state == BUSY]
    if not steps:
        return []
    times = sorted(s.end_s - s.start_s for s in steps)
    longest_gap = 2 * times[len(times) // 2]
    last = len(steps)
    for end in range(len(steps), TIMELINE_STEPS - 1, -1):
        some = steps[end - TIMELINE_STEPS : end]
        gaps = (b.start_s - a.end_s for a, b in itertools.pairwise(some))
        waits = sum(gap > longest_gap for gap in gaps)
        if not waits:
            last = end
            break
    began, ended = steps[max(0, last - TIMELINE_STEPS)].start_s, steps[last - 1].end_s
    return [
        Span(s.stage, s.state, s.batch, max(s.start_s, began), min(s.end_s, ended))
        for s in spans
        if s.end_s > began and s.start_s < ended
    ]


def overlap_with_training(spans: Sequence[Span]) -> dict[str, float]:
    """Of the time the model worked, the share in which each other stage worked as well."""
    work = {
        stage: sorted((s.start_s, s.end_s) for s in spans if s.stage == stage and s.state == BUSY)
        for stage in STAGES
    }
    whole = sum(end - start for start, end in work[TRAIN])
    return {
        stage: _common(work[TRAIN], work[stage]) / whole
        for stage in STAGES
        if stage != TRAIN and work[stage] and whole
    }


def _common(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> float:
    total, j = 0.0, 0
    for start, end in first:
        while j < len(second) and second[j][1] <= start:
            j += 1
        k = j
        while k < len(second) and second[k][0] < end:
            total += min(end, second[k][1]) - max(start, second[k][0])
            k += 1
    return total


def _busy_over(spans: Sequence[Span], stage: str) -> Curve:
    """How busy a stage was over time, where no driver measures its device."""
    work = sorted((s.start_s, s.end_s) for s in spans if s.stage == stage and s.state == BUSY)
    if not work:
        return []
    began = min(s.start_s for s in spans)
    width = (max(s.end_s for s in spans) - began) / CURVE_POINTS
    edges = [began + width * i for i in range(CURVE_POINTS + 1)]
    return [
        ((a + b) / 2 - began, min(1.0, _common([(a, b)], work) / width))
        for a, b in itertools.pairwise(edges)
    ]


# -- a run --


def _of_run(folder: Path, history: RunHistory) -> ReportContent:
    view, verdict, devices = history.view(), history.verdict(), history.devices()
    spans = read_trace(folder / TRACE_FILE)
    about = [Message(view.status), Message(view.mode)]
    if view.elapsed_s:
        about.append(Message("{} of training", (clock(view.elapsed_s),)))
    if view.error:
        about.append(Message("{}", (view.error,)))
    return ReportContent(
        title=view.name or folder.name,
        about=tuple(about),
        simulated=view.simulated,
        verdict=verdict,
        grade=verdict.grade or "",
        cards=_run_cards(history, verdict),
        command=_run_command(folder, verdict),
        stages=history.settled,
        devices=devices,
        ring_counts=history.ring_counts,
        variation=verdict.variation,
        x_label="step",
        busy=history.busy_curves(),
        memory=history.memory_curves(),
        spans=spans,
        step_seconds=_step_seconds(spans),
        buckets=history.buckets,
        loss=history.losses,
        validation=history.validation,
        trace=TRACE_FILE if spans else "",
        pace=history.pace,
        run=folder,
    )


def _run_cards(history: RunHistory, verdict: Diagnosis) -> tuple[tuple[str, Message], ...]:
    view = history.view()
    cards = [("steps", Message("{}", (f"{view.step:,}",))), *rate_cards(view)]
    if stages := history.settled:
        cards.append(("model busy", Message("{}", (percent(stages[TRAIN].busy_share),))))
    if verdict.variation is not None:
        cards.append(("step variation", Message("{}", (percent(verdict.variation),))))
    return tuple(cards)


def _run_command(folder: Path, verdict: Diagnosis) -> str:
    config = shlex.quote(str(seen_from_here(folder.resolve()) / "config.yaml"))
    if verdict.flags:
        return f"myxtts train --config {config} --resume {' '.join(verdict.flags)}"
    return f"myxtts profile --config {config}"


def _step_seconds(spans: Sequence[Span]) -> list[float]:
    """Waiting and work of each batch the model got, without those in which it warmed up."""
    taken: dict[int, float] = {}
    worked = set()
    for span in spans:
        if span.stage == TRAIN and span.batch >= WARM_UP_STEPS:
            taken[span.batch] = taken.get(span.batch, 0.0) + span.end_s - span.start_s
            if span.state == BUSY:
                worked.add(span.batch)
    return [taken[batch] for batch in sorted(worked)]


# -- a profile --


def _of_profile(profile: Profile) -> ReportContent:
    together, advice, diagnosis = profile.together, profile.advice, profile.diagnosis
    devices = tuple(
        DeviceView(
            role=device.role,
            label=device.label,
            busy=device.busy_share,
            used_mb=device.memory_mb,
            limit_mb=device.limit_mb or device.card_mb,
            memory_source=device.memory_source,
        )
        for device in profile.devices
    )
    variation = together.variation
    cards = [
        ("steps a second", Message("{}", (f"{together.rate:.2f}",))),
        ("at most, all stages at once", Message("{}", (f"{profile.bound:.2f}",))),
        ("measured over bound", Message("{}", (percent(profile.efficiency),))),
        ("model busy", Message("{}", (percent(together.stages[TRAIN].busy_share),))),
        ("step variation", Message("{}", (percent(variation),))),
    ]
    utilisation = {
        "data": [(s.at_s, s.data_utilisation) for s in together.samples],
        "model": [(s.at_s, s.model_utilisation) for s in together.samples],
    }
    return ReportContent(
        title=profile.data_name,
        about=(
            Message("profile of {} steps", (str(together.steps),)),
            Message("{}", (profile.machine,)),
            *(Message("{}", (note,)) for note in profile.notes),
        ),
        simulated=profile.simulated,
        verdict=diagnosis.without_settings,
        grade=diagnosis.grade or "",
        cards=tuple(cards),
        command="" if advice is None else advice.command,
        changes=() if advice is None else advice.changes,
        layouts=() if advice is None else advice.layouts,
        layout_reason=() if advice is None else advice.layout_reason,
        predicted_rate=None if advice is None else advice.predicted_rate,
        measured_after=profile.measured_after,
        stages=together.stages,
        devices=devices,
        ring_counts=together.ring_occupancy,
        variation=variation,
        x_label="seconds",
        busy={
            role: [(at, use) for at, use in points if use is not None]
            or _busy_over(together.spans, stage)
            for (role, points), stage in zip(utilisation.items(), (PROCESS, TRAIN), strict=True)
        },
        memory={
            "data": [(s.at_s, s.data_memory_mb) for s in together.samples],
            "model": [(s.at_s, s.model_memory_mb) for s in together.samples],
        },
        spans=together.spans,
        step_seconds=together.step_seconds,
        buckets=together.buckets,
        alone={name: times.mean_s for name, times in profile.alone.items()},
    )
