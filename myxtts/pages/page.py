"""What our HTML pages share: one frame that opens offline, in two languages and two themes."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Literal

from myxtts.errors import MyXTTSError

Language = Literal["en", "fa"]

PERSIAN_DIGITS = str.maketrans("0123456789.,%", "۰۱۲۳۴۵۶۷۸۹٫٬٪")
_PERSIAN = {
    "Copy": "کپی",
    "Copied": "کپی شد",
    "Light or dark": "روشن یا تیره",
}
_DARK = """--page:#15181c;--panel:#1d2127;--ink:#e4e8ec;--soft:#9aa5b1;--line:#323a43;
--bar:#6ba6e6;--bad:#ee9a62;--good:#6cc28f;--s1:#a79be8;--s2:#4fb8a8;--s3:#e0a64a;--s4:#6ba6e6"""
# Bars are SVG and not backgrounds, which browsers leave out of print. Paper is always light.
CSS = f"""
:root{{color-scheme:light;--page:#fff;--panel:#f5f7f9;--ink:#1c2127;--soft:#5a6572;--line:#dde2e8;
--bar:#2f6fb3;--bad:#b4501e;--good:#23804f;--s1:#7664c9;--s2:#1d8f80;--s3:#b97a12;--s4:#2f6fb3}}
@media screen and (prefers-color-scheme:dark){{
:root:not([data-theme=light]){{color-scheme:dark;{_DARK}}}}}
@media screen{{:root[data-theme=dark]{{color-scheme:dark;{_DARK}}}}}
body{{margin:0 auto;padding:2rem 1.25rem;max-width:54rem;background:var(--page);color:var(--ink);
font:15px/1.6 Vazirmatn,system-ui,"Segoe UI",Tahoma,sans-serif}}
header{{display:flex;justify-content:space-between;align-items:start;gap:1rem}}
h1{{font-size:1.6rem;line-height:1.3;margin:0 0 1.25rem}}
h2{{font-size:1.1rem;margin:2.25rem 0 .6rem;break-after:avoid}}
h1,td{{overflow-wrap:anywhere}}
button{{font:inherit;font-size:.85rem;color:var(--ink);background:var(--page);cursor:pointer;
border:1px solid var(--line);border-radius:.4rem;padding:.2rem .7rem;flex:none}}
button:hover{{border-color:var(--soft)}}
button:focus-visible{{outline:2px solid var(--bar);outline-offset:1px}}
#theme{{padding:.35rem;line-height:0}}#theme svg{{width:18px;fill:currentColor}}
.cards{{display:flex;flex-wrap:wrap;gap:.5rem 2.5rem;margin-bottom:1.5rem}}
.cards b{{display:block;font-size:1.9rem;line-height:1.25;font-weight:600;color:var(--ink)}}
.cards,.more,th{{color:var(--soft)}}.note{{color:var(--bad);font-weight:600}}
table{{width:100%;border-collapse:collapse}}tr{{break-inside:avoid}}
th,td{{text-align:start;vertical-align:top;padding:.4rem 0;padding-inline-end:1.25rem}}
th{{font-weight:600;font-size:.85rem;white-space:nowrap}}
th,td{{border-bottom:1px solid var(--line)}}
.num{{text-align:end;font-variant-numeric:tabular-nums;white-space:nowrap}}
.id{{font-size:.9em}}code{{font:inherit;white-space:nowrap;unicode-bidi:isolate;direction:ltr}}
.command{{display:flex;align-items:start;gap:.75rem;margin:.6rem 0;padding:.6rem .8rem;
background:var(--panel);border:1px solid var(--line);border-radius:.5rem;break-inside:avoid}}
.command code{{flex:1;font:13px/1.7 ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;
white-space:pre-wrap;overflow-wrap:anywhere;text-align:left}}
svg{{display:block;width:100%}}.chart{{break-inside:avoid;direction:ltr}}
rect{{fill:var(--bar)}}line{{stroke:var(--line)}}
text{{fill:var(--soft);font-size:12px;text-anchor:middle}}
@media print{{body{{max-width:none;padding:0;font-size:10.5pt}}button{{display:none}}}}
"""
_THEME_ICON = (
    '<svg viewBox="0 0 20 20" aria-hidden="true"><path d="M10 1a9 9 0 1 0 0 18a9 9 0 1 0 0-18zm0 2'
    'a7 7 0 0 1 0 14z"/></svg>'
)
# A file opened from disk may have no storage and no clipboard: the page then does without one and
# selects the text instead of the other.
_SCRIPT = """
(() => {
  const root = document.documentElement;
  try { const kept = localStorage.getItem("theme"); if (kept) root.dataset.theme = kept; }
  catch (error) { /* no storage */ }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.id === "theme") {
      const dark = getComputedStyle(root).colorScheme === "dark";
      root.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch (error) { /* no storage */ }
    } else if (button.dataset.copied) {
      const code = button.parentElement.querySelector("code");
      try { await navigator.clipboard.writeText(code.textContent); }
      catch (error) {
        getSelection().selectAllChildren(code);
        if (!document.execCommand("copy")) return;
      }
      const before = button.textContent;
      button.textContent = button.dataset.copied;
      setTimeout(() => { button.textContent = before; }, 1500);
    }
  });
})();
"""


