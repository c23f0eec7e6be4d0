"""Reads the part of SSML (W3C, 1.1) that this project can speak; names the rest."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from math import log2

from num2words import num2words

from myxtts.errors import DataError
from myxtts.text.markup import PLAIN, Marked, Passage, Style

MOST_DEPTH = 40
LONGEST_BREAK_S = 20.0
SENTENCE_S = 0.45  # behind a sentence that was marked as one, as behind every other
STRENGTHS = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.5, "strong": 0.8, "x-strong": 1.2}
RATES = {"x-slow": 0.5, "slow": 0.8, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.6}
PITCHES = {"x-low": -6.0, "low": -3.0, "medium": 0.0, "default": 0.0, "high": 3.0, "x-high": 6.0}
SPELLED = {"characters", "spell-out", "verbatim", "digits", "telephone"}
NUMBERS = {"cardinal", "number", "ordinal"}

_TIME = re.compile(r"\+?(\d+(?:\.\d+)?|\.\d+)(ms|s)")
_PERCENT = re.compile(r"([+-]?\d+(?:\.\d+)?)%")
_SEMITONES = re.compile(r"([+-]?\d+(?:\.\d+)?)st")
_GAPS = re.compile(r"\s+")


def parse_ssml(text: str, language: str) -> Marked:
    """A whole `<speak>` document."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise DataError("SSML with a document type is not read.", "leave out the <!DOCTYPE>")
    try:
        root = ET.fromstring(text.strip("\ufeff \t\r\n"))  # noqa: S314 - without entities
    except (ET.ParseError, ValueError) as error:
        raise DataError(
            f"The text begins as SSML and is not well formed: {error}.",
            "close every tag, write &amp; for & and &lt; for <",
        ) from error
    if _name(root) != "speak":
        raise DataError(f"The outermost tag is <{_name(root)}>.", "<speak>…</speak>")
    return _Reader(language).read(root)


