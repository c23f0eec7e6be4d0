"""Persian words and how they are read: a table of our own, and one that a package may bring."""

from __future__ import annotations

import importlib.util
import sqlite3
from functools import lru_cache
from pathlib import Path

from myxtts.text.persian.files import read_lines
from myxtts.text.persian.phonemes import FROM_LEXICON_IPA

PACKAGE = "gruut_lang_fa"
INSTALL_REMEDY = "pip install gruut-lang-fa"
_JOINER = "\u200c"


def package_folder() -> Path | None:
    """Where `gruut-lang-fa` lies, or None if it is not installed; nothing of it is run."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(next(iter(found.submodule_search_locations)))


@lru_cache(maxsize=1)
def own_words() -> dict[str, str]:
    """Our table: a word without its half-spaces, and its usual reading.

    Where that is a word of its own (بهروز is a man, به‌روز up to date), the other keeps its
    half-space.
    """
    lines = [line.split() for line in (*read_lines("words.txt"), *read_lines("names.txt"))]
    words: dict[str, str] = {}
    for word, reading in sorted(lines, key=lambda line: _JOINER in line[0]):
        bare = word.replace(_JOINER, "")
        words.setdefault(word if bare in words else bare, reading)
    return words


@lru_cache(maxsize=1)
def first_names() -> frozenset[str]:
    """Names of people, as they are written."""
    return frozenset(line.split()[0] for line in read_lines("names.txt"))


@lru_cache(maxsize=1)
def package_words() -> dict[str, str]:
    """The table of `gruut-lang-fa`, in the same form; empty where it is not installed."""
    folder = package_folder()
    if folder is None or not (folder / "lexicon.db").is_file():
        return {}
    # Read only: a file that somebody changed can at worst spell a word wrong.
    database = sqlite3.connect(f"file:{folder / 'lexicon.db'}?mode=ro&immutable=1", uri=True)
    try:
        rows = database.execute("SELECT word, phonemes FROM word_phonemes ORDER BY pron_order DESC")
        return {str(word).replace(_JOINER, ""): _reading(str(phonemes)) for word, phonemes in rows}
    except sqlite3.Error:
        return {}
    finally:
        database.close()


def _reading(phonemes: str) -> str:
    return "".join(FROM_LEXICON_IPA.get(symbol, symbol) for symbol in phonemes.split())
