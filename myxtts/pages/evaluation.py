"""Writes an evaluation as one HTML file that opens anywhere, offline: numbers, pictures, audio."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.data.audio import SAMPLE_RATE
from myxtts.evaluation.held_out import Source
from myxtts.evaluation.results import (
    COLUMNS,
    MEASURES,
    ORIGINAL,
    SYNTHESIS,
    ClipResult,
    Column,
    Evaluation,
    Shown,
    Unit,
    format_value,
)
from myxtts.inference.audio_files import write_stream
from myxtts.inference.pictures import draw_speech
from myxtts.pages.evaluation_words import PERSIAN
from myxtts.pages.page import Language, Page, isolate, ltr, write_page

MAX_ROWS = 20  # voices or lists shown
CSS = """
.wide{overflow-x:auto}.wide td:first-child{min-width:9rem}
.last{padding-inline-end:0}.notes{padding-inline-start:1.2rem}.notes li::marker{color:var(--bad)}
dl{display:grid;grid-template-columns:auto 1fr;gap:.3rem 1.25rem;font-size:.93em}
dt{font-weight:600}dd{margin:0;color:var(--soft)}
.clip{break-inside:avoid;margin:1.5rem 0}.clip h3{font-size:1rem;margin:0 0 .5rem}
.clip img{display:block;width:100%;border-radius:.4rem;margin-top:.75rem}
.heard{display:flex;flex-wrap:wrap;gap:.75rem 1.25rem}
.heard figure{margin:0;flex:1 1 14rem}.heard figcaption{color:var(--soft);font-size:.85rem}
audio{width:100%;height:2.4rem}
@media print{.heard{display:none}}
@media (max-width:36rem){dl{display:block}dd{margin-bottom:.6rem}}
"""


@dataclass(frozen=True)
class Heading:
    """What was evaluated, and how."""

    model: str
    step: int
    source: Source  # of the clips
    num_references: int
    seed: int
    num_cores: int


def write_evaluation(
    path: Path, evaluation: Evaluation, heading: Heading, *, language: Language = "en"
) -> None:
    """Write the page whole or not at all; one already there is replaced."""
    page = _EvaluationPage(language, PERSIAN)
    title = page.words("How {} sounds", ltr(heading.model))
    write_page(path, page.frame(title, page.body(evaluation, heading), css=CSS))


class _EvaluationPage(Page):
    """An evaluation in one language."""

    def body(self, evaluation: Evaluation, heading: Heading) -> str:
        """Everything below the title."""
        return "\n".join(
            (
                self._cards(evaluation),
                self._notes(evaluation),
                self._main_table(evaluation),
                self._meanings(evaluation),
                self._groups("By list", evaluation, evaluation.groups(lambda c: c.clip.source)),
                self._groups("By voice", evaluation, evaluation.groups(lambda c: c.clip.speaker)),
                self._examples(evaluation.shown),
                self._how(heading),
            )
        )

    def _cards(self, evaluation: Evaluation) -> str:
        cards = {
            "clips spoken": self.number(len(evaluation.clips)),
            "voices compared": self.number(len(evaluation.voices)),
        }
        for measure, values in evaluation.rows():
            if measure.name in ("words understood, unseen", "voice match", "real-time factor"):
                cards[measure.name] = self.digits(format_value(values[SYNTHESIS], measure.unit))
        shown = (f"<div><b>{value}</b>{self.say(name)}</div>" for name, value in cards.items())
        return f'<div class="cards">{"".join(shown)}</div>'

    def _notes(self, evaluation: Evaluation) -> str:
        items = "".join(
            f"<li>{self.say(note.text)}"
            + (f" <code>{isolate(note.remedy)}</code>" if note.remedy else "")
            + "</li>"
            for note in evaluation.notes
        )
        return f'<ul class="notes">{items}</ul>' if items else ""

    def _main_table(self, evaluation: Evaluation) -> str:
        rows = [
            [
                self.say(measure.name),
                *(self._value(values[column], measure.unit) for column in COLUMNS),
            ]
            for measure, values in evaluation.rows()
        ]
        return self._numbers(("", *COLUMNS), rows)

    def _meanings(self, evaluation: Evaluation) -> str:
        said = "".join(
            f"<dt>{self.say(measure.name)}</dt><dd>{self.say(measure.meaning)}</dd>"
            for measure, _ in evaluation.rows()
        )
        columns = self.say(
            "The original is the recording itself; the vocoder copy is its mel spectrogram turned "
            "back into audio, the best that this vocoder can do; the synthesis is the model's."
        )
        return f"<h2>{self.say('What the numbers mean')}</h2><p>{columns}</p><dl>{said}</dl>"

    def _groups(
        self, title: str, evaluation: Evaluation, groups: dict[str, list[ClipResult]]
    ) -> str:
        if len(groups) < 2:
            return ""
        shown = {measure.name for measure, _ in evaluation.rows()}
        measures = [m for m in MEASURES if m.name in shown and m.unit != "factor"]
        rows = [
            [
                isolate(self.words(name)),
                self.number(len(clips)),
                *(self._value(m.of(clips, SYNTHESIS), m.unit) for m in measures),
            ]
            for name, clips in list(groups.items())[:MAX_ROWS]
        ]
        more = len(groups) - MAX_ROWS
        rest = f'<p class="more">{self.say("and {} more", self.number(more))}</p>'
        table = self._numbers(("synthesis", "clips", *(m.name for m in measures)), rows, wrap=True)
        return f"<h2>{self.say(title)}</h2>{table}{rest if more > 0 else ''}"

    def _examples(self, shown: Sequence[Shown]) -> str:
        heading = self.say("Listen and look")
        caption = self.say(
            "Above the original, below it the synthesis with its pitch; at the bottom, which "
            "symbol is spoken when."
        )
        return f"<h2>{heading}</h2><p>{caption}</p>{''.join(map(self._example, shown))}"

    def _example(self, shown: Shown) -> str:
        players = "".join(
            f"<figure><figcaption>{self.say(column)}</figcaption><audio controls preload=metadata"
            f' src="{_wav_uri(shown, column)}"></audio></figure>'
            for column in COLUMNS
        )
        picture = base64.b64encode(draw_example(shown)).decode()
        return (
            f'<div class="clip"><h3 dir="auto">{isolate(shown.clip.text)}'
            f' <span class="more">({isolate(shown.clip.speaker)})</span></h3>'
            f'<div class="heard" dir="ltr">{players}</div>'
            f'<img alt="{self.say("mel spectrograms and alignment")}"'
            f' src="data:image/png;base64,{picture}"></div>'
        )

    def _how(self, heading: Heading) -> str:
        facts = {
            "model": f"{isolate(heading.model)}, {self.say('step {}', self.number(heading.step))}",
            "clips": self.say(heading.source.words, ltr(str(heading.source.folder))),
            "references": self.say(
                "{} recordings or more of each voice, none of them among the clips",
                self.number(heading.num_references),
            ),
            "seed": self.number(heading.seed),
            "machine": self.say("CPU, {} cores; no GPU was used", self.number(heading.num_cores)),
        }
        items = "".join(f"<dt>{self.say(k)}</dt><dd>{value}</dd>" for k, value in facts.items())
        return f"<h2>{self.say('How it was measured')}</h2><dl>{items}</dl>"

    def _value(self, value: float | None, unit: Unit) -> str:
        return f'<span dir="ltr">{self.digits(format_value(value, unit))}</span>'

    def _numbers(
        self, heads: Sequence[str], rows: Sequence[Sequence[str]], *, wrap: bool = False
    ) -> str:
        """A table whose columns but the first hold numbers."""
        style = ' style="white-space:normal;vertical-align:bottom"' if wrap else ""
        first, *others = (self.say(head) if head else "" for head in heads)
        body = f"<tr><th{style}>{first}</th>"
        body += "".join(f'<th class="num"{style}>{head}</th>' for head in others) + "</tr>\n"
        for name, *cells in rows:
            numbers = "".join(f'<td class="num">{cell}</td>' for cell in cells)
            body += f"<tr><td>{name}</td>{numbers}</tr>\n"
        return f'<div class="wide"><table>{body}</table></div>'


def draw_example(shown: Shown) -> bytes:
    """The original's mel above the synthesis's, and the alignment, as a PNG."""
    return draw_speech(
        {column: shown.sounds[column].mel for column in (ORIGINAL, SYNTHESIS)},
        alignment=shown.alignment,
        symbols=shown.symbols,
        pitch={column: shown.sounds[column].pitch for column in (ORIGINAL, SYNTHESIS)},
    )


def _wav_uri(shown: Shown, column: Column) -> str:
    file = io.BytesIO()
    write_stream(file, [shown.waves[column]], sample_rate=SAMPLE_RATE)
    return f"data:audio/wav;base64,{base64.b64encode(file.getvalue()).decode()}"
