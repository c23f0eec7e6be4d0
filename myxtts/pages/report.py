"""Writes a run or a profile as one HTML file that opens anywhere, offline, and prints well."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from html import escape
from pathlib import Path

from myxtts.pages.charts import (
    STAGE_COLOR,
    Line,
    columns,
    histogram,
    legend,
    line_chart,
    longest_shown,
    share_bar,
    timeline,
)
from myxtts.pages.page import Language, isolate, ltr, write_page
from myxtts.pages.report_content import (
    ReportContent,
    content_of,
    overlap_with_training,
    window,
)
from myxtts.pages.run_page import CSS, ROLE_COLOR, RunPage
from myxtts.pipeline.telemetry import TRAIN, StageStats, StepStats
from myxtts.profiling.measurements import Profile
from myxtts.runs.remedies import WORDS
from myxtts.runs.view import SHARED_MEMORY

log = logging.getLogger(__name__)

REPORT_FILE = "report.html"
MAX_BUCKETS = 8


def write_report(path: Path, source: Path | Profile, *, lang: Language = "en") -> None:
    """Write the report of a run's folder or of a profile, whole or not at all."""
    write_page(path, ReportPage(lang).whole(content_of(source)))


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


class ReportPage(RunPage):
    """A report in one language."""

    def whole(self, content: ReportContent) -> str:
        """The page."""
        title = self.words("Report of {}", ltr(content.title) if self.rtl else content.title)
        parts = [
            self._about(content),
            self.verdict(content.verdict, grade=content.grade),
            self.cards(content.cards),
            self._recommendation(content),
            self._timeline(content),
            self._step(content),
            self._devices(content),
            self._steps(content),
            self._ring(content),
            self._loss(content),
            self._trace(content),
        ]
        body = "\n".join(part for part in parts if part)
        return self.frame(title, body, css=CSS)

    # -- the sections --

    def _section(self, heading: str, body: str, lead: str = "") -> str:
        if not body:
            return ""
        lead = f'<p class="lead">{lead}</p>' if lead else ""
        return f"<section><h2>{self.say(heading)}</h2>{lead}{body}</section>"

    def _about(self, content: ReportContent) -> str:
        facts = [f"<span>{self.tell(fact)}</span>" for fact in content.about if fact.english]
        if content.simulated:
            words = "simulated on CPU: no GPU was measured"
            facts.append(f'<span class="simulated">{self.say(words)}</span>')
        return f'<div class="about">{"".join(facts)}</div>'

    def _recommendation(self, content: ReportContent) -> str:
        if not content.command:
            return ""
        rows = []
        for change in content.changes:
            gain = "" if change.gain is None else self.digits(f"×{change.gain:.2f}")
            reason = self.tell(WORDS[change.kind]) if self.rtl else escape(change.reason)
            rows.append((f"<code>{escape(change.flag)}</code>", gain, reason))
        table = self.table(("Change", "Expected gain", "Why"), rows) if rows else ""
        body = self.command(content.command) + table + self._layouts(content)
        return self._section("Recommended command", body, self._why(content))

    def _layouts(self, content: ReportContent) -> str:
        """One device, two roles or two replicas: how fast each is."""
        if not content.layouts:
            return ""
        rows = [
            (self.say(layout.name), self.number(layout.rate, 2), self.say(layout.basis))
            for layout in content.layouts
        ]
        table = self.table(("Use of the devices", "Steps a second", ""), rows)
        return f'{table}<p class="more">{" ".join(map(self.tell, content.layout_reason))}</p>'

    def _why(self, content: ReportContent) -> str:
        """What the command is for, or what it brings."""
        if content.measured_after is not None and content.predicted_rate is not None:
            return self.say(
                "Predicted with it: {} steps a second; measured: {}.",
                self.number(content.predicted_rate, 2),
                self.number(content.measured_after, 2),
            )
        if content.layouts and not content.changes:
            return self.say("No setting would make it noticeably faster. It was measured with:")
        if content.predicted_rate is not None:
            words = "Predicted with it: {} steps a second."
            return self.say(words, self.number(content.predicted_rate, 2))
        if content.verdict.flags:
            return self.say("This goes on with the run, changed as advised:")
        if content.verdict.good:
            return self.say("Nothing needs to change. A profile measures each stage alone:")
        return self.say("A profile says what would help:")

    def _timeline(self, content: ReportContent) -> str:
        spans = window(content.spans)
        if not spans:
            if not content.stages or content.x_label != "step":
                return ""
            words = "The timeline and the histogram are there once the run has ended."
            return f'<p class="more">{self.say(words)}</p>'
        items = [(color, "", f"<code>{stage}</code>") for stage, color in STAGE_COLOR.items()]
        items.append(("var(--soft)", "waiting", self.say("waiting for input")))
        items.append(("var(--soft)", "no-room", self.say("waiting for room")))
        overlap = overlap_with_training(content.spans)
        said = [
            self.say("{} {} of it", ltr(stage) if self.rtl else stage, self.percent(share))
            for stage, share in overlap.items()
        ]
        lead = self.say("The last steps; a number is that of the batch.")
        if said:
            lead += f" {self.say('While the model trained, these worked too:')} "
            lead += self.say(", ").join(said) + "."
        chart = timeline(self, spans, title=self.say("What overlapped with what"))
        return self._section("What overlapped with what", legend(items) + chart, lead)

    def _step(self, content: ReportContent) -> str:
        stages = content.stages
        if TRAIN not in stages:
            return ""
        items = [
            ("var(--bar)", "", self.say("works")),
            ("var(--bar)", "waiting", self.say("waiting for input")),
            ("var(--bar)", "no-room", self.say("waiting for room")),
        ]
        rows = "".join(
            self.bar_row(f"<code>{name}</code>", self._shares(name, stage), self._per_batch(stage))
            for name, stage in stages.items()
        )
        train = stages[TRAIN]
        batches = max(1, train.batches)
        lead = self.say(
            "Of a step's {} ms the model works {} and waits for a batch {}.",
            self.number(1000 * (train.busy_s + train.waiting_input_s) / batches),
            self.number(1000 * train.busy_s / batches),
            self.number(1000 * train.waiting_input_s / batches),
        )
        table = f'{legend(items)}<table class="shares">{rows}</table>'
        alone = ""
        if content.alone:
            most = max(content.alone.values())
            alone = f'<h3>{self.say("Each stage alone")}</h3><table class="shares">' + "".join(
                self.bar_row(
                    f"<code>{name}</code>",
                    share_bar(self, [(seconds / most, STAGE_COLOR.get(name, "var(--s1)"), "")]),
                    self.say("{} ms", self.number(1000 * seconds, 1)),
                )
                for name, seconds in content.alone.items()
            )
            alone += "</table>"
        return self._section("Where a step's time goes", table + alone, lead)

    def _shares(self, name: str, stage: StageStats) -> str:
        whole = stage.busy_s + stage.waiting_input_s + stage.waiting_room_s or 1.0
        color = STAGE_COLOR[name]
        return share_bar(
            self,
            [
                (stage.busy_s / whole, color, ""),
                (stage.waiting_input_s / whole, color, "waiting"),
                (stage.waiting_room_s / whole, color, "no-room"),
            ],
        )

    def _per_batch(self, stage: StageStats) -> str:
        each = self.number(1000 * stage.busy_s / max(1, stage.batches))
        return self.say("{} · {} ms", self.percent(stage.busy_share), each)

    def _devices(self, content: ReportContent) -> str:
        names = {"data": self.say("data device"), "model": self.say("model device")}
        limits: dict[str, float | None] = {d.role: d.limit_mb for d in content.devices}
        shared = any(device.memory_source == SHARED_MEMORY for device in content.devices)
        lines = [
            Line(names[role], ROLE_COLOR[role], points, limit=limits.get(role))
            for role, points in content.memory.items()
        ]
        if shared:  # both roles show the same process: one curve says it
            lines = [
                Line(self.say("the whole process"), ROLE_COLOR["model"], points)
                for role, points in content.memory.items()
                if role == "model"
            ]
        memory = line_chart(
            self,
            lines,
            title=self.say("Memory"),
            x_label=self.say(content.x_label),
        )
        body = self.device_table(content.devices)
        busy = self.busy_chart({k: list(v) for k, v in content.busy.items()}, content.x_label)
        if busy:
            body += f"<h3>{self.say('How busy the devices were')}</h3>{busy}"
        if memory:
            body += f"<h3>{self.say('Memory in MB')}</h3>{memory}"
        return self._section("Devices and memory", body)

    def _steps(self, content: ReportContent) -> str:
        if len(content.step_seconds) < 2:
            return ""
        title, lead = self.say("Step times"), ""
        if content.variation is not None:
            mean = sum(content.step_seconds) / len(content.step_seconds)
            lead = self.say(
                "{} steps, {} ms on the average, varying by {} within a shape.",
                self.number(len(content.step_seconds)),
                self.number(1000 * mean),
                self.percent(content.variation),
            )
        end = longest_shown(content.step_seconds)
        if longer := sum(seconds > end for seconds in content.step_seconds):
            words = "The last bar holds {} steps that took longer, up to {} ms."
            most = self.number(1000 * max(content.step_seconds))
            lead += f" {self.say(words, self.number(longer), most)}"
        body = histogram(self, content.step_seconds, title=title)
        return self._section("Step times", body + self._buckets(content.buckets), lead)

    def _buckets(self, buckets: tuple[StepStats, ...]) -> str:
        if len(buckets) < 2:
            return ""
        most = sorted(buckets, key=lambda bucket: -bucket.steps)[:MAX_BUCKETS]
        rows = [
            (
                isolate(_largest(b.shape)),
                self.number(b.steps),
                self.say("{} ms", self.number(1000 * b.mean_s)),
                self.percent(b.variation),
            )
            for b in most
        ]
        return self.table(("Batch shape", "Steps", "Mean", "Variation"), rows)

    def _ring(self, content: ReportContent) -> str:
        if not sum(content.ring_counts):
            return ""
        lead = self.say("How many batches were ready on the model device when the model asked.")
        chart = columns(
            self,
            content.ring_counts,
            title=self.say("Ring of ready batches"),
            x_label=self.words("batches ready"),
        )
        return self._section("Ring of ready batches", chart, lead)

    def _loss(self, content: ReportContent) -> str:
        return self._section("Loss", self.loss_chart(list(content.loss), list(content.validation)))

    def _trace(self, content: ReportContent) -> str:
        if not content.trace:
            return ""
        words = "The whole timeline is in {} beside this page; Perfetto (ui.perfetto.dev) opens it."
        return f'<p class="more">{self.say(words, ltr(content.trace))}</p>'


def _largest(shape: str) -> str:
    """Of the shapes in a batch the longest word, which is its largest tensor's."""
    return max(shape.split(" "), key=lambda part: (part.count("x"), len(part)))
