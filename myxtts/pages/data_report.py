"""Writes what `myxtts data check` found as one HTML file that opens anywhere, offline."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from myxtts.data.enough import enough_for
from myxtts.data.summary import EXAMPLES, DataSummary
from myxtts.pages.charts import histogram, share_bar
from myxtts.pages.data_words import PERSIAN
from myxtts.pages.page import Language, Page
from myxtts.pages.render import render, write_page
from myxtts.recordings.audit import Finding

MAX_ROWS = 20  # speakers, languages or symbols shown
GUESSED_REMEDY = "Give the wrong ones a pronunciation in a lexicon (--lexicon)."
MAX_NAME = 80  # characters of a file's or speaker's name shown


def write_report(
    path: Path,
    summary: DataSummary,
    *,
    title: str,
    language: Language = "en",
    findings: Sequence[Finding] = (),
) -> None:
    """Write the report whole or not at all; a report already there is replaced."""
    page = Page(language, PERSIAN)
    dropped = [
        (
            page.say(reason),
            page.number(count),
            _names(summary.dropped[reason]),
            _with_flags(page.say(way)),
        )
        for reason, count, _, way in summary.reasons()
    ]
    found = {
        "Mostly silent": summary.mostly_silent,
        "Channels cancel each other out; one is used": summary.cancelling,
    }
    whole = render(
        page,
        "data.html",
        title=title,
        summary=summary,
        max_rows=MAX_ROWS,
        dropped=dropped,
        bars=lambda counts: _bars(page, counts),
        lengths=_lengths(page, summary.histogram) if summary.kept else "",
        symbols=[
            (_symbol(symbol), page.number(count), page.say("{}", _code_points(symbol)))
            for symbol, count in summary.unknown_symbols.most_common(MAX_ROWS)
        ],
        guessed=[
            (_short(word), page.number(count))
            for word, count in summary.guessed_words.most_common(MAX_ROWS)
        ],
        guessed_remedy=_with_flags(page.say(GUESSED_REMEDY)),
        enough=_enough(page, summary),
        findings=[
            (
                page.say(each.detail.english, *map(page.digits, map(str, each.detail.values))),
                [*_names(list(each.clips)), *each.say],
                _with_flags(page.say(each.remedy)),
            )
            for each in findings
        ],
        warnings=[(page.say(k), page.number(len(v)), _names(v)) for k, v in found.items() if v],
    )
    write_page(path, whole)


def _names(names: list[str]) -> list[str]:
    return [_short(name) for name in names[:EXAMPLES]]


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…"


def _enough(page: Page, summary: DataSummary) -> Markup:
    said = enough_for(summary.speaker_minutes)
    lines = (page.say(each.english, *map(page.digits, map(str, each.values))) for each in said)
    return _with_flags(" ".join(map(str, lines)))


def _with_flags(said: str) -> Markup:
    """What to do, its flags kept in one piece."""
    # Plain, but escaped: `Markup` would escape what is put in.
    return Markup(re.sub(r"--[\w-]+", r"<code>\g<0></code>", str(said)))  # noqa: S704


def _bars(page: Page, counts: Counter[str]) -> list[tuple[str, Markup, int]]:
    most = max(counts.values(), default=1)
    return [
        (_short(name), share_bar(page, [(count / most, "var(--bar)", "")], track=False), count)
        for name, count in counts.most_common(MAX_ROWS)
    ]


def _lengths(page: Page, bins: list[tuple[float, float, int]]) -> Markup:
    # Around a lone short clip some are negative.
    bins = [(max(0.0, low), high, count) for low, high, count in bins if high > 0]
    title, x_label = page.say("Clip lengths"), page.say("length in seconds")
    return histogram(page, bins, title=title, x_label=x_label, y_label=page.say("Clips"))


def _symbol(symbol: str) -> Markup:
    """As it is seen: a mark on a letter's place, nothing of the invisible."""
    shown = f"◌{symbol}" if unicodedata.combining(symbol[0]) else symbol
    return Markup('<bdi class="symbol">{}</bdi>').format(shown if symbol.isprintable() else "")


def _code_points(symbol: str) -> str:
    return ", ".join(f"U+{ord(char):04X} {unicodedata.name(char, '')}" for char in symbol)
