"""Pictures of our pages: plain SVG, drawn here, so that a page needs nothing from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from myxtts.pages.page import Page
from myxtts.pipeline.telemetry import BUSY, STAGES, WAITING_INPUT
from myxtts.runs.trace import Span

WIDTH = 760
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 14, 44  # margins
STAGE_COLOR = {stage: f"var(--s{i})" for i, stage in enumerate(STAGES, start=1)}
MAX_POINTS = 400  # of a line: more than the page has columns to show
BINS = 28
MIN_NUMBER_WIDTH = 24  # of a bar that shows its batch's number

CSS = """
.scroll{overflow-x:auto}.scroll .chart{min-width:34rem}
.chart text.start{text-anchor:start}.chart text.end{text-anchor:end}
.chart text.inside{fill:var(--page);font-size:11px}
.chart text.strong{fill:var(--ink);font-weight:600}
.chart polyline{fill:none;stroke-width:2;stroke-linejoin:round;vector-effect:non-scaling-stroke}
.chart .limit{stroke-dasharray:6 4;stroke:var(--bad)}
.chart .mean{stroke:var(--ink);stroke-width:1.5}
.chart .band{fill:var(--bar);opacity:.14}
.waiting{opacity:.3}.no-room{opacity:.12}.track{fill:var(--line);opacity:.45}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.4rem;margin:.3rem 0 .5rem;color:var(--soft);
font-size:.85rem}
.legend span{display:inline-flex;align-items:center;gap:.4rem}
.legend svg{width:14px;height:10px;flex:none}
"""


@dataclass(frozen=True)
class Line:
    """One curve, with the height it must stay under where there is one."""

    name: str  # ready to be shown
    color: str
    points: Sequence[tuple[float, float]]
    limit: float | None = None


def line_chart(
    page: Page,
    lines: Sequence[Line],
    *,
    title: str,
    x_label: str,
    top: float | None = None,
    unit: str = "",
) -> str:
    """Curves from zero up, with a legend; `top` is the upper end, or what the data needs."""
    lines = [line for line in lines if line.points]
    if not lines:
        return ""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points if math.isfinite(y)]
    limits = [line.limit for line in lines if line.limit]
    low, high = min(xs), max(xs)
    ticks = _ticks(0.0, top or max([*ys, *limits, 1e-9]))
    plot = _Plot(page, height=240, x_range=(low, high if high > low else low + 1), top=ticks[-1])
    marks = [plot.grid(ticks, unit), plot.x_axis(x_label)]
    for line in lines:
        marks.append(plot.line(line))
    for line in lines:
        if line.limit:
            marks.append(plot.limit(line.limit, page.say("limit of {}", line.name)))
    legend = _legend((_swatch(line.color), line.name) for line in lines)
    return legend + plot.svg(marks, title)


def histogram(page: Page, seconds: Sequence[float], *, title: str) -> str:
    """Step times in milliseconds: how many took how long, their mean and deviation."""
    values = 1000 * np.asarray(seconds, np.float64)
    mean, deviation = float(values.mean()), float(values.std())
    low, high = float(values.min()), 1000 * longest_shown(seconds)
    if high - low < 1e-3:
        low, high = low * 0.9, low * 1.1 + 1e-3
    counts, edges = np.histogram(values.clip(max=high), bins=BINS, range=(low, high))
    ticks = _ticks(0.0, float(counts.max()), whole=True)
    plot = _Plot(page, height=240, x_range=(low, high), top=ticks[-1])
    marks = [plot.grid(ticks), plot.x_axis(page.say("step time in ms"))]
    left, right = max(low, mean - deviation), min(high, mean + deviation)
    marks.append(plot.rect(left, right, 0, ticks[-1], css="band"))
    for count, start, end in zip(counts, edges[:-1], edges[1:], strict=True):
        if count:
            marks.append(plot.rect(float(start), float(end), 0, float(count), gap=1.0))
    x = plot.x(min(mean, high))
    marks.append(f'<line class="mean" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{plot.base:.1f}"/>')
    return plot.svg(marks, title)


def longest_shown(seconds: Sequence[float]) -> float:
    """The end of the histogram: what takes still longer is counted in its last bar."""
    return float(min(np.max(seconds), np.percentile(seconds, 99) * 1.25))


def columns(page: Page, counts: Sequence[int], *, title: str, x_label: str) -> str:
    """How often each whole number came, in per cent."""
    whole = sum(counts) or 1
    plot = _Plot(page, height=200, x_range=(-0.5, len(counts) - 0.5), top=1.0)
    marks = [plot.grid([0, 0.25, 0.5, 0.75, 1.0], percent=True)]
    for number, count in enumerate(counts):
        share = count / whole
        marks.append(plot.rect(number - 0.3, number + 0.3, 0, share))
        marks.append(_text(plot.x(number), plot.base + 16, page.number(number)))
        if count:
            shown = page.percent(share) if share >= 0.01 else page.digits("<1%")
            y = plot.y(share)
            inside = y < TOP + 14
            marks.append(
                _text(
                    plot.x(number), y + 13 if inside else y - 5, shown, "inside" if inside else ""
                )
            )
    marks.append(_text((LEFT + WIDTH - RIGHT) / 2, plot.height - 6, escape(x_label)))
    return plot.svg(marks, title)


def timeline(page: Page, spans: Sequence[Span], *, title: str) -> str:
    """Each stage's row: what it worked on when, by the number of the batch."""
    rows = [stage for stage in STAGES if any(span.stage == stage for span in spans)]
    began, ended = min(s.start_s for s in spans), max(s.end_s for s in spans)
    row_height, height = 38, TOP + 38 * len(rows) + BOTTOM
    plot = _Plot(page, height=height, x_range=(0.0, 1000 * (ended - began)), top=1.0, left=78)
    marks = []
    for tick in _ticks(0.0, 1000 * (ended - began))[:-1]:
        x = plot.x(tick)
        marks.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{plot.base:.1f}"/>')
        marks.append(_text(x, plot.base + 16, page.number(tick)))
    marks.append(_text((LEFT + WIDTH) / 2, height - 6, page.say("milliseconds")))
    for index, stage in enumerate(rows):
        y = TOP + row_height * index
        marks.append(_text(70, y + 23, stage, "end strong"))
        for span in spans:
            if span.stage == stage:
                marks.append(_bar(page, plot, span, began, y + 5, row_height - 10))
    return plot.svg(marks, title)


