"""The base voice, which comes with MyXTTS: a folder for each size it was trained in.

A folder is an export in half precision (`inference.voice_files` reads it and checks its hash) with
a card that says what the voice heard, what it can do and what it is not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from myxtts.config.training import BASE, NONE
from myxtts.documents import read_json
from myxtts.errors import DataError

__all__ = ["BASE", "CARD_FILE", "NONE", "base_folder", "base_sizes", "read_card"]

CARD_FILE = "card.json"
_HOME = Path(__file__).parent
_SIZES = ("big", "normal", "small", "tiny")


def base_sizes() -> tuple[str, ...]:
    """The sizes that are here, the largest first."""
    return tuple(size for size in _SIZES if (_HOME / size / CARD_FILE).is_file())


def base_folder(size: str | None = None) -> Path:
    """Where the base voice of a size is, or the next smaller one, which grows.

    Without a size it is the largest: voices it never heard it clones best, by the cards, and the
    vocoder takes most of the time that any of them needs to speak.
    """
    sizes = base_sizes()
    if not sizes:
        raise DataError("There is no base voice in this installation.", "pip install it anew")
    if size is None:
        return _HOME / sizes[0]
    fitting = (each for each in sizes if _SIZES.index(each) >= _SIZES.index(size))
    return _HOME / next(fitting, sizes[-1])


def read_card(size: str | None = None) -> dict[str, Any]:
    """What the card of the base voice says."""
    card: dict[str, Any] = read_json(base_folder(size) / CARD_FILE)
    return card
