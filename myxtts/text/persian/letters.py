"""Lays a word's letters along its reading: which letter says which part of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
_LONGEST_PIECE = 4


def align(letters: Sequence[str], reading: str) -> list[str] | None:
    """The part of the reading that each letter says, or None if they do not fit."""
    rests: list[dict[int, tuple[int, str]]] = [{0: (0, "")}]
    for letter in letters:
        pattern = _PATTERNS.get(letter)
        if pattern is None:
            return None
        reached: dict[int, tuple[int, str]] = {}
        for begin in rests[-1]:
            for end in range(begin, min(begin + _LONGEST_PIECE, len(reading)) + 1):
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
