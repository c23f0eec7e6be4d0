"""Writes an evaluation as one HTML file that opens anywhere, offline: numbers, pictures, audio."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from myxtts.evaluation.held_out import Source
from myxtts.evaluation.results import (
    COLUMNS,
    MEASURES,
    ORIGINAL,
    SYNTHESIS,
    ClipResult,
    Column,
    Evaluation,
    Measure,
    Shown,
    Unit,
    format_value,
)
from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference.audio_files import write_stream
from myxtts.inference.pictures import draw_speech
from myxtts.pages.evaluation_words import PERSIAN
from myxtts.pages.page import Language, Page, data_uri
from myxtts.pages.render import render, write_page

MAX_ROWS = 20  # voices or lists shown
HEADLINES = ("words understood, unseen", "voice match", "real-time factor")


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
    page = Page(language, PERSIAN)
    measured = evaluation.rows()
    measures = [m for m, _ in measured if m in MEASURES and m.unit != "factor"]
    whole = render(
        page,
        "evaluation.html",
        title=page.say("How {} sounds", heading.model),
        evaluation=evaluation,
        heading=heading,
        max_rows=MAX_ROWS,
        cards=[
            (measure.name, page.digits(format_value(values[SYNTHESIS], measure.unit)))
            for measure, values in measured
            if measure.name in HEADLINES
        ],
        rows=[
            (page.say(m.name), *(_value(page, values[column], m.unit) for column in COLUMNS))
            for m, values in measured
        ],
        group_heads=["synthesis", "clips", *(m.name for m in measures)],
        by_list=[
            (page.say(name), *_numbers(page, clips, measures))
            for name, clips in evaluation.groups(lambda c: c.clip.source).items()
        ],
        by_voice=[
            ([name], *_numbers(page, clips, measures))
            for name, clips in evaluation.groups(lambda c: c.clip.speaker).items()
        ],
        examples=[
            (
                shown.clip,
                [(column, _wav_uri(shown, column)) for column in COLUMNS],
                data_uri("image/png", draw_example(shown)),
            )
            for shown in evaluation.shown
        ],
    )
    write_page(path, whole)


def _value(page: Page, value: float | None, unit: Unit) -> Markup:
    return Markup('<span dir="ltr">{}</span>').format(page.digits(format_value(value, unit)))


def _numbers(page: Page, clips: list[ClipResult], measures: Sequence[Measure]) -> list[str]:
    values = (_value(page, m.of(clips, SYNTHESIS), m.unit) for m in measures)
    return [page.number(len(clips)), *values]


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
    return data_uri("audio/wav", file.getvalue())
