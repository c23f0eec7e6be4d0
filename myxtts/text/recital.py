"""What espeak-ng is given to say, so that its voice says what our reading of the text says.

It reads Persian without the ezafe and guesses short vowels: recordings of its own reading would
lack what the text side promises. So Persian is handed over as phonemes, in `[[…]]`, and espeak-ng
lends its voice alone. In all other languages the reading is its own anyway.
"""

from __future__ import annotations

import numpy as np

from myxtts.text import espeak
from myxtts.text.normalize import normalize_text
from myxtts.text.persian.phonemes import to_espeak
from myxtts.text.tokenizers import ASCII_MARKS, read_persian_words

PERSIAN = "fa"


def recite(text: str, *, voice: str, **how: int) -> tuple[np.ndarray, int]:
    """Speak text as the phonemes tokenizer reads it; arguments and result as of `espeak.speak`."""
    persian = voice.partition("+")[0] == PERSIAN
    said = persian_for_espeak(text) if persian else text
    return espeak.speak(said, voice=voice, brackets=persian, **how)


def persian_for_espeak(text: str) -> str:
    """Raw Persian as phonemes in espeak-ng's names, with its marks between them.

    A word in other letters stays as it is: espeak-ng reads those on the text side too.
    """
    said = ""
    for word in read_persian_words(normalize_text(text, PERSIAN), None):
        if word.is_mark:
            said += word.text.translate(ASCII_MARKS)
            continue
        named = to_espeak(word.phonemes)
        said += f" [[{named}]]" if named else f" {word.text}"
    return said.strip()
