"""Compares readings of Persian with the ones written down by hand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from myxtts.text.persian.phonemes import from_ipa

DATA = Path(__file__).parent / "data"
_MARKS = re.compile('[.،؟!؛:«»"]')
_EZAFE = re.compile("-y?e$")


class GoldWord(NamedTuple):
    """A word of the set, the readings that are right for it, and whether it takes the ezafe."""

    word: str
    readings: tuple[str, ...]
    ezafe: bool


def read_gold(part: str) -> Iterator[tuple[str, list[GoldWord]]]:
    """The sentences of `dev` or `test`."""
    for line in (DATA / f"persian_{part}.tsv").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        text, readings = line.split("\t")
        words = _MARKS.sub("", text).split()
        gold = [
            GoldWord(word, _variants(word, _EZAFE.sub("", said)), bool(_EZAFE.search(said)))
            for word, said in zip(words, readings.split(), strict=True)
        ]
        yield text, gold


def _variants(word: str, said: str) -> tuple[str, ...]:
    return ("va", "o") if word == "و" else tuple(said.split("/"))


def folded(reading: str) -> str:
    """Without what a reader may leave out: glottal stops, doubling, and the end of ow."""
    return re.sub(r"(.)\1+", r"\1", reading.replace("'", "").replace("ow", "o"))


@dataclass
class Scores:
    """Right words by group, and the ezafes found, invented and missed."""

    right: Counter[str] = field(default_factory=Counter)
    strict: Counter[str] = field(default_factory=Counter)
    all: Counter[str] = field(default_factory=Counter)
    found: int = 0
    invented: int = 0
    missed: int = 0

    def add(self, gold: GoldWord, said: str, *, ezafe: bool, group: str) -> None:
        """Count a word; `said` is its reading without the ezafe."""
        self.all[group] += 1
        self.strict[group] += said in gold.readings
        self.right[group] += folded(said) in map(folded, gold.readings)
        self.found += gold.ezafe and ezafe
        self.invented += ezafe and not gold.ezafe
        self.missed += gold.ezafe and not ezafe

    def share(self, group: str, *, strict: bool = False) -> float:
        """The share of a group's words that are right."""
        return (self.strict if strict else self.right)[group] / max(self.all[group], 1)

    @property
    def precision(self) -> float:
        """Of the ezafes said, those that belong there."""
        return self.found / max(self.found + self.invented, 1)

    @property
    def recall(self) -> float:
        """Of the ezafes that belong there, those said."""
        return self.found / max(self.found + self.missed, 1)


def without_ezafe(ipa: str, gold: GoldWord) -> tuple[str, bool]:
    """What a reader that marks no ezafe said, and whether one is heard behind the word."""
    said = from_ipa(ipa)
    for reading in map(folded, gold.readings):
        for ending in ("e", "ye"):
            if folded(said) == folded(reading + ending) != reading:
                return said.removesuffix(ending), True
    return said, False


def number_cases() -> Iterable[tuple[str, str]]:
    """What is written in figures, and what is said."""
    lines = (DATA / "persian_numbers.tsv").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if not line.startswith("#"):
            written, said = line.split("\t")
            yield written, said
