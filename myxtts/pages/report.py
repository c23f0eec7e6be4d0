"""Writes a run or a profile as one HTML file that opens anywhere, offline, and prints well."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from markupsafe import Markup

from myxtts.pages.charts import (
    ROLE_COLOR,
    STAGE_COLOR,
    Line,
    columns,
    histogram,
    legend,
    line_chart,
    share_bar,
    timeline,
)
from myxtts.pages.page import Language, Page, harmless
from myxtts.pages.render import render, write_page
from myxtts.pages.report_content import (
    ReportContent,
    content_of,
    overlap_with_training,
    window,
)
from myxtts.pages.run_page import ROLE_NAME, busy_chart, loss_chart, run_page, share_memory
from myxtts.pages.voice import embedded, voice_section
from myxtts.pipeline.telemetry import TRAIN, StageStats
from myxtts.profiling.measurements import Profile
from myxtts.runs.diagnosis import largest_shape
from myxtts.runs.remedies import WORDS

log = logging.getLogger(__name__)

REPORT_FILE = "report.html"
MAX_BUCKETS = 8
BINS = 28

Rows = list[tuple[str, ...]]


def write_report(path: Path, source: Path | Profile, *, lang: Language = "en") -> None:
    """Write the report of a run's folder or of a profile, whole or not at all."""
    write_page(path, report_page(content_of(source), lang=lang))


@contextlib.contextmanager
def report_at_the_end(run: Path) -> Iterator[None]:
    """However the run ends, leave a page that shows how it went; no failure of it is the run's."""
    try:
        yield
    finally:
        try:
            write_report(run / REPORT_FILE, run)
        except Exception as error:
            log.debug("The report failed", exc_info=True)
            log.warning("The run's report could not be written: %s", error)


def report_page(content: ReportContent, *, lang: Language) -> str:
    """The page in one language."""
    page = run_page(lang)
    spans = window(content.spans)
    overlapped = page.say("What overlapped with what")
    ring = page.say("Ring of ready batches")
    times, spread = _step_times(page, content)
    return render(
        page,
        "report.html",
        title=page.say("Report of {}", content.title),
        content=content,
        why=_why(page, content),
        changes=_changes(page, content),
        layouts=[
            (page.say(layout.name), page.number(layout.rate, 2), page.say(layout.basis))
            for layout in content.layouts
        ],
        timeline=timeline(page, spans, title=overlapped) if spans else "",
        overlap=_overlap(page, content),
        stages=_stages(page, content) if TRAIN in content.stages else [],
        stage_legend=_stage_legend(page),
        step=_step(page, content.stages.get(TRAIN)),
        alone=_alone(page, content),
        shared=share_memory(content.devices),
        busy=busy_chart(page, content.busy, x_label=content.x_label),
        memory=_memory(page, content),
        step_times=times,
        spread=spread,
        buckets=_buckets(page, content) if times else [],
        ring=columns(page, content.ring_counts, title=ring, x_label=page.say("batches ready"))
        if sum(content.ring_counts)
        else "",
        loss=loss_chart(page, content.loss, content.validation),
        voice="" if content.run is None else voice_section(page, content.run, embedded),
    )


def _why(page: Page, content: ReportContent) -> Markup:
    """What the command is for, or what it brings."""
    if content.measured_after is not None and content.predicted_rate is not None:
        return page.say(
            "Predicted with it: {} steps a second; measured: {}.",
            page.number(content.predicted_rate, 2),
            page.number(content.measured_after, 2),
        )
    if content.layouts and not content.changes:
        return page.say("No setting would make it noticeably faster. It was measured with:")
    if content.predicted_rate is not None:
        words = "Predicted with it: {} steps a second."
        return page.say(words, page.number(content.predicted_rate, 2))
    if content.verdict.flags:
        return page.say("This goes on with the run, changed as advised:")
    if content.verdict.good:
        return page.say("Nothing needs to change. A profile measures each stage alone:")
    return page.say("A profile says what would help:")


def _changes(page: Page, content: ReportContent) -> Rows:
    rows: Rows = []
    for change in content.changes:
        gain = "" if change.gain is None else page.digits(f"×{change.gain:.2f}")
        reason = page.tell(WORDS[change.kind]) if page.rtl else change.reason
        rows.append((Markup("<code>{}</code>").format(harmless(change.flag)), gain, reason))
    return rows


