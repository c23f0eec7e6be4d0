"""Writes what `myxtts data check` found as one HTML file that opens anywhere, offline."""

from __future__ import annotations

import math
import secrets
import unicodedata
from collections import Counter
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal

from myxtts.data.summary import EXAMPLES, DataSummary
from myxtts.errors import MyXTTSError

MAX_BARS = 20
MAX_SYMBOLS = 20
MAX_NAME = 80  # characters of a file or speaker name
WIDTH, HEIGHT = 760, 300  # of the histogram
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 24, 52  # its margins

ENGLISH = {
    "listed": "clips listed",
    "kept": "kept",
    "dropped": "dropped",
    "hours": "hours",
    "speakers": "Speakers",
    "languages": "Languages",
    "why": "Dropped clips",
    "reason": "Dropped because",
    "clips": "Clips",
    "examples": "For example",
    "remedy": "What to do",
    "none dropped": "No clip was dropped.",
    "none kept": "Nothing is left to train on.",
    "more": "and {} more",
    "lengths": "Clip lengths",
    "seconds": "length in seconds",
    "range": "{} to {} s: {}",
    "unknown": "Symbols the tokenizer does not know",
    "symbol": "Symbol",
    "code": "Code point",
    "times": "Times",
    "warnings": "Warnings",
    "clipped": "Clipped clips (samples at the ceiling): {}. For example:",
    "mostly silent": "Mostly silent clips: {}. For example:",
}
PERSIAN = {
    "listed": "کلیپ در فهرست",
    "kept": "پذیرفته‌شده",
    "dropped": "کنار گذاشته‌شده",
    "hours": "ساعت",
    "speakers": "گوینده‌ها",
    "languages": "زبان‌ها",
    "why": "کلیپ‌های کنار گذاشته‌شده",
    "reason": "دلیل",
    "clips": "تعداد کلیپ",
    "examples": "برای نمونه",
    "remedy": "چه باید کرد",
    "none dropped": "هیچ کلیپی کنار گذاشته نشد.",
    "none kept": "هیچ کلیپی برای آموزش باقی نمانده است.",
    "more": "و {} مورد دیگر",
    "lengths": "طول کلیپ‌ها",
    "seconds": "طول به ثانیه",
    "range": "{} تا {} ثانیه: {}",
    "unknown": "نمادهایی که توکن‌ساز نمی‌شناسد",
    "symbol": "نماد",
    "code": "کد یونیکد",
    "times": "دفعات",
    "warnings": "هشدارها",
    "clipped": "کلیپ‌هایی که صدایشان به سقف خورده و بریده شده است: {}. برای نمونه:",
    "mostly silent": "کلیپ‌هایی که بیشترشان سکوت است: {}. برای نمونه:",
}
# Reason -> how it reads in Persian, and the remedy. Options are isolated, or `--` moves to the end.
PERSIAN_REASONS = {
    "bad row": ("ردیف نادرست", "ردیف را در فهرست کلیپ‌ها درست کنید"),
    "empty text": ("متن خالی", "آنچه را گفته می‌شود در فهرست کلیپ‌ها بنویسید"),
    "outside the data folder": ("بیرون از پوشهٔ داده", "فایل را در پوشهٔ داده کپی کنید"),
    "missing": (
        "پیدا نشد",
        "نام را بررسی کنید یا فایل را اضافه کنید (WAV، FLAC، OGG یا MP3)",
    ),
    "not a file": ("فایل نیست", "این نام از آنِ یک پوشه یا دستگاه است؛ نامش را عوض کنید"),
    "empty file": ("فایل خالی", "دوباره ضبط یا کپی کنید"),
    "unreadable": ("خوانده نمی‌شود", "به WAV، FLAC، OGG یا MP3 تبدیل کنید"),
    "truncated": ("ناقص", "دوباره کپی کنید: صدای آن کمتر از مقداری است که خود فایل می‌گوید"),
    "not a number": ("نمونه‌های نامعتبر", "دوباره بسازید: نمونه‌های NaN یا بی‌نهایت دارد"),
    "silent": ("بی‌صدا", "دوباره ضبط کنید: چیزی شنیده نمی‌شود"),
    "too short": ("خیلی کوتاه", "کنارش بگذارید یا به کلیپ دیگری بچسبانید"),
    "too long": (
        "خیلی طولانی",
        "در یک مکث آن را ببُرید یا \u2066--max-mel-frames\u2069 را بیشتر کنید",
    ),
    "text too long": (
        "متن خیلی طولانی",
        "کلیپ را در یک مکث ببُرید یا \u2066--max-text-length\u2069 را بیشتر کنید",
    ),
}
PERSIAN_DIGITS = str.maketrans("0123456789.,", "۰۱۲۳۴۵۶۷۸۹٫٬")

