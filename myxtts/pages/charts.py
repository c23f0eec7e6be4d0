"""Pictures of our pages: plain SVG, drawn here, so that a page needs nothing from elsewhere.

A chart is as wide as its place: x is in per cent, y in pixels, and labels stand around it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from myxtts.pages.page import Page, harmless
from myxtts.pipeline.telemetry import BUSY, STAGES, WAITING_INPUT
from myxtts.runs.trace import Span

STAGE_COLOR = {stage: f"var(--s{i})" for i, stage in enumerate(STAGES, start=1)}
ROLE_COLOR = {"data": "var(--s2)", "model": "var(--s4)"}
STATE_CLASS = {BUSY: "", WAITING_INPUT: "waiting"}  # and without room "no-room"
MAX_POINTS = 400  # of a line: more than the page has columns to show
ROW = 41  # pixels of a stage's row
LETTER, NARROW_LETTER = 1.0, 2.75  # per cent of the width that one takes, and on a telephone
ACROSS = {"x", "x1", "x2", "cx", "width"}


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
) -> Markup:
    """Curves from zero up, with a legend; `top` is the upper end, or what the data needs."""
    lines = [line for line in lines if line.points]
    if not lines:
        return Markup()
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points if math.isfinite(y)]
    limits: dict[float, list[str]] = {}
    for line in lines:
        if line.limit:
            limits.setdefault(line.limit, []).append(line.name)
    low, high = min(xs), max(xs)
    ticks = _ticks(0.0, top or max([*ys, *limits, 1e-9]))
    plot = _Plot(page, height=198, x_range=(low, high if high > low else low + 1), top=ticks[-1])
    marks = [plot.grid(ticks, unit), plot.x_axis(x_label), *map(plot.line, lines)]
    for limit, names in limits.items():
        y = plot.y(limit)
        told = page.say("limit of {}", page.say(", ").join(names))
        marks.append(_tag("line", class_="limit", x1=0, x2=100, y1=y, y2=y))
        marks.append(_text(99.5, y + 14, told, "end"))
    return legend((line.color, "", line.name) for line in lines) + plot.svg(marks, title)


def histogram(
    page: Page,
    bins: Sequence[tuple[float, float, int]],
    *,
    title: str,
    x_label: str,
    y_label: str = "",
    spread: tuple[float, float] | None = None,
) -> Markup:
    """How many are from where to where; `spread` marks a mean and the deviation from it.

    With a `y_label` the bins are few: each shows its edges and its number.
    """
    low, high = bins[0][0], bins[-1][1]
    ticks = _ticks(0.0, float(max(count for *_, count in bins)), whole=True)
    plot = _Plot(page, height=243 if y_label else 198, x_range=(low, high), top=ticks[-1])
    marks = [plot.grid(ticks)]
    if spread is not None:
        mean, deviation = spread
        left, right = max(low, mean - deviation), min(high, mean + deviation)
        marks.append(plot.bar(left, right, ticks[-1], css="band"))
    for start, end, count in bins:
        if count:
            label = page.number(count) if y_label else ""
            marks.append(plot.bar(start, end, count, label=label, gap=0.6 if y_label else 0.15))
    if spread is not None:
        x = plot.x(min(mean, high))
        marks.append(_tag("line", class_="mean", x1=x, x2=x, y1=0, y2=plot.height))
    if y_label:
        edges = [low, *(end for _, end, _ in bins)]
        decimals = min(4, max(1, math.ceil(-math.log10((bins[-1][1] - bins[-1][0]) / 2))))
        marks.append(plot.x_axis(x_label, edges, decimals))
        middle = plot.height / 2
        marks.append(_text("-48", middle, y_label, transform=f"rotate(-90 -48 {middle:.1f})"))
    else:
        marks.append(plot.x_axis(x_label))
    return plot.svg(marks, title)


def columns(page: Page, counts: Sequence[int], *, title: str, x_label: str) -> Markup:
    """How often each whole number came, in per cent."""
    whole = sum(counts) or 1
    plot = _Plot(page, height=154, x_range=(-0.5, len(counts) - 0.5), top=1.0)
    marks = [plot.grid([0, 0.25, 0.5, 0.75, 1.0], percent=True)]
    for number, count in enumerate(counts):
        share = count / whole
        label = page.percent(share) if share >= 0.01 else page.digits("<1%")
        marks.append(plot.bar(number - 0.3, number + 0.3, share, label=label if count else ""))
    marks.append(plot.x_axis(x_label, range(len(counts))))
    return plot.svg(marks, title)


def timeline(page: Page, spans: Sequence[Span], *, title: str) -> Markup:
    """Each stage's row: what it worked on when, by the number of the batch."""
    rows = [stage for stage in STAGES if any(span.stage == stage for span in spans)]
    began, ended = min(s.start_s for s in spans), max(s.end_s for s in spans)
    length = 1000 * (ended - began)
    plot = _Plot(page, height=ROW * len(rows), x_range=(0.0, length), top=1.0)
    ticks = _ticks(0.0, length)[:-1]
    marks = [_tag("line", x1=plot.x(tick), x2=plot.x(tick), y1=0, y2=plot.height) for tick in ticks]
    marks.append(plot.x_axis(page.say("milliseconds"), ticks))
    for index, stage in enumerate(rows):
        y = ROW * index
        marks.append(_text("-8", y + 25, stage, "end strong"))
        marks += [_work(page, plot, span, began, y + 5) for span in spans if span.stage == stage]
    items = [(color, "", Markup("<code>{}</code>").format(s)) for s, color in STAGE_COLOR.items()]
    items.append(("var(--soft)", "waiting", page.say("waiting for input")))
    items.append(("var(--soft)", "no-room", page.say("waiting for room")))
    return legend(items) + plot.svg(marks, title, css=" rows")


