"""Says how likely the labels of a sentence are, by a linear-chain CRF in the form of Wapiti's."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_BEFORE = (b"_x-1", b"_x-2", b"_x-3", b"_x-4", b"_x-#")  # what stands before the first word
_BEHIND = (b"_x+1", b"_x+2", b"_x+3", b"_x+4", b"_x+#")
_COMMAND = re.compile(rb'%([xXtTmM])\[(-?\d+),\d+(?:,"((?:[^"\\]|\\.)*)")?\]')
_CLASSES = {
    b"a": rb"A-Za-z", b"d": rb"0-9", b"l": rb"a-z", b"u": rb"A-Z", b"w": rb"A-Za-z0-9",
    b"s": rb"\t-\r ", b"p": rb"!-/:-@\[-`{-~",
}  # fmt: skip
_MAX_CACHED = 8192  # words: their scores take 2 KB each, whatever the length of the text
_TINY = 1e-30
_LONGEST = 400  # words looked at together; a longer row of them has no sentence's structure


class Weights(NamedTuple):
    """A model's numbers: the hash of each observation, and where its weights stand."""

    keys: np.ndarray  # uint64, sorted
    starts: np.ndarray  # int64, one more than keys
    places: np.ndarray  # int32: a label; or, beyond the labels, a pair of them
    values: np.ndarray  # float32


class _Part(NamedTuple):
    """A piece of a pattern: plain bytes, or a command on the word at an offset."""

    plain: bytes
    command: str = ""
    offset: int = 0
    regex: re.Pattern[bytes] | None = None

    def value(self, word: bytes) -> bytes:
        if not self.command:
            return self.plain
        found = word
        if self.regex is not None:
            match = self.regex.search(word)
            if self.command in "tT":
                found = b"true" if match else b"false"
            else:
                found = match[0] if match else b""
        return found.lower() if self.command.isupper() else found


class LinearChainCrf:
    """Labels for the words of a sentence, and how sure they are."""

    def __init__(self, patterns: Sequence[bytes], labels: Sequence[str], weights: Weights) -> None:
        self.labels = tuple(labels)
        self._keys: list[int] = weights.keys.tolist()
        self._weights = weights
        # Each pattern looks at one word at most, so that a word's share is summed up once.
        self._patterns: dict[int, list[list[_Part]]] = {}
        for source in patterns:
            parts = _compile(source)
            offsets = {part.offset for part in parts if part.command} or {0}
            if len(offsets) > 1:
                raise ValueError(f"the pattern {source!r} looks at more than one word")
            self._patterns.setdefault(offsets.pop(), []).append(parts)
        self._cache: dict[tuple[int, bytes], tuple[np.ndarray, np.ndarray | None]] = {}

    def shares(self, words: Sequence[str]) -> np.ndarray:
        """How likely each label is for each word, given the whole sentence: [words, labels]."""
        encoded = [word.encode("utf-8", "replace") for word in words]
        parts = [
            self._shares(encoded[begin : begin + _LONGEST])
            for begin in range(0, len(words), _LONGEST)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.labels)), np.float32)

    def _shares(self, words: list[bytes]) -> np.ndarray:
        """Forward and backward over the sentence, each step scaled so that nothing overflows."""
        singles, steps = [], []
        for place in range(len(words)):
            single, pairs = self._scores(words, place)
            singles.append(np.exp(single - single.max()))
            steps.append(np.exp(pairs - pairs.max()))
        forward = [singles[0] / singles[0].sum()]
        for single, step in zip(singles[1:], steps[1:], strict=True):
            reached = (forward[-1] @ step) * single
            forward.append(reached / max(reached.sum(), _TINY))
        ahead = np.ones_like(singles[0])
        found = [forward[-1]]
        for place in range(len(words) - 2, -1, -1):
            ahead = steps[place + 1] @ (singles[place + 1] * ahead)
            ahead /= max(ahead.sum(), _TINY)
            both = forward[place] * ahead
            found.append(both / max(both.sum(), _TINY))
        return np.array(found[::-1])

    def _scores(self, words: list[bytes], place: int) -> tuple[np.ndarray, np.ndarray]:
        singles, pairs = [], []
        for offset in self._patterns:
            single, pair = self._share(offset, _word_at(words, place + offset))
            singles.append(single)
            if pair is not None:
                pairs.append(pair)
        return np.add.reduce(singles), np.add.reduce(pairs)

    def _share(self, offset: int, word: bytes) -> tuple[np.ndarray, np.ndarray | None]:
        """What a word at an offset adds to each label, and to each pair of neighbours."""
        found = self._cache.get((offset, word))
        if found is None:
            size = len(self.labels)
            total = np.zeros(size + size * size, dtype=np.float32)
            for pattern in self._patterns[offset]:
                key = hash_of(b"".join(part.value(word) for part in pattern))
                row = bisect_left(self._keys, key)
                if row < len(self._keys) and self._keys[row] == key:
                    span = slice(self._weights.starts[row], self._weights.starts[row + 1])
                    total[self._weights.places[span]] += self._weights.values[span]
            pair = total[size:].reshape(size, size)
            found = total[:size].copy(), pair.copy() if pair.any() else None
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[(offset, word)] = found
        return found


def hash_of(observation: bytes) -> int:
    """A number for an observation, the same in every process."""
    return int.from_bytes(hashlib.blake2b(observation, digest_size=8).digest(), "little")


def _word_at(words: list[bytes], place: int) -> bytes:
    if place < 0:
        return _BEFORE[min(-place - 1, 4)]
    if place >= len(words):
        return _BEHIND[min(place - len(words), 4)]
    return words[place]


def _compile(source: bytes) -> list[_Part]:
    parts, end = [], 0
    for match in _COMMAND.finditer(source):
        if match.start() > end:
            parts.append(_Part(source[end : match.start()]))
        regex = None if match[3] is None else re.compile(_translate(match[3]), re.DOTALL)
        parts.append(_Part(b"", match[1].decode(), int(match[2]), regex))
        end = match.end()
    if end < len(source):
        parts.append(_Part(source[end:]))
    return parts


def _translate(pattern: bytes) -> bytes:
    """Wapiti's little regular expressions as Python's: a star takes as little as it can."""
    made, place = [], 0
    while place < len(pattern):
        char = pattern[place : place + 1]
        place += 1
        if char == b"\\":
            name = pattern[place : place + 1]
            place += 1
            inside = _CLASSES.get(name.lower())
            opening = b"[^" if name.isupper() else b"["
            made.append(re.escape(name) if inside is None else opening + inside + b"]")
        elif char == b"$" and place == len(pattern):
            made.append(rb"\Z")
        elif char in b".?" or (char == b"^" and place == 1):
            made.append(char)
        else:
            made.append(b"*?" if char == b"*" else re.escape(char))
    return b"".join(made)