def _bar(page: Page, plot: _Plot, span: Span, began: float, y: float, height: float) -> str:
    x, end = plot.x(1000 * (span.start_s - began)), plot.x(1000 * (span.end_s - began))
    wide = end - x
    css = "" if span.state == BUSY else "waiting" if span.state == WAITING_INPUT else "no-room"
    length = page.number(1000 * (span.end_s - span.start_s), 1)
    state = page.say(span.state)
    shape = (
        f'<rect x="{x:.1f}" y="{y}" width="{max(0.7, wide - 0.6):.1f}" height="{height}" rx="2"'
        f' class="{css}" style="fill:{STAGE_COLOR[span.stage]}"><title>{span.stage}: {state}, '
        f"{page.say('batch {}', page.number(span.batch))}, {length} ms</title></rect>"
    )
    if span.state != BUSY or wide < MIN_NUMBER_WIDTH:
        return shape
    return shape + _text(x + wide / 2, y + height / 2 + 4, page.number(span.batch), "inside")


def share_bar(page: Page, parts: Sequence[tuple[float, str, str]]) -> str:
    """A bar in parts (share, colour, class) of a track; it grows from where reading starts."""
    drawn, at = '<rect class="track" width="100%" height="14"/>', 0.0
    for share, color, css in parts:
        start = 1.0 - at - share if page.rtl else at
        drawn += (
            f'<rect x="{100 * max(0.0, start):.2f}%" width="{100 * share:.2f}%" height="14"'
            f' class="{css}" style="fill:{color}"/>'
        )
        at += share
    return f'<svg class="share" height="14" aria-hidden="true">{drawn}</svg>'


