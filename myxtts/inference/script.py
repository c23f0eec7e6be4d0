"""What a voice will say, line by line: any text in pieces the model can take, with pauses between.

Needs no TensorFlow, so that a text is refused before anything heavy starts.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import NamedTuple

from myxtts.errors import ConfigError, DataError
from myxtts.inference.loudness import check_target
from myxtts.text.languages import check_language
from myxtts.text.lexicon import Lexicon
from myxtts.text.markup import PLAIN, Marked, Passage, Style, parse_markup
from myxtts.text.places import Place, owners_of, place_words, split_words
from myxtts.text.scripts import check_script
from myxtts.text.sentences import cut_in_two, split_sentences
from myxtts.text.tokenizers import UNKNOWN_ID, Tokenizer, says_something, unread_kanji

log = logging.getLogger(__name__)

# Between sentences a reader of LJ Speech pauses for half a second: of it a line ends with 0.05 s.
PAUSES = {"paragraph": 0.8, "sentence": 0.45, "clause": 0.25, "word": 0.03, "character": 0.0}
SPEEDS = (0.25, 4.0)
PITCH_SHIFTS = (-24.0, 24.0)  # semitones
SHOWN = 60  # characters of a text in an error


class Line(NamedTuple):
    """A piece of text that is spoken in one go."""

    text: str
    ids: tuple[int, ...]
    pause: float  # seconds of silence behind it, at the usual speed
    words: tuple[Place, ...] = ()  # and their symbols, where they were asked for
    styles: tuple[Style, ...] = ()  # of each symbol; none: all are plain


@dataclass(frozen=True)
class Script:
    """The lines of a text, and what it asked for in vain."""

    lines: list[Line]
    unsupported: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Delivery:
    """How a text is said, whatever it says; what cannot be spoken is refused."""

    language: str
    speed: float = 1.0
    pitch_shift: float = 0.0  # semitones
    seed: int = 0  # another take of voices with the flow head
    loudness: float | None = None  # LUFS; as the voice has it

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
        check_target(self.loudness)


def write_script(
    text: str,
    *,
    tokenizer: Tokenizer,
    language: str,
    max_text_length: int,
    lexicon: Lexicon | None = None,
    with_words: bool = False,
) -> Script:
    """The lines of a text: its sentences, those too long for the model cut at clauses or words.

    The text may have markup (`text.markup`), and words said as a lexicon says them. `with_words`
    finds the symbols of every word, from which its times are told.
    """
    if not text.strip():
        raise DataError("The text is empty.", "some words to say")
    language = check_language(language)
    marked = parse_markup(text, language)
    check_script([" ".join(passage.text for passage in marked.passages)], language)
    reader = _Reader(
        marked, marked.tokenizer(tokenizer, lexicon), language, max_text_length, with_words
    )
    lines: list[Line] = []
    for passage in marked.passages:
        lines = reader.add(passage, lines)
    if not lines:
        raise DataError(
            f"There is nothing this voice can say in {shorten(text)!r}.",
            f"words in a script that it was trained on: {_known(tokenizer)}",
        )
    if marked.passages[-1].pause is None:
        lines[-1] = lines[-1]._replace(pause=0.0)
    return Script(lines, marked.unsupported)


def warn_of(unsupported: list[str]) -> None:
    """Say which markup was not spoken as it asks."""
    if unsupported:
        log.warning("Not supported, so only the words inside are said: %s", ", ".join(unsupported))


def write_utterance(
    text: str, *, tokenizer: Tokenizer, language: str, max_text_length: int
) -> Line:
    """A text as one line, however many sentences it has; refused if the model cannot take it."""
    ids = _encode(text, tokenizer, check_language(language))
    if not says_something(ids, tokenizer):
        raise DataError(f"The text {shorten(text)!r} has nothing to say.", "some words")
    if len(ids) > max_text_length:
        raise DataError(
            f"The text {shorten(text)!r} has {len(ids)} symbols, and the voice was trained with "
            f"{max_text_length} at most.",
            "Synthesizer.speak or stream, which speak any text sentence by sentence",
        )
    return Line(text, ids, 0.0)


def _encode(text: str, tokenizer: Tokenizer, language: str) -> tuple[int, ...]:
    """The symbols of a text; refused where words would be passed over."""
    ids = tuple(tokenizer.encode(text, language))
    if UNKNOWN_ID in ids and (kanji := unread_kanji(tokenizer, text, language)):
        raise DataError(
            f"Kanji are not read, for espeak-ng knows kana alone: {kanji}",
            "the text in kana, or their readings in a lexicon (--lexicon)",
        )
    return ids


def shorten(text: str) -> str:
    """A text's beginning, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


@dataclass(frozen=True)
class _Reader:
    """Turns passages into lines, as one voice reads them."""

    marked: Marked
    tokenizer: Tokenizer
    language: str
    longest: int
    with_words: bool

    def add(self, passage: Passage, lines: list[Line]) -> list[Line]:
        """The lines so far with those of one more passage."""
        styles, lines = passage.styles, list(lines)
        first = len(lines)
        for sentence, ends_paragraph in split_sentences(passage.text, self.language):
            pause = PAUSES["paragraph" if ends_paragraph else "sentence"]
            count = _heard(sentence)
            new = self._fit(sentence, pause, styles[:count])
            styles = styles[count:]
            if new:
                lines += new
            elif lines:  # a row of stars between paragraphs says nothing, but keeps them apart
                lines[-1] = lines[-1]._replace(pause=max(pause, lines[-1].pause))
        if passage.pause is not None and len(lines) > first:
            lines[-1] = lines[-1]._replace(pause=passage.pause)
        return lines

    def _fit(self, text: str, pause: float, styles: tuple[Style, ...]) -> list[Line]:
        ids = _encode(text, self.tokenizer, self.language)
        if not says_something(ids, self.tokenizer):
            return []
        if len(ids) <= self.longest:
            return [self._line(text, ids, pause, styles)]
        parts = cut_in_two(text)
        if parts is None:
            raise DataError(
                f"{shorten(self.marked.show(text))!r} has {len(ids)} symbols, and the voice was "
                f"trained with {self.longest} at most.",
                "a voice trained with a larger --max-text-length",
            )
        first, second, cut = parts
        count = _heard(first)
        return [
            *self._fit(first, PAUSES[cut], styles[:count]),
            *self._fit(second, pause, styles[count:]),
        ]

    def _line(
        self, text: str, ids: tuple[int, ...], pause: float, styles: tuple[Style, ...]
    ) -> Line:
        shown = self.marked.show(text)
        if not styles and not self.with_words:
            return Line(shown, ids, pause)
        written = split_words(text)
        places = place_words(written, ids, tokenizer=self.tokenizer, language=self.language)
        of_symbols: tuple[Style, ...] = ()
        if any(style != PLAIN for style in styles):
            # A word is said in the style of its first character.
            starts = [0]
            for word in written:
                starts.append(starts[-1] + _heard(word))
            of_symbols = tuple(styles[starts[i]] for i in owners_of(places, len(ids)))
        words = tuple(place._replace(word=self.marked.show(place.word)) for place in places)
        return Line(shown, ids, pause, words, of_symbols)


def _heard(text: str) -> int:
    """Characters that are no spaces: those that splitting and cutting keep, in order."""
    return sum(not character.isspace() for character in text)


def _known(tokenizer: Tokenizer) -> str:
    if tokenizer.kind == "phonemes":
        return "anything espeak-ng reads in the --language given"
    return shorten("".join(symbol for symbol in tokenizer.symbols[4:] if symbol.isalpha()))