class _Reader:
    def __init__(self, language: str) -> None:
        self._marked, self._language = Marked(), language
        self._text: list[str] = []
        self._styles: list[Style] = []

    def read(self, root: ET.Element) -> Marked:
        for name in root.attrib:
            if _bare(name) not in ("version", "lang", "schemaLocation", "base"):
                self._name(f"speak {_bare(name)}")
        self._inside(root, PLAIN, 0)
        self._end(None)
        return self._marked

    def _inside(self, element: ET.Element, style: Style, depth: int) -> None:
        if depth > MOST_DEPTH:
            raise DataError(f"The SSML is nested more than {MOST_DEPTH} deep.", "flatter SSML")
        self._add(self._marked.replace_inline(element.text or ""), style)
        for child in element:
            self._element(child, style, depth + 1)
            self._add(self._marked.replace_inline(child.tail or ""), style)

    def _element(self, element: ET.Element, style: Style, depth: int) -> None:
        name = _name(element)
        if name == "break":
            self._end(self._break(element))
        elif name in ("p", "s"):
            pause = None if name == "p" else SENTENCE_S
            self._end(pause)
            self._inside(element, style, depth)
            self._end(pause)
        elif name == "phoneme":
            self._phoneme(element, style)
        elif name == "sub" and element.get("alias"):
            self._add(f" {element.get('alias')} ", style)
        elif name == "say-as":
            self._say_as(element, style)
        elif name == "prosody":
            self._inside(element, self._prosody(element, style), depth)
        else:
            self._name(f"<{name}>")
            self._inside(element, style, depth)

    # -- what each asks for --

    def _break(self, element: ET.Element) -> float:
        time, strength = element.get("time"), element.get("strength", "medium")
        if time is None:
            if strength not in STRENGTHS:
                self._name(f'<break strength="{strength}">')
            return STRENGTHS.get(strength, STRENGTHS["medium"])
        match = _TIME.fullmatch(time.strip())
        if match is None:
            self._name(f'<break time="{time}">')
            return STRENGTHS["medium"]
        seconds = float(match[1]) / (1000.0 if match[2] == "ms" else 1.0)
        if seconds > LONGEST_BREAK_S:
            self._name(f'<break time="{time}"> beyond {LONGEST_BREAK_S:g}s')
        return min(seconds, LONGEST_BREAK_S)

    def _phoneme(self, element: ET.Element, style: Style) -> None:
        alphabet, sounds = element.get("alphabet", "ipa"), element.get("ph", "").strip("/ ")
        word = " ".join("".join(element.itertext()).split()) or sounds
        if alphabet != "ipa" or not sounds:
            self._name(f'<phoneme alphabet="{alphabet}">' if sounds else "<phoneme> without ph")
            self._add(word, style)
            return
        self._add(self._marked.stand_in(word, f"/{sounds}/"), style)

    def _say_as(self, element: ET.Element, style: Style) -> None:
        kind = element.get("interpret-as", "")
        said = "".join(element.itertext()).strip()
        if kind in SPELLED:
            said = " ".join(_spelled(said))
        elif kind == "ordinal" and said.isdecimal() and len(said) < 16:
            try:
                said = num2words(int(said), to="ordinal", lang=self._language.partition("-")[0])
            except (NotImplementedError, OverflowError):
                self._name(f'<say-as interpret-as="ordinal"> in {self._language}')
        elif kind not in NUMBERS:
            self._name(f'<say-as interpret-as="{kind}">')
        self._add(said, style)

    def _prosody(self, element: ET.Element, style: Style) -> Style:
        speed, shift = style
        for name, value in element.attrib.items():
            found = None
            if name == "rate":
                found = _rate(value)
                speed = speed if found is None else speed * found
            elif name == "pitch":
                found = _semitones(value)
                shift = shift if found is None else shift + found
            if found is None:
                self._name(f'<prosody {_bare(name)}="{value}">')
        return Style(min(4.0, max(0.25, speed)), min(24.0, max(-24.0, shift)))

    # -- collecting --

    def _add(self, text: str, style: Style) -> None:
        self._text.append(_GAPS.sub(" ", text))
        self._styles += [style] * sum(not character.isspace() for character in text)

    def _end(self, pause: float | None) -> None:
        text = "".join(self._text).strip()
        styled = any(style != PLAIN for style in self._styles)
        if text:
            styles = tuple(self._styles) if styled else ()
            self._marked.passages.append(Passage(text, styles, pause))
        elif pause and self._marked.passages:  # a break behind a break, or behind a sentence
            last = self._marked.passages[-1]
            self._marked.passages[-1] = last._replace(pause=max(last.pause or 0.0, pause))
        self._text, self._styles = [], []

    def _name(self, what: str) -> None:
        if what not in self._marked.unsupported:
            self._marked.unsupported.append(what)


def _rate(value: str) -> float | None:
    value = value.strip()
    if value in RATES:
        return RATES[value]
    match = _PERCENT.fullmatch(value)
    if match:
        percent = float(match[1])
        if value[0] in "+-":
            percent += 100.0  # a change
        return percent / 100.0 if percent > 0 else None
    try:
        plain = float(value)  # SSML 1.0: a multiplier
    except ValueError:
        return None
    return plain if 0 < plain < 100 else None


def _semitones(value: str) -> float | None:
    value = value.strip()
    if value in PITCHES:
        return PITCHES[value]
    if match := _SEMITONES.fullmatch(value):
        return float(match[1])
    match = _PERCENT.fullmatch(value)
    if match and value[0] in "+-" and float(match[1]) > -95.0:
        return 12.0 * log2(1.0 + float(match[1]) / 100.0)
    return None


def _spelled(text: str) -> Iterator[str]:
    for character in text:
        if character.isalnum():
            yield character.upper() if character.isascii() else character


def _name(element: ET.Element) -> str:
    return _bare(element.tag) if isinstance(element.tag, str) else "?"


def _bare(name: str) -> str:
    return name.rpartition("}")[2]