def _work(page: Page, plot: _Plot, span: Span, began: float, y: float) -> Markup:
    x, end = plot.x(1000 * (span.start_s - began)), plot.x(1000 * (span.end_s - began))
    wide, height = end - x, ROW - 11
    told = Markup("{}: {}, {}, {} ms").format(
        span.stage,
        page.say(span.state),
        page.say("batch {}", page.number(span.batch)),
        page.number(1000 * (span.end_s - span.start_s), 1),
    )
    drawn = _tag(
        "rect",
        _tag("title", told),
        x=x,
        y=y,
        width=max(0.1, wide - 0.09),
        height=height,
        rx=2,
        class_=STATE_CLASS.get(span.state, "no-room"),
        style=f"fill:{STAGE_COLOR[span.stage]}",
    )
    number = page.number(span.batch)
    if span.state != BUSY or wide < LETTER * (len(number) + 1):
        return drawn
    return drawn + _text(
        x + wide / 2, y + height / 2 + 4, number, f"inside {_spare(number, wide)}".strip()
    )


def share_bar(page: Page, parts: Iterable[tuple[float, str, str]], *, track: bool = True) -> Markup:
    """A bar in parts (share, colour, class) of a track; it grows from where reading starts."""
    drawn = _tag("rect", class_="track", width=100, height=14) if track else Markup()
    at = 0.0
    for share, color, css in parts:
        start = 1.0 - at - share if page.rtl else at
        x, width, style = 100 * max(0.0, start), 100 * share, f"fill:{color}"
        drawn += _tag("rect", x=x, width=width, height=14, class_=css, style=style)
        at += share
    return _tag("svg", drawn, class_="share", height=14, aria_hidden="true")


def legend(items: Iterable[tuple[str, str, str]]) -> Markup:
    """What colours mean: colour, class, and the name ready to be shown."""
    drawn = Markup()
    for color, css, name in items:
        swatch = _tag("rect", class_=css, width=100, height=10, rx=2, style=f"fill:{color}")
        drawn += _tag("span", _tag("svg", swatch) + name)
    return _tag("div", drawn, class_="legend")


