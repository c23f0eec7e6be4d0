"""What a voice will say, line by line: any text in pieces the model can take, with pauses between.

Needs no TensorFlow, so that a text is refused before anything heavy starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from myxtts.errors import ConfigError, DataError
from myxtts.text.languages import check_language
from myxtts.text.scripts import check_script
from myxtts.text.sentences import cut_in_two, split_sentences
from myxtts.text.tokenizers import Tokenizer, says_something

PAUSES = {"paragraph": 0.6, "sentence": 0.25, "clause": 0.12, "word": 0.03, "character": 0.0}
SPEEDS = (0.25, 4.0)
PITCH_SHIFTS = (-24.0, 24.0)  # semitones
SHOWN = 60  # characters of a text in an error


class Line(NamedTuple):
    """A piece of text that is spoken in one go."""

    text: str
    ids: tuple[int, ...]
    pause: float  # seconds of silence behind it, at the usual speed


@dataclass(frozen=True)
class Delivery:
    """How a text is said, whatever it says; what cannot be spoken is refused."""

    language: str
    speed: float = 1.0
    pitch_shift: float = 0.0  # semitones
    seed: int = 0  # another take of voices with the flow head

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", check_language(self.language))
        if not SPEEDS[0] <= self.speed <= SPEEDS[1]:
            raise ConfigError(
                f"The speed is {self.speed}.", f"from {SPEEDS[0]} (slow) to {SPEEDS[1]} (fast)"
            )
        if not PITCH_SHIFTS[0] <= self.pitch_shift <= PITCH_SHIFTS[1]:  # nor is NaN
            raise ConfigError(
                f"The pitch shift is {self.pitch_shift} semitones.",
                f"from {PITCH_SHIFTS[0]:.0f} to {PITCH_SHIFTS[1]:.0f}; 12 are an octave",
            )


def write_script(
    text: str, *, tokenizer: Tokenizer, language: str, max_text_length: int
) -> list[Line]:
    """The lines of a text: its sentences, those too long for the model cut at clauses or words."""
    if not text.strip():
        raise DataError("The text is empty.", "some words to say")
    language = check_language(language)
    check_script([text], language)
    lines: list[Line] = []
    for sentence, ends_paragraph in split_sentences(text, language):
        pause = PAUSES["paragraph" if ends_paragraph else "sentence"]
        new = _fit(sentence, pause, tokenizer, language, max_text_length)
        if new:
            lines += new
        elif lines:  # a row of stars between paragraphs says nothing, but keeps them apart
            lines[-1] = lines[-1]._replace(pause=max(pause, lines[-1].pause))
    if not lines:
        raise DataError(
            f"There is nothing this voice can say in {shorten(text)!r}.",
            f"words in a script that it was trained on: {_known(tokenizer)}",
        )
    lines[-1] = lines[-1]._replace(pause=0.0)
    return lines


def write_utterance(
    text: str, *, tokenizer: Tokenizer, language: str, max_text_length: int
) -> Line:
    """A text as one line, however many sentences it has; refused if the model cannot take it."""
    ids = tuple(tokenizer.encode(text, check_language(language)))
    if not says_something(ids, tokenizer):
        raise DataError(f"The text {shorten(text)!r} has nothing to say.", "some words")
    if len(ids) > max_text_length:
        raise DataError(
            f"The text {shorten(text)!r} has {len(ids)} symbols, and the voice was trained with "
            f"{max_text_length} at most.",
            "Synthesizer.speak or stream, which speak any text sentence by sentence",
        )
    return Line(text, ids, 0.0)


def shorten(text: str) -> str:
    """A text's beginning, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


def _fit(text: str, pause: float, tokenizer: Tokenizer, language: str, longest: int) -> list[Line]:
    ids = tuple(tokenizer.encode(text, language))
    if not says_something(ids, tokenizer):
        return []
    if len(ids) <= longest:
        return [Line(text, ids, pause)]
    parts = cut_in_two(text)
    if parts is None:
        raise DataError(
            f"{shorten(text)!r} has {len(ids)} symbols, and the voice was trained with "
            f"{longest} at most.",
            "a voice trained with a larger --max-text-length",
        )
    first, second, cut = parts
    return [
        *_fit(first, PAUSES[cut], tokenizer, language, longest),
        *_fit(second, pause, tokenizer, language, longest),
    ]


def _known(tokenizer: Tokenizer) -> str:
    if tokenizer.kind == "phonemes":
        return "anything espeak-ng reads in the --language given"
    return shorten("".join(symbol for symbol in tokenizer.symbols[4:] if symbol.isalpha()))
