"""What the live page and the report have in common: verdict, numbers, devices, curves."""

from __future__ import annotations

import re
from html import escape

from myxtts.messages import Message
from myxtts.pages.charts import CSS as CHART_CSS
from myxtts.pages.charts import Line, line_chart, share_bar
from myxtts.pages.page import Language, Page, ltr
from myxtts.pages.words import PERSIAN
from myxtts.runs.diagnosis import Diagnosis
from myxtts.runs.view import SHARED_MEMORY, DeviceView

ROLE_COLOR = {"data": "var(--s2)", "model": "var(--s4)"}

CSS = f"""{CHART_CSS}
.about{{display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;margin:-.9rem 0 1.2rem;color:var(--soft)}}
.simulated{{color:var(--bad)}}
.verdict{{border-inline-start:4px solid var(--bad);background:var(--panel);padding:.7rem 1rem;
margin:1rem 0;border-radius:.3rem;break-inside:avoid}}
.verdict.good{{border-color:var(--good)}}.verdict b{{font-weight:600}}
.verdict p{{margin:.2rem 0 0;color:var(--soft)}}
.shares td{{vertical-align:middle;padding-block:.25rem;border:0}}
.shares{{table-layout:fixed}}.shares td:first-child{{width:24%}}
.shares td:last-child{{width:27%;padding-inline-end:0}}
.shares .num{{white-space:normal}}.shares code{{font-weight:600}}
section{{break-inside:avoid}}p.lead{{margin:.2rem 0 .6rem;color:var(--soft)}}
h2+p.lead{{margin-top:-.3rem}}h3{{font-size:.95rem;margin:1.2rem 0 .2rem;break-after:avoid}}
.shares .soft{{color:var(--soft);padding-inline-start:.9rem}}
"""


class RunPage(Page):
    """A page about a run in one language."""

    def __init__(self, language: Language) -> None:
        super().__init__(language, PERSIAN)

    def tell(self, sentence: Message) -> str:
        """A sentence in the page's language, escaped, its names kept left to right."""
        return escape(self._told(sentence))

    def _told(self, sentence: Message) -> str:
        return self.words(sentence.english, *map(self._value, sentence.values))

    def _value(self, value: str | Message) -> str:
        if isinstance(value, Message):
            return self._told(value)
        if not self.rtl:
            return value
        return ltr(value) if re.search("[A-Za-z]", value) else self.digits(value)

    def verdict(self, verdict: Diagnosis, *, grade: str = "") -> str:
        """How it goes, in a sentence, and what to do about it."""
        more = [self.tell(note) for note in verdict.notes]
        if verdict.flags:
            more.append(f"<code>{escape(' '.join(verdict.flags))}</code>")
        if grade:
            more.append(self.say("Grade: {}", self.words(grade)))
        rest = f"<p>{' '.join(more)}</p>" if more else ""
        said = f"<b>{self.tell(verdict.sentence)}</b>"
        return f'<div class="verdict {"good" if verdict.good else ""}">{said}{rest}</div>'

    def cards(self, cards: tuple[tuple[str, Message], ...]) -> str:
        """The main numbers."""
        shown = (f"<div><b>{self.tell(value)}</b>{self.say(name)}</div>" for name, value in cards)
        return f'<div class="cards">{"".join(shown)}</div>'

    def device_table(self, devices: tuple[DeviceView, ...]) -> str:
        """A bar for each device's work and memory."""
        rows = ""
        for device in devices:
            color = ROLE_COLOR[device.role]
            if device.busy is not None:
                rows += self.bar_row(
                    self.tell(device.label),
                    share_bar(self, [(device.busy, color, "")]),
                    self.say("{} busy", self.percent(device.busy)),
                )
            if device.used_mb is not None and device.limit_mb:
                used = f"{device.used_mb:,.0f} / {device.limit_mb:,.0f}"
                rows += self.bar_row(
                    f'<span class="soft">{self.say("its memory")}</span>',
                    share_bar(self, [(min(1.0, device.memory_share or 0), color, "waiting")]),
                    self.say("{} MB", self.digits(used)),
                )
        note = ""
        if any(device.memory_source == SHARED_MEMORY for device in devices):
            words = "Memory is that of the whole process: on the CPU no device has its own."
            note = f'<p class="more">{self.say(words)}</p>'
        return f'<table class="shares">{rows}</table>{note}' if rows else ""

    def busy_chart(self, busy: dict[str, list[tuple[float, float]]], x_label: str) -> str:
        """How busy the devices were over time."""
        names = {"data": self.say("data device"), "model": self.say("model device")}
        lines = [
            Line(names[role], ROLE_COLOR[role], [(x, 100 * y) for x, y in points])
            for role, points in busy.items()
        ]
        title = self.say("How busy the devices were")
        return line_chart(
            self, lines, title=title, x_label=self.say(x_label), top=100, unit=self.digits("%")
        )

    def loss_chart(
        self, loss: list[tuple[float, float]], validation: list[tuple[float, float]]
    ) -> str:
        """The loss over the steps."""
        lines = [
            Line(self.say("training"), "var(--s4)", loss),
            Line(self.say("validation"), "var(--s3)", validation),
        ]
        return line_chart(self, lines, title=self.say("Loss"), x_label=self.say("step"))

    def bar_row(self, label: str, bar: str, value: str) -> str:
        """A row of a table of bars, of ready cells."""
        return f'<tr><td>{label}</td><td>{bar}</td><td class="num">{value}</td></tr>\n'