class Page:
    """A page in one language: its words (Persian ones by their English), digits and side."""

    def __init__(self, language: Language, persian: Mapping[str, str]) -> None:
        self.language, self.rtl = language, language == "fa"
        self._persian = {**_PERSIAN, **persian}

    def say(self, english: str, *values: str) -> str:
        """A text in the page's language, escaped; `{}` in it takes the values."""
        return escape(self.words(english, *values))

    def words(self, english: str, *values: str) -> str:
        """The same, not escaped: for JSON, or to be escaped later."""
        words = self._persian.get(english, english) if self.rtl else english
        return words.format(*values) if values else words

    def number(self, value: float, decimals: int = 0) -> str:
        """A number with the digits of the language."""
        return self.digits(f"{value:,.{decimals}f}")

    def percent(self, share: float, decimals: int = 0) -> str:
        """A share from 0 to 1 in per cent."""
        return self.digits(f"{100 * share:.{decimals}f}%")

    def digits(self, text: str) -> str:
        """A formatted number or time with the digits of the language."""
        return text.translate(PERSIAN_DIGITS) if self.rtl else text

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Rows of ready cells under heads still in English; the second column holds numbers."""
        body = ""
        for tag, (first, number, *rest) in (
            ("th", [self.say(head) for head in heads]),
            *(("td", row) for row in rows),
        ):
            others = "".join(f"<{tag}>{cell}</{tag}>" for cell in rest)
            body += f'<tr><{tag}>{first}</{tag}><{tag} class="num">{number}</{tag}>{others}</tr>\n'
        return f"<table>{body}</table>"

    def command(self, line: str) -> str:
        """A command line with a button that copies it."""
        return (
            f'<div class="command" dir="ltr"><code>{escape(line)}</code>'
            f'<button type="button" data-copied="{self.say("Copied")}">{self.say("Copy")}</button>'
            "</div>"
        )

    def frame(self, title: str, body: str, *, css: str = "", script: str = "") -> str:
        """The whole page around a body of ready HTML: its title, style and the theme's button."""
        side, theme = "rtl" if self.rtl else "ltr", self.say("Light or dark")
        return (
            f'<!DOCTYPE html>\n<html lang="{self.language}" dir="{side}"><head>'
            '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{escape(title)}</title><style>{CSS}{css}</style></head>\n"
            f'<body>\n<header><h1>{isolate(title)}</h1><button type="button" id="theme"'
            f' title="{theme}" aria-label="{theme}">{_THEME_ICON}</button></header>\n'
            f"{body}\n<script>{_SCRIPT}{script}</script>\n</body></html>\n"
        )


def isolate(text: str, kind: str = "") -> str:
    """Text from elsewhere: escaped, and kept from turning the words around it."""
    return f'<bdi class="{kind}">{escape(text)}</bdi>' if kind else f"<bdi>{escape(text)}</bdi>"


def ltr(text: str) -> str:
    """A name, flag or unit kept left to right inside a Persian sentence, as plain text."""
    return f"\u2066{text}\u2069"


def write_page(path: Path, page: str) -> None:
    """Write a page whole or not at all; one already there is replaced."""
    draft = path.parent / f".report-{secrets.token_hex(4)}.tmp"
    try:
        try:
            # A name that was no UTF-8 is still shown, with its odd bytes made visible.
            draft.write_text(page, encoding="utf-8", errors="backslashreplace")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        problem = f"The report {path} cannot be written: {error.strerror}"
        remedy = "name a file in a folder that exists and may be written to"
        raise MyXTTSError(problem, remedy) from error
