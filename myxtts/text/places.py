"""Which symbols say which word: read from the symbols of a line and of each of its words alone.

Words are said otherwise in a sentence than by themselves (espeak-ng writes "of the" as one, a
number is said in several), so counting the gaps between symbols would go wrong: the two rows of
symbols are laid side by side at the least cost.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from myxtts.text.tokenizers import END_ID, Tokenizer

# Scripts without gaps between words: each character is shown by itself.
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_OTHER, _LEFT_OUT = 1.0, 0.7  # the cost of another symbol, and of one that only one row has


class Place(NamedTuple):
    """A word of a line and its symbols: from `begin` up to `end`, without the pauses around it."""

    word: str
    begin: int
    end: int


def split_words(text: str) -> list[str]:
    """The words of a line, with the marks at their sides; what is only marks joins the word before.

    The characters stay all and in order, but for the gaps.
    """
    words: list[str] = []
    for part in text.split():
        pieces = [piece for piece in re.split(f"({_UNSPACED.pattern})", part) if piece]
        for piece in pieces:
            if words and not _speaks(piece):
                words[-1] += piece
            else:
                words.append(piece)
    return words


def place_words(
    words: Sequence[str], ids: Sequence[int], *, tokenizer: Tokenizer, language: str
) -> list[Place]:
    """The place of each word among the ids of the line; the n-th place is the n-th word's."""
    sounding = [i for i, symbol in enumerate(ids) if _sounds(symbol, tokenizer)]
    alone = [_symbols(word, tokenizer, language) for word in words]
    owners = _side_by_side([ids[i] for i in sounding], alone)
    places, at = [], 1
    for number, word in enumerate(words):
        own = [i for i, owner in zip(sounding, owners, strict=True) if owner == number]
        begin, end = (own[0], own[-1] + 1) if own else (at, at)
        places.append(Place(word, begin, end))
        at = end
    return places


def owners_of(places: Sequence[Place], count: int) -> list[int]:
    """The number of the word that each of so many symbols belongs to, pauses to the one before."""
    owners = np.zeros(count, np.int64)
    for number, place in enumerate(places):
        owners[place.begin :] = number
    return [int(owner) for owner in owners]


def _symbols(word: str, tokenizer: Tokenizer, language: str) -> list[int]:
    return [i for i in tokenizer.encode(word, language) if _sounds(i, tokenizer)]


def _sounds(i: int, tokenizer: Tokenizer) -> bool:
    """Whether a symbol is heard, as marks and gaps are not."""
    if i <= END_ID:
        return i == 1  # a letter that the voice does not know
    return unicodedata.category(tokenizer.symbols[i])[0] in "LMNS"


def _speaks(piece: str) -> bool:
    # A stand-in of the markup is a character for private use.
    return any(c.isalnum() or unicodedata.category(c) == "Co" for c in piece)


def _side_by_side(spoken: list[int], alone: list[list[int]]) -> list[int]:
    """The word of each spoken symbol, by the cheapest way to make one row of symbols the other."""
    wanted = [symbol for symbols in alone for symbol in symbols]
    owner = [number for number, symbols in enumerate(alone) for _ in symbols]
    if not wanted:
        return [0] * len(spoken)
    costs = np.zeros([len(spoken) + 1, len(wanted) + 1])
    costs[0] = np.arange(len(wanted) + 1) * _LEFT_OUT
    target = np.array(wanted)
    steps = np.arange(len(wanted)) * _LEFT_OUT
    for row, symbol in enumerate(spoken, start=1):
        costs[row, 0] = row * _LEFT_OUT
        best = np.minimum(
            costs[row - 1, :-1] + np.where(target == symbol, 0.0, _OTHER),
            costs[row - 1, 1:] + _LEFT_OUT,
        )
        # Leaving out wanted symbols: a running minimum along the row.
        run = np.minimum.accumulate(np.concatenate([[costs[row, 0]], best - steps - _LEFT_OUT]))
        costs[row, 1:] = np.minimum(best, run[:-1] + steps + _LEFT_OUT)
    return _way_back(costs, spoken, wanted, owner)


def _way_back(
    costs: np.ndarray, spoken: list[int], wanted: list[int], owner: list[int]
) -> list[int]:
    owners = [0] * len(spoken)
    row, column = len(spoken), len(wanted)
    while row:
        paid = 0.0 if column and spoken[row - 1] == wanted[column - 1] else _OTHER
        if column and np.isclose(costs[row, column], costs[row - 1, column - 1] + paid):
            row, column = row - 1, column - 1
            owners[row] = owner[column]
        elif column and np.isclose(costs[row, column], costs[row, column - 1] + _LEFT_OUT):
            column -= 1
        else:
            row -= 1
            owners[row] = owner[max(column - 1, 0)]
    return owners
