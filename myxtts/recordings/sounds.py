"""The sounds that texts hold, and those that a language needs."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache

from myxtts.corpora.base_texts import sentences_of
from myxtts.text import espeak
from myxtts.text.normalize import normalize_text
from myxtts.text.tokenizers import PhonemeTokenizer

_STRESS = frozenset("ˈˌ")
_TIES = frozenset("\u0361\u035c")
SILENT = frozenset(" ,.?!;:-_|‖")


@lru_cache(maxsize=1 << 15)
def sounds_of(text: str, language: str) -> tuple[str, ...]:
    """The sounds of a text in order, a letter of IPA with its marks each; without espeak, letters.

    A gap between words is a space, so that what begins and ends words can be told.
    """
    if not espeak.is_available():
        letters = normalize_text(text, language).lower()
        return tuple(c if c.isalpha() else " " for c in letters if c.isalpha() or c.isspace())
    return tuple(split_sounds(_reader().transcribe(text, language)))


def split_sounds(said: str) -> list[str]:
    """IPA as single sounds: length and other marks stay with their letter.

    Stress and tones are left out.
    """
    sounds: list[str] = []
    tied = False
    for character in said:
        if character in _STRESS or character.isdigit():  # digits are tones
            continue
        if character in SILENT:
            if sounds and sounds[-1] != " ":
                sounds.append(" ")
            continue
        mark = unicodedata.category(character) in ("Mn", "Lm", "Sk") or character == "ː"
        if sounds and sounds[-1] != " " and (mark or tied):
            sounds[-1] += character
        else:
            sounds.append(character)
        tied = character in _TIES
    return sounds


def count_sounds(texts: Iterable[str], language: str) -> Counter[str]:
    """How often each sound is said."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(sounds_of(text, language))
    del counts[" "]
    return counts


@cache
def needed_sounds(language: str) -> dict[str, int]:
    """What a voice of a language must be able to say, the rarest first, with how usual it is.

    It is all that the built-in sentences say twice: those were written to hold every sound of
    their language, and what is said once may be a foreign word's.
    """
    counts = count_sounds(sentences_of(language), language)
    return {sound: times for sound, times in reversed(counts.most_common()) if times > 1}


@cache
def _reader() -> PhonemeTokenizer:
    return PhonemeTokenizer()