# Bars are SVG, not backgrounds: browsers leave backgrounds out of print.
CSS = """
:root{color-scheme:light dark;--page:#fff;--ink:#1c2127;--soft:#5a6572;--line:#dde2e8;
--bar:#2f6fb3;--bad:#b4501e;--note:#fdf3ea}
@media screen and (prefers-color-scheme:dark){:root{--page:#15181c;--ink:#e4e8ec;--soft:#9aa5b1;
--line:#323a43;--bar:#6ba6e6;--bad:#ee9a62;--note:#2b2119}}
*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1.25rem;max-width:54rem;background:var(--page);color:var(--ink);
font:15px/1.6 Vazirmatn,system-ui,"Segoe UI",Tahoma,sans-serif}
h1{font-size:1.6rem;line-height:1.3;margin:0 0 1.25rem}
h2{font-size:1.1rem;margin:2.25rem 0 .6rem;break-after:avoid}
h1,td,li{overflow-wrap:anywhere}
.cards{display:flex;flex-wrap:wrap;gap:.5rem 2.5rem;margin-bottom:1rem}
.cards b{display:block;font-size:1.9rem;line-height:1.25;font-weight:600}
.cards,.more{color:var(--soft)}.cards b{color:var(--ink)}.cards .bad b{color:var(--bad)}
table{width:100%;border-collapse:collapse}tr{break-inside:avoid}
th{font-weight:600;color:var(--soft);font-size:.85rem;white-space:nowrap}
th,td{text-align:start;vertical-align:top;padding:.4rem 0;padding-inline-end:1.25rem}
th,.lined td{border-bottom:1px solid var(--line)}
.num{text-align:end;font-variant-numeric:tabular-nums;white-space:nowrap}
.bars{table-layout:fixed}.bars td{padding-block:.12rem;vertical-align:middle}
.bars td:first-child{width:30%}.bars td:last-child{width:6rem;padding-inline-end:0}
.id{display:block;font-size:.9em}.more{margin:.3rem 0}
.symbol{font-size:1.2em;line-height:1}
.note{background:var(--note);border:1px solid var(--bad);border-radius:6px;padding:.7rem 1rem}
ul{list-style:none;margin:0;padding:0}li+li{margin-top:.6rem}
svg{display:block;width:100%}.chart{break-inside:avoid;direction:ltr}
rect{fill:var(--bar)}rect.bad{fill:var(--bad)}line{stroke:var(--line)}
text{fill:var(--soft);font-size:12px;text-anchor:middle}text.count{fill:var(--ink)}
@media print{body{max-width:none;padding:0;font-size:11pt}}
"""


@dataclass(frozen=True)
class _Page:
    """The language of a report: its words, digits and side."""

    language: Literal["en", "fa"]

    @property
    def rtl(self) -> bool:
        return self.language == "fa"

    def say(self, key: str, *values: str) -> str:
        return (PERSIAN if self.rtl else ENGLISH)[key].format(*values)

    def number(self, value: float, decimals: int = 0) -> str:
        digits = f"{value:,.{decimals}f}"
        return digits.translate(PERSIAN_DIGITS) if self.rtl else digits


def write_report(
    path: Path, summary: DataSummary, *, title: str, language: Literal["en", "fa"] = "en"
) -> None:
    """Write the report whole or not at all; a report already there is replaced."""
    page = _render(_Page(language), summary, title)
    draft = path.parent / f".report-{secrets.token_hex(4)}.tmp"
    try:
        try:
            # A name that was no UTF-8 is still shown, with its odd bytes made visible.
            draft.write_text(page, encoding="utf-8", errors="backslashreplace")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise MyXTTSError(
            f"The report {path} cannot be written: {error.strerror or error}",
            "name a file in a folder that exists and may be written to",
        ) from error


def _render(page: _Page, summary: DataSummary, title: str) -> str:
    parts = [f"<h1>{_isolate(title)}</h1>", _cards(page, summary), _dropped(page, summary)]
    if summary.kept:
        parts += [
            _bars(page, "speakers", summary.speakers),
            _bars(page, "languages", summary.languages),
            _histogram(page, summary.histogram),
            _symbols(page, summary.unknown_symbols),
            _warnings(page, summary),
        ]
    else:
        parts.insert(2, f'<p class="note">{page.say("none kept")}</p>')
    return (
        f'<!DOCTYPE html>\n<html lang="{page.language}" dir="{"rtl" if page.rtl else "ltr"}">\n'
        '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head>\n"
        "<body>\n" + "\n".join(filter(None, parts)) + "\n</body></html>\n"
    )


def _isolate(text: str, kind: str = "") -> str:
    """Text from the data: escaped, and kept from turning the words around it."""
    return f"<bdi{kind and f' class={kind}'}>{escape(text)}</bdi>"


def _names(names: list[str]) -> str:
    return "".join(_isolate(_shorten(name), "id") for name in names[:EXAMPLES])


def _shorten(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


def _cards(page: _Page, summary: DataSummary) -> str:
    dropped = summary.listed - summary.kept
    shown = [
        ("listed", page.number(summary.listed), ""),
        ("kept", page.number(summary.kept), ""),
        ("dropped", page.number(dropped), "bad" if dropped else ""),
    ]
    if summary.kept:
        shown.append(("hours", page.number(summary.hours, 2), ""))
    cards = (f'<div class="{kind}"><b>{value}</b>{page.say(key)}</div>' for key, value, kind in shown)
    return f'<div class="cards">{"".join(cards)}</div>'


def _table(page: _Page, heads: tuple[str, ...], rows: list[tuple[str, ...]], num: int) -> str:
    """A table of ready cells; column `num` holds numbers."""

    def line(cells: tuple[str, ...], tag: str) -> str:
        kinds = (' class="num"' if column == num else "" for column in range(len(cells)))
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, cells))

    head = line(tuple(map(page.say, heads)), "th")
    body = "\n".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f'<table class="lined"><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>'


def _dropped(page: _Page, summary: DataSummary) -> str:
    if not summary.dropped:
        return f"<p>{page.say('none dropped')}</p>" if summary.kept else ""
    rows = []
    for reason, count, _, remedy in summary.reasons():
        said, way_out = PERSIAN_REASONS.get(reason, (reason, remedy)) if page.rtl else (reason, remedy)
        names = _names(summary.dropped[reason])
        rows.append((_isolate(said), page.number(count), names, _isolate(way_out)))
    heads = ("reason", "clips", "examples", "remedy")
    return f"<h2>{page.say('why')}</h2>{_table(page, heads, rows, 1)}"