def legend(items: Iterable[tuple[str, str, str]]) -> str:
    """What colours mean: colour, class, and the name ready to be shown."""
    return _legend((_swatch(color, css), name) for color, css, name in items)


class _Plot:
    """A drawing area with a scale on each side."""

    def __init__(
        self,
        page: Page,
        *,
        height: float,
        x_range: tuple[float, float],
        top: float,
        left: float = LEFT,
    ) -> None:
        self.page, self.height, self.left = page, height, left
        self.base = height - BOTTOM
        self._low, self._high = x_range
        self._top = top

    def x(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return self.left + share * (WIDTH - RIGHT - self.left)

    def y(self, value: float) -> float:
        return self.base - value / self._top * (self.base - TOP)

    def grid(self, ticks: Sequence[float], unit: str = "", *, percent: bool = False) -> str:
        marks = ""
        decimals = _decimals(ticks)
        for tick in ticks:
            y = self.y(tick)
            shown = self.page.percent(tick) if percent else self.page.number(tick, decimals)
            marks += (
                f'<line x1="{self.left}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                + _text(self.left - 8, y + 4, shown + escape(unit), "end")
            )
        return marks

    def x_axis(self, label: str) -> str:
        ticks = [t for t in _ticks(self._low, self._high) if self._low <= t <= self._high]
        decimals = _decimals(ticks)
        marks = "".join(
            _text(self.x(t), self.base + 16, self.page.number(t, decimals)) for t in ticks
        )
        return marks + _text((self.left + WIDTH - RIGHT) / 2, self.height - 6, label)

    def line(self, line: Line) -> str:
        points = [point for point in line.points if math.isfinite(point[1])]
        stride = max(1, math.ceil(len(points) / MAX_POINTS))
        kept = points[::stride]
        if points and kept[-1] != points[-1]:
            kept = [*kept, points[-1]]
        if len(kept) == 1:
            x, y = self.x(kept[0][0]), self.y(kept[0][1])
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" style="fill:{line.color}"/>'
        path = " ".join(f"{self.x(x):.1f},{self.y(min(y, self._top)):.1f}" for x, y in kept)
        return f'<polyline points="{path}" style="stroke:{line.color}"/>'

    def limit(self, value: float, label: str) -> str:
        y = self.y(value)
        return (
            f'<line class="limit" x1="{self.left}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            + _text(WIDTH - RIGHT - 4, y + 13, label, "end")
        )

    def rect(
        self, x1: float, x2: float, y1: float, y2: float, *, css: str = "", gap: float = 0.0
    ) -> str:
        x, y = self.x(x1) + gap / 2, self.y(y2)
        return (
            f'<rect class="{css}" x="{x:.1f}" y="{y:.1f}" '
            f'width="{max(0.5, self.x(x2) - x - gap / 2):.1f}" height="{self.y(y1) - y:.1f}"/>'
        )

    def svg(self, marks: Sequence[str], title: str) -> str:
        return (
            f'<div class="scroll"><svg class="chart" viewBox="0 0 {WIDTH} {self.height:g}" '
            f'role="img" aria-label="{title}">{"".join(marks)}</svg></div>'
        )


def _ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Round numbers around the range, about five."""
    span = max(high - low, 1e-12)
    power = 10.0 ** math.floor(math.log10(span / 5))
    step = next(power * digit for digit in (1, 2, 5, 10) if span / (power * digit) <= 5)
    if whole:
        step = max(1.0, step)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [step * i for i in range(first, max(last, first + 1) + 1)]


def _decimals(ticks: Sequence[float]) -> int:
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    return 0 if step >= 1 else min(4, math.ceil(-math.log10(step) - 1e-9))


def _text(x: float, y: float, text: str, css: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}">{text}</text>'


def _swatch(color: str, css: str = "") -> str:
    return f'<svg><rect class="{css}" width="14" height="10" rx="2" style="fill:{color}"/></svg>'


def _legend(items: Iterable[tuple[str, str]]) -> str:
    return f'<div class="legend">{"".join(f"<span>{s}{n}</span>" for s, n in items)}</div>'
