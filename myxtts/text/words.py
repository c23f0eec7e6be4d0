"""What a text will say, word by word, and where each word's sounds came from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadWord:
    """One word or mark of a text, as it will be said."""

    text: str
    phonemes: str
    source: str  # user, lexicon, rules, tagger, guess, espeak-ng, or mark
    ezafe: bool = False  # Persian only
    reading: str = ""  # in Latin letters, -e for the ezafe; Persian only
    doubt: str = ""  # why it may be wrong

    @property
    def is_mark(self) -> bool:
        """A pause, and no word."""
        return self.source == "mark"
