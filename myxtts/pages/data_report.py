"""Writes what `myxtts data check` found as one HTML file that opens anywhere, offline."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from pathlib import Path

from myxtts.data.enough import enough_for
from myxtts.data.summary import EXAMPLES, DataSummary
from myxtts.pages.data_words import PERSIAN
from myxtts.pages.page import Language, Page, isolate, write_page

MAX_ROWS = 20  # speakers, languages or symbols shown
MAX_NAME = 80  # characters of a file's or speaker's name shown
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 300, 70, 24, 52  # the histogram and its margins

CSS = """
.bars{table-layout:fixed}.bars td{padding-block:.12rem;vertical-align:middle;border:0}
.bars td:first-child{width:30%}.bars td:last-child{width:5rem;padding-inline-end:0}
.symbol{font-size:1.3em;line-height:1}
"""


def write_report(
    path: Path, summary: DataSummary, *, title: str, language: Language = "en"
) -> None:
    """Write the report whole or not at all; a report already there is replaced."""
    page = _DataPage(language, PERSIAN)
    write_page(path, page.frame(title, page.body(summary), css=CSS))


class _DataPage(Page):
    """What the check found, in one language."""

    def body(self, summary: DataSummary) -> str:
        """Everything below the title."""
        dropped = summary.listed - summary.kept
        cards = {"clips listed": summary.listed, "kept": summary.kept, "dropped": dropped}
        shown = [f"<div><b>{self.number(n)}</b>{self.say(name)}</div>" for name, n in cards.items()]
        shown.append(f"<div><b>{self.number(summary.hours, 2)}</b>{self.say('hours')}</div>")
        parts = [f'<div class="cards">{"".join(shown)}</div>']
        if not summary.kept:
            parts.append(f'<p class="note">{self.say("Nothing is left to train on.")}</p>')
        if dropped:
            parts.append(self._dropped(summary))
        if summary.kept:  # as in the terminal: without a clip there is nothing more to say
            parts.append(self._bars("Speakers", summary.speakers))
            parts.append(self._bars("Languages", summary.languages))
            parts.append(self._histogram(summary.histogram))
            parts += [self._symbols(summary.unknown_symbols), self._warnings(summary)]
            parts.append(self._enough(summary))
        return "\n".join(parts)

    def _dropped(self, summary: DataSummary) -> str:
        rows = []
        for reason, count, _, remedy in summary.reasons():
            way_out = _mark_flags(self.say(remedy))
            names = _names(summary.dropped[reason])
            rows.append((self.say(reason), self.number(count), names, way_out))
        return self.table(("Dropped because", "Clips", "For example", "What to do"), rows)

    def _more(self, counts: Counter[str]) -> str:
        more = len(counts) - MAX_ROWS
        text = self.say("and {} more", self.number(more))
        return f'<p class="more">{text}</p>' if more > 0 else ""

    def _bars(self, heading: str, counts: Counter[str]) -> str:
        most = max(counts.values(), default=1)
        rows = ""
        for name, count in counts.most_common(MAX_ROWS):
            share = 100 * count / most
            start = 100 - share if self.rtl else 0  # bars grow from where reading starts
            rows += (
                f'<tr><td>{_names([name])}</td><td><svg height="14"><rect x="{start:.2f}%"'
                f' width="{share:.2f}%" height="14"/></svg></td>'
                f'<td class="num">{self.number(count)}</td></tr>\n'
            )
        head = f"<h2>{self.say(heading)} ({self.number(len(counts))})</h2>"
        return f'{head}<table class="bars">{rows}</table>{self._more(counts)}'

    def _histogram(self, bins: list[tuple[float, float, int]]) -> str:
        bins = [item for item in bins if item[1] > 0]  # around a lone short clip some are negative
        most = max(count for _, _, count in bins)
        steps = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
        step = next(step for step in steps if most <= 5 * step)
        top, base, right = step * math.ceil(most / step), HEIGHT - BOTTOM, WIDTH - 24
        rise, wide = (base - TOP) / top, (right - LEFT) / len(bins)
        decimals = min(4, max(1, math.ceil(-math.log10((bins[-1][1] - bins[-1][0]) / 2))))
        marks = [_label((LEFT + right) / 2, HEIGHT - 8, self.say("length in seconds"))]
        marks.append(_label(14, (base + TOP) / 2, self.say("Clips"), turned=True))
        for tick in range(0, top + 1, step):
            y = base - rise * tick
            marks.append(f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            marks.append(_label(LEFT - 28, y + 4, self.number(tick)))
        for index, edge in enumerate((bins[0][0], *(high for _, high, _ in bins))):
            shown = self.number(max(0, edge), decimals)
            marks.append(_label(LEFT + wide * index, base + 18, shown))
        for index, (_, _, count) in enumerate(bins):
            x, y = LEFT + wide * index, base - rise * count
            size = f'width="{wide - 4:.1f}" height="{base - y:.1f}"'
            marks.append(f'<rect x="{x + 2:.1f}" y="{y:.1f}" {size}/>')
            marks.append(_label(x + wide / 2, y - 5, self.number(count)) if count else "")
        heading, chart = self.say("Clip lengths"), "\n".join(marks)
        box = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{heading}"'
        return f'<h2>{heading}</h2><svg class="chart" {box}>{chart}</svg>'

    def _symbols(self, counts: Counter[str]) -> str:
        rows = []
        for symbol, count in counts.most_common(MAX_ROWS):
            shown, points = _describe(symbol)
            rows.append((shown, self.number(count), points))
        head = f"<h2>{self.say('Symbols the tokenizer does not know')}</h2>"
        table = self.table(("Symbol", "Times", "Code points"), rows)
        return f"{head}{table}{self._more(counts)}" if rows else ""

    def _enough(self, summary: DataSummary) -> str:
        said = enough_for(summary.speaker_minutes)
        lines = (self.say(each.english, *map(self.digits, map(str, each.values))) for each in said)
        return f"<h2>{self.say('Enough for what')}</h2><p>{_mark_flags(' '.join(lines))}</p>"

    def _warnings(self, summary: DataSummary) -> str:
        found = {
            "Clipped (samples at the ceiling)": summary.clipped,
            "Mostly silent": summary.mostly_silent,
            "Channels cancel each other out; one is used": summary.cancelling,
        }
        rows = [(self.say(k), self.number(len(v)), _names(v)) for k, v in found.items() if v]
        table = self.table(("Warnings", "Clips", "For example"), rows)
        return f"<br>{table}" if rows else ""


def _names(names: list[str]) -> str:
    short = (name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…" for name in names)
    return "".join(f'<div class="id">{isolate(name)}</div>' for name in list(short)[:EXAMPLES])


def _mark_flags(text: str) -> str:
    return re.sub(r"--[\w-]+", r"<code>\g<0></code>", text)


def _label(x: float, y: float, text: str, *, turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{turn}>{text}</text>'


def _describe(symbol: str) -> tuple[str, str]:
    """A symbol and its code points; a mark gets a letter's place, the invisible only its name."""
    shown = f"◌{symbol}" if unicodedata.combining(symbol[0]) else symbol
    points = (f"U+{ord(char):04X} {unicodedata.name(char, '')}" for char in symbol)
    return isolate(shown if symbol.isprintable() else "", "symbol"), isolate(", ".join(points))
