"""What the base voice hears said, in every language: sentences, and their words in new orders.

The sentences of a language are a file beside this one, a line each; English, whose file is the
demo's, also has phrases of any texts it is given. The demo's held-out words are never among them,
so that a base voice can be judged by words it never heard.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

from myxtts.corpora.demo_sentences import (
    EVERYDAY_SENTENCES,
    FOLDER,
    HELD_OUT_SLOTS,
    SLOTS,
    draw_slot_sentences,
    sentences_of,
)
from myxtts.errors import DataError
from myxtts.text.languages import LANGUAGES

__all__ = ["FOLDER", "TextSource", "read_phrases", "says_held_out_word", "sentences_of"]

HELD_OUT_WORDS = frozenset(word.lower() for words in HELD_OUT_SLOTS.values() for word in words)

_WORD = re.compile(r"[^\W\d_]+(?:['\u200c][^\W\d_]+)*")
_END = re.compile(r"[\s.?!,;:\u061f\u060c\u0964\u3002\uff1f\uff01]+$")
_PHRASE_WORDS = (4, 11)  # fewest and most
_PLAIN = re.compile(r"[A-Za-z][a-z']*(?: [A-Za-z]?[a-z']+)*")
_SHUFFLED = 0.45  # of the texts are words in a new order
_JOINED = 0.15  # are two texts with a comma between
_UNSPACED = frozenset({"zh-cn"})  # no gaps between words, so they are not known
_SLOTS_SHARE, _EVERYDAY_SHARE = 0.3, 0.1  # of English; the rest are phrases


def says_held_out_word(text: str) -> bool:
    """Whether an English text has a word that the demo keeps for judging."""
    return any(word.lower() in HELD_OUT_WORDS for word in _WORD.findall(text))


def read_phrases(path: Path) -> tuple[str, ...]:
    """Phrases of four to eleven plain words from a list of texts; of `id|text` the last column."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"The texts {path} cannot be read: {error}", "a UTF-8 text file") from error
    found: dict[str, None] = {}
    for line in lines:
        for phrase in re.split(r"[^A-Za-z' ]+", line.rpartition("|")[2]):
            words = phrase.split()
            for start in range(0, len(words), _PHRASE_WORDS[1]):
                text = " ".join(words[start : start + _PHRASE_WORDS[1]])
                few = text.count(" ") + 1 < _PHRASE_WORDS[0]
                if not few and _PLAIN.fullmatch(text) and not says_held_out_word(text):
                    found[f"{text[0].upper()}{text[1:]}."] = None
    if not found:
        raise DataError(f"{path} holds no English phrase.", "a list of English texts, a line each")
    return tuple(found)


class TextSource:
    """Draws texts of any language; the same seed draws the same ones."""

    def __init__(self, *, seed: int, english: tuple[str, ...] = ()) -> None:
        self._rng = random.Random(f"base texts {seed}")  # noqa: S311 - a draw, not a secret
        self._english = english
        self._decks: dict[str, list[str]] = {}

    def draw(self, language: str) -> str:
        """One text to be said."""
        text = self._draw_one(language)
        if self._rng.random() < _JOINED:
            return f"{_END.sub('', text)}, {self._draw_one(language)}"
        return text

    def _draw_one(self, language: str) -> str:
        if language == "en":
            return self._draw_english()
        sentences = sentences_of(language)
        if language not in _UNSPACED and self._rng.random() < _SHUFFLED:
            return self._shuffled(sentences, language)
        return self._deal(language, sentences)

    def _draw_english(self) -> str:
        kind = self._rng.random()
        if kind < _SLOTS_SHARE or (not self._english and kind < 1.0 - _EVERYDAY_SHARE):
            return draw_slot_sentences(SLOTS, num_sentences=1, rng=self._rng)[0]
        if kind < _SLOTS_SHARE + _EVERYDAY_SHARE or not self._english:
            return self._deal("everyday", EVERYDAY_SENTENCES)
        return self._deal("en", self._english)

    def _shuffled(self, sentences: tuple[str, ...], language: str) -> str:
        """Three to six words in an order that nobody said: each sound beside many others."""
        words = _words_of(language, sentences)
        count = self._rng.randint(3, 6)
        chosen = self._rng.sample(words, count)
        if count > 4:
            chosen[1] += ","
        return " ".join(chosen) + self._rng.choice("...?")

    def _deal(self, name: str, texts: tuple[str, ...]) -> str:
        """From a shuffled deck, so that each text comes as often as every other."""
        deck = self._decks.setdefault(name, [])
        if not deck:
            deck.extend(self._rng.sample(texts, len(texts)))
        return deck.pop()


@cache
def _words_of(language: str, sentences: tuple[str, ...]) -> tuple[str, ...]:
    if language not in LANGUAGES:
        raise DataError(f"There are no words of {language!r}.", f"one of {', '.join(LANGUAGES)}")
    spoken = (word for sentence in sentences for word in sentence.split())
    return tuple(dict.fromkeys(_END.sub("", word).strip("¿¡\"'") for word in spoken))