def _overlap(page: Page, content: ReportContent) -> Markup:
    lead = page.say("The last steps; a number is that of the batch.")
    said = [
        page.say("{} {} of it", stage, page.percent(share))
        for stage, share in overlap_with_training(content.spans).items()
    ]
    if not said:
        return lead
    worked = page.say("While the model trained, these worked too:")
    return Markup("{} {} {}.").format(lead, worked, page.say(", ").join(said))


def _stage_legend(page: Page) -> Markup:
    said = {"works": "", "waiting for input": "waiting", "waiting for room": "no-room"}
    return legend(("var(--bar)", css, page.say(words)) for words, css in said.items())


def _step(page: Page, train: StageStats | None) -> Markup:
    if train is None:
        return Markup()
    each = (train.busy_s + train.waiting_input_s, train.busy_s, train.waiting_input_s)
    batches = max(1, train.batches)
    return page.say(
        "Of a step's {} ms the model works {} and waits for a batch {}.",
        *(page.number(1000 * seconds / batches) for seconds in each),
    )


def _stages(page: Page, content: ReportContent) -> Rows:
    rows: Rows = []
    for name, stage in content.stages.items():
        times = (stage.busy_s, stage.waiting_input_s, stage.waiting_room_s)
        whole = sum(times) or 1.0
        parts = [
            (seconds / whole, STAGE_COLOR[name], css)
            for seconds, css in zip(times, ("", "waiting", "no-room"), strict=True)
        ]
        each = page.number(1000 * stage.busy_s / max(1, stage.batches))
        told = page.say("{} · {} ms", page.percent(stage.busy_share), each)
        rows.append((name, share_bar(page, parts), told))
    return rows


def _alone(page: Page, content: ReportContent) -> Rows:
    most = max(content.alone.values(), default=1.0)
    return [
        (
            name,
            share_bar(page, [(seconds / most, STAGE_COLOR.get(name, "var(--s1)"), "")]),
            page.say("{} ms", page.number(1000 * seconds, 1)),
        )
        for name, seconds in content.alone.items()
    ]


def _memory(page: Page, content: ReportContent) -> Markup:
    limits: dict[str, float | None] = {device.role: device.limit_mb for device in content.devices}
    lines = [
        Line(page.say(ROLE_NAME[role]), ROLE_COLOR[role], points, limits.get(role))
        for role, points in content.memory.items()
    ]
    if share_memory(content.devices):  # both roles show the same process: one curve says it
        points = content.memory.get("model", [])
        lines = [Line(page.say("the whole process"), ROLE_COLOR["model"], points)]
    return line_chart(page, lines, title=page.say("Memory"), x_label=page.say(content.x_label))


def _step_times(page: Page, content: ReportContent) -> tuple[Markup, Markup]:
    """How many steps took how long, and a sentence about it."""
    if len(content.step_seconds) < 2:
        return Markup(), Markup()
    taken = 1000 * np.asarray(content.step_seconds, np.float64)
    said = []
    if content.variation is not None:
        words = "{} steps, {} ms on the average, varying by {} within a shape."
        numbers = (page.number(len(taken)), page.number(taken.mean()))
        said.append(page.say(words, *numbers, page.percent(content.variation)))
    # What takes very long is counted in the last bar.
    low, high = float(taken.min()), float(min(taken.max(), np.percentile(taken, 99) * 1.25))
    if longer := int((taken > high).sum()):
        words = "The last bar holds {} steps that took longer, up to {} ms."
        said.append(page.say(words, page.number(longer), page.number(taken.max())))
    if high - low < 1e-3:
        low, high = low * 0.9, low * 1.1 + 1e-3
    counts, edges = np.histogram(taken.clip(max=high), bins=BINS, range=(low, high))
    chart = histogram(
        page,
        list(zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)),
        title=page.say("Step times"),
        x_label=page.say("step time in ms"),
        spread=(float(taken.mean()), float(taken.std())),
    )
    return chart, Markup(" ").join(said)


def _buckets(page: Page, content: ReportContent) -> Rows:
    """The step times of each batch shape, where there are several."""
    if len(content.buckets) < 2:
        return []
    return [
        (
            page.say("{}", largest_shape(bucket.shape)),
            page.number(bucket.steps),
            page.say("{} ms", page.number(1000 * bucket.mean_s)),
            page.percent(bucket.variation),
        )
        for bucket in sorted(content.buckets, key=lambda bucket: -bucket.steps)[:MAX_BUCKETS]
    ]
