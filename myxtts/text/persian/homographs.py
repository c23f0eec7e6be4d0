"""Words written alike and read differently, told apart by the tagger and by their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from myxtts.text.persian.files import read_lines
from myxtts.text.persian.lexicon import own_words
from myxtts.text.persian.phonemes import plain

_REACH = 4  # words to either side that count as near


class _Choice(NamedTuple):
    reading: str
    kind: str  # "tag", "next", "prev" or "near"
    words: frozenset[str]


@lru_cache(maxsize=1)
def _table() -> dict[str, list[_Choice]]:
    table: dict[str, list[_Choice]] = {}
    for line in read_lines("homographs.txt"):
        word, reading, condition = line.split()
        kind, _, words = condition.partition("=")
        choice = _Choice(reading, kind, frozenset(words.split(",")))
        table.setdefault(word, []).append(choice)
    return table


def choose_reading(words: Sequence[str], tags: Sequence[str], place: int) -> tuple[str, str] | None:
    """The reading that the sentence asks for and what told it, or None for the usual one."""
    for choice in _table().get(words[place], ()):
        if choice.kind == "tag":
            if tags[place] in choice.words:
                return choice.reading, "tagger"
        elif choice.words & set(_neighbours(words, place, choice.kind)):
            return choice.reading, "rules"
    return None


def other_readings(word: str, reading: str) -> list[str]:
    """The readings a word may have elsewhere."""
    reading = plain(reading)
    found = [choice.reading for choice in _table().get(word, ())] + [own_words().get(word, reading)]
    return [other for other in dict.fromkeys(map(plain, found)) if other != reading]


def _neighbours(words: Sequence[str], place: int, kind: str) -> Sequence[str]:
    if kind == "next":
        return words[place + 1 : place + 2] or (".",)
    if kind == "prev":
        return words[place - 1 : place] if place else ()
    around = (*words[max(place - _REACH, 0) : place], *words[place + 1 : place + 1 + _REACH])
    return tuple(around)
