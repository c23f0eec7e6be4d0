"""What the live page and the report have in common: their words, devices and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from myxtts.messages import Message, short
from myxtts.pages.charts import ROLE_COLOR, Line, line_chart
from myxtts.pages.page import Language, Page
from myxtts.pages.words import PERSIAN
from myxtts.runs.view import SHARED_MEMORY, DeviceView, RunView

ROLE_NAME = {"data": "data device", "model": "model device"}

Curve = Sequence[tuple[float, float]]


def run_page(language: Language) -> Page:
    """A page about a run in one language."""
    return Page(language, PERSIAN)


def share_memory(devices: Sequence[DeviceView]) -> bool:
    """Whether the devices' memory is that of the whole process."""
    return any(device.memory_source == SHARED_MEMORY for device in devices)


def rate_cards(view: RunView) -> list[tuple[str, Message]]:
    """The loss and the rates, where they are known."""
    cards = []
    if view.loss is not None:
        cards.append(("loss", short(float(view.loss))))
    if view.steps_per_second is not None:
        cards.append(("steps a second", f"{view.steps_per_second:.2f}"))
    if view.clips_per_second is not None:
        cards.append(("clips a second", f"{view.clips_per_second:.1f}"))
    return [(name, Message("{}", (shown,))) for name, shown in cards]


def busy_chart(page: Page, busy: Mapping[str, Curve], *, x_label: str) -> Markup:
    """How busy the devices were over time."""
    lines = [
        Line(page.say(ROLE_NAME[role]), ROLE_COLOR[role], [(x, 100 * y) for x, y in points])
        for role, points in busy.items()
    ]
    title, unit = page.say("How busy the devices were"), page.digits("%")
    return line_chart(page, lines, title=title, x_label=page.say(x_label), top=100, unit=unit)


def loss_chart(page: Page, loss: Curve, validation: Curve) -> Markup:
    """The loss over the steps."""
    lines = [
        Line(page.say("training"), "var(--s4)", loss),
        Line(page.say("validation"), "var(--s3)", validation),
    ]
    return line_chart(page, lines, title=page.say("Loss"), x_label=page.say("step"))