class _Plot:
    """A drawing area with a scale on each side."""

    def __init__(
        self, page: Page, *, height: float, x_range: tuple[float, float], top: float
    ) -> None:
        self.page, self.height = page, height
        self._low, self._high = x_range
        self._top = top

    def x(self, value: float) -> float:
        return 100 * (value - self._low) / (self._high - self._low)

    def y(self, value: float) -> float:
        return self.height * (1 - value / self._top)

    def grid(self, ticks: Sequence[float], unit: str = "", *, percent: bool = False) -> Markup:
        marks = Markup()
        decimals = _decimals(ticks)
        for tick in ticks:
            y = self.y(tick)
            shown = self.page.percent(tick) if percent else self.page.number(tick, decimals)
            marks += _tag("line", x1=0, x2=100, y1=y, y2=y)
            marks += _text("-8", y + 4, shown + unit, "end")
        return marks

    def x_axis(
        self, label: str, ticks: Sequence[float] | None = None, decimals: int | None = None
    ) -> Markup:
        if ticks is None:
            ticks = [t for t in _ticks(self._low, self._high) if self._low <= t <= self._high]
        decimals = _decimals(ticks) if decimals is None else decimals
        marks = _text(50, self.height + 43, label)
        apart = self.x(ticks[1]) - self.x(ticks[0]) if len(ticks) > 1 else 100.0
        for index, tick in enumerate(ticks):
            shown = self.page.number(max(0.0, tick), decimals)
            css = _spare(f"{shown} ", apart) if index % 2 else ""
            marks += _text(self.x(tick), self.height + 20, shown, css)
        return marks

    def line(self, line: Line) -> Markup:
        points = [point for point in line.points if math.isfinite(point[1])]
        stride = max(1, math.ceil(len(points) / MAX_POINTS))
        kept = points[::stride]
        if points and kept[-1] != points[-1]:
            kept = [*kept, points[-1]]
        if len(kept) == 1:
            x, y = kept[0]
            return _tag("circle", cx=self.x(x), cy=self.y(y), r=3, style=f"fill:{line.color}")
        path = " ".join(f"{self.x(x):.2f},{self.y(min(y, self._top)):.1f}" for x, y in kept)
        drawn = _tag("polyline", points=path, style=f"stroke:{line.color}")
        box = f"0 0 100 {self.height:g}"  # a path knows no per cent: a drawing of its own stretches
        return _tag("svg", drawn, viewBox=box, preserveAspectRatio="none")

    def bar(
        self,
        start: float,
        end: float,
        value: float,
        *,
        label: str = "",
        css: str = "",
        gap: float = 0.0,
    ) -> Markup:
        """A bar with its number above it, or inside where there is no room above."""
        left, right, y = self.x(start), self.x(end), self.y(value)
        x, width = left + gap / 2, max(0.1, right - left - gap)
        drawn = _tag("rect", class_=css, x=x, y=y, width=width, height=self.height - y)
        if not label:
            return drawn
        y, place = (y + 14, "inside") if y < 15 else (y - 5, "")
        css = f"{place} {_spare(label, right - left)}".strip()
        return drawn + _text((left + right) / 2, y, label, css)

    def svg(self, marks: Sequence[Markup], title: str, css: str = "") -> Markup:
        inside = Markup().join(marks)
        drawn = _tag("svg", inside, height=self.height, role="img", aria_label=title)
        return _tag("div", drawn, class_=f"chart{css}")


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


def _spare(label: str, room: float) -> str:
    """The class of a label that a narrow screen leaves out, where it has no room there."""
    return "spare" if NARROW_LETTER * len(label) > room else ""


def _text(x: float | str, y: float, text: str, css: str = "", **attributes: str) -> Markup:
    return _tag("text", text, x=x, y=y, class_=css, **attributes)


def _tag(name: str, inside: str = "", **attributes: str | float) -> Markup:
    """An element; numbers across are in per cent, others in pixels, words as they are."""
    given = Markup()
    for key, value in attributes.items():
        if not isinstance(value, str):
            value = f"{value:.2f}%" if key in ACROSS else f"{value:.1f}"
        if value:
            given += Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
    if not isinstance(inside, Markup):
        inside = escape(harmless(inside))
    return Markup("<{}{}>{}</{}>").format(name, given, inside, name)
