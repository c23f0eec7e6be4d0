"""Letter to sound: a guess at words that no table holds, from how the table's words are read.

Every word of our table is laid letter by letter along its reading once; a new word's letters are
then read as those in the most similar surroundings are. Nothing is trained ahead or stored.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import log

from myxtts.text.persian.lexicon import own_words
from myxtts.text.persian.morphology import LONGEST_WORD, with_ending

_CONSONANTS = {
    "ب": "b", "پ": "p", "ت": "t", "ث": "s", "ج": "j", "چ": "č", "ح": "h", "خ": "x", "د": "d", "ذ": "z",
    "ر": "r", "ز": "z", "ژ": "ž", "س": "s", "ش": "š", "ص": "s", "ض": "z", "ط": "t", "ظ": "z", "غ": "q",
    "ف": "f", "ق": "q", "ک": "k", "گ": "g", "ل": "l", "م": "m", "ن": "n",
}  # fmt: skip
_PIECES = {letter: f"{sound}{{1,2}}[aeo]?" for letter, sound in _CONSONANTS.items()} | {
    "ع": "'{0,2}[aeo]?", "ه": "h{1,2}[aeo]?|e|a|", "و": "v{1,2}[aeo]?|u|ow|o|", "آ": "'?â",
    "ی": "y{1,2}[aeo]?|iy{0,2}|i[y]?[aeo]?|ey|â|'i|", "ا": "'?â|'?[aeo]|", "ئ": "'[aeo]?|'i|y[aeo]?|i",
    "ؤ": "'[aeo]?", "ء": "'?[aeo]?", "أ": "'?a?", "إ": "'?e", "ً": "an",
}  # fmt: skip
_PATTERNS = {letter: re.compile(pieces) for letter, pieces in _PIECES.items()}
_KEPT = frozenset("اآویمتنسه")  # letters that shape Arabic words; the others are alike
_SHARED = frozenset(_PIECES) - frozenset(_CONSONANTS)  # letters whose pieces are their own
_EDGE = "#"
_BEAM, _BRANCHES, _LONGEST = 6, 4, LONGEST_WORD
_PENALTY = 1.5
_AWKWARD = re.compile(
    "^[^aâeoiu'][^aâeoiu]|(?<![^aâeoiu])([^aâeoiu])(?!\\1)[^aâeoiu]{2}|[âiu][^aâeoiustxš][^aâeoiu]$"
)
_SAME = "-"


def guess(word: str) -> str:
    """The likeliest reading of a word, by its letters; an ending that is known is read as such."""
    first, joiner, ending = word.rpartition("\u200c")
    if joiner and first and len(word) <= _LONGEST:
        stem = guess(first)
        return with_ending(stem, ending) or stem + guess(ending) if stem else guess(ending)
    for plural in ("هایی", "هایم", "هایش", "ها"):
        if word.endswith(plural) and len(word) > len(plural) + 2:
            return with_ending(guess(word.removesuffix(plural)), plural) or ""
    letters = "".join(letter for letter in word if letter in _PIECES)
    if len(letters) > _LONGEST:  # no word: each letter by itself
        return "".join(_CONSONANTS.get(letter, "â") for letter in letters)
    return _guess(letters)


@lru_cache(maxsize=8192)
def _guess(letters: str) -> str:
    paths: list[tuple[float, list[str]]] = [(0.0, [])]
    for place in range(len(letters)):
        longer = [
            (score + log(share), [*said, piece])
            for score, said in paths
            for piece, share in _likely(letters, place, said)
        ]
        paths = sorted(longer, key=lambda path: -path[0])[:_BEAM]
    readings = [(score - _awkward(_joined(letters, said)), said) for score, said in paths]
    return _joined(letters, max(readings, key=lambda path: path[0])[1])


def _likely(letters: Sequence[str], place: int, said: Sequence[str]) -> list[tuple[str, float]]:
    """The pieces a letter may say here, each with its share, the best first."""
    tables = _tables()
    scores: dict[str, float] = defaultdict(float)
    for kind, context in enumerate(_contexts(letters, place, said)):
        seen = tables.get((kind, context))
        if seen is not None:
            total = seen.total() + 0.5
            for piece, count in seen.items():
                scores[piece] += _WEIGHTS[kind] * count / total
    whole = sum(scores.values())
    best = sorted(scores.items(), key=lambda item: -item[1])[:_BRANCHES]
    return [(piece, score / whole) for piece, score in best] or [(_SAME, 1.0)]


def _joined(letters: Sequence[str], said: Sequence[str]) -> str:
    pairs = zip(letters, said, strict=True)
    return "".join(piece.replace(_SAME, _CONSONANTS.get(letter, "")) for letter, piece in pairs)


def _awkward(reading: str) -> float:
    """What no Persian mouth says costs: two consonants in front, three in a row."""
    return _PENALTY * sum(1 for _ in _AWKWARD.finditer(reading))


def align(letters: Sequence[str], reading: str) -> list[str] | None:
    """The part of the reading that each letter says, or None if they do not fit."""
    rests: list[dict[int, tuple[int, str]]] = [{0: (0, "")}]
    for letter in letters:
        pattern = _PATTERNS.get(letter)
        if pattern is None:
            return None
        reached: dict[int, tuple[int, str]] = {}
        for begin in rests[-1]:
            for end in range(begin, min(begin + 4, len(reading)) + 1):
                if pattern.fullmatch(reading[begin:end]):
                    reached.setdefault(end, (begin, reading[begin:end]))
        rests.append(reached)
    if len(reading) not in rests[-1]:
        return None
    place, pieces = len(reading), []
    for reached in reversed(rests[1:]):
        place, piece = reached[place]
        pieces.append(piece)
    return pieces[::-1]


@lru_cache(maxsize=1)
def _tables() -> dict[tuple[int, str], Counter[str]]:
    tables: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for word, reading in own_words().items():
        pieces = align(word, reading)
        if pieces is None:
            continue
        # What a consonant itself sounds like is known: only the vowels around it are learned.
        pieces = [
            piece.replace(_CONSONANTS[letter], _SAME) if letter in _CONSONANTS else piece
            for letter, piece in zip(word, pieces, strict=True)
        ]
        for place, piece in enumerate(pieces):
            for kind, context in enumerate(_contexts(word, place, pieces)):
                tables[kind, context][piece] += 1
    return dict(tables)


_WEIGHTS = (0.1, 0.5, 0.5, 1.0, 1.5, 1.5, 3.0, 3.0, 4.0, 3.0, 3.0, 4.0)


def _contexts(letters: Sequence[str], place: int, said: Sequence[str]) -> Iterator[str]:
    """The surroundings of a letter, from vague to exact; each kind always at the same position."""
    padded = [_EDGE] * 3 + list(letters) + [_EDGE] * 3
    i = place + 3
    before = said[place - 1] if place else _EDGE
    yield padded[i]
    yield "".join(padded[i : i + 2])
    yield "".join(padded[i - 1 : i + 1])
    yield "".join(padded[i - 1 : i + 2])
    yield "".join(padded[i : i + 3])
    yield f"{before} {''.join(padded[i : i + 2])}"
    yield "".join(padded[i - 1 : i + 3])
    yield "".join(padded[i - 2 : i + 2])
    yield "".join(padded[i - 2 : i + 3])
    shape = "".join(letter if letter in _KEPT else "-" for letter in letters)
    yield f"{place} {shape} {padded[i] if padded[i] in _SHARED else ''}"
    yield f"{before} {''.join(padded[i : i + 3])}"
    yield f"{before} {''.join(padded[i - 1 : i + 4])}"
