"""What a text asks for beside its words: a pronunciation, a pause, a pace. Inline, or as SSML.

`{word|pronunciation}` stands anywhere in a text; a text that begins with `<speak` is SSML, of which
`break`, `phoneme`, `say-as`, `sub`, `prosody` (rate and pitch), `p` and `s` are understood. What is
not is named, and its words are read, but never its tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from myxtts.errors import DataError
from myxtts.text.lexicon import Lexicon, is_ipa
from myxtts.text.tokenizers import Tokenizer, with_lexicon

# A word with a pronunciation of its own is one such character on its way through the text: nobody's
# letters, so that it is neither read nor taken for a part of its neighbours.
FIRST_STAND_IN, LAST_STAND_IN = 0xE000, 0xF8FF
_STAND_INS = re.compile(f"[{chr(FIRST_STAND_IN)}-{chr(LAST_STAND_IN)}]")
_INLINE = re.compile(r"\{([^{}|\n]{1,100})\|([^{}|\n]{1,200})\}")
_NOT_A_SOUND = re.compile(r"[ˈˌːˑ']")


class Style(NamedTuple):
    """How a stretch of text is said, beside how all of it is."""

    speed: float = 1.0  # times the speed of the whole
    shift: float = 0.0  # semitones, added to those of the whole


PLAIN = Style()


class Passage(NamedTuple):
    """Text up to a pause that was asked for, or to the end."""

    text: str
    styles: tuple[Style, ...]  # of each character that is no space; empty if all are plain
    pause: float | None = None  # seconds behind it; None: as after any other text


@dataclass
class Marked:
    """A text without its markup, and what the markup asked for."""

    passages: list[Passage] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)  # by stand-in
    said: dict[str, str] = field(default_factory=dict)
    unsupported: list[str] = field(default_factory=list)  # what was asked for in vain

    def stand_in(self, word: str, pronunciation: str) -> str:
        """A character that is read as the pronunciation and shown as the word."""
        place = FIRST_STAND_IN + len(self.said)
        if place > LAST_STAND_IN:
            raise DataError(
                f"The text has more than {LAST_STAND_IN - FIRST_STAND_IN + 1} pronunciations.",
                "a lexicon, or a shorter text",
            )
        self.written[chr(place)] = word.strip()
        self.said[chr(place)] = read_pronunciation(pronunciation, word)
        return chr(place)

    def replace_inline(self, text: str) -> str:
        """The text with every `{word|pronunciation}` as a stand-in."""
        return _INLINE.sub(lambda match: self.stand_in(match[1], match[2]), text)

    def show(self, text: str) -> str:
        """The text as it was written, for people."""
        return _STAND_INS.sub(lambda match: self.written.get(match[0], ""), text)

    def tokenizer(self, own: Tokenizer, lexicon: Lexicon | None = None) -> Tokenizer:
        """The voice's tokenizer with the pronunciations of this text and of a lexicon."""
        if lexicon is not None:
            _check_said(own, lexicon.entries)
            own = with_lexicon(own, lexicon)
        if not self.said:
            return own
        _check_said(own, {self.written[mark]: said for mark, said in self.said.items()})
        return with_lexicon(own, Lexicon(self.said))


def parse_markup(text: str, language: str) -> Marked:
    """Read the markup of a text; without any it is one plain passage."""
    text = _STAND_INS.sub(" ", text)
    if text.lstrip("\ufeff \t\r\n").startswith("<speak"):
        from myxtts.text.ssml import parse_ssml  # uses this module

        return parse_ssml(text, language)
    marked = Marked()
    marked.passages.append(Passage(marked.replace_inline(text), ()))
    return marked


def read_pronunciation(pronunciation: str, word: str) -> str:
    """As a lexicon writes it: IPA between slashes, or a respelling. `w ɪ n` are sounds, so IPA."""
    said = pronunciation.strip()
    if not is_ipa(said) and _are_sounds(said.split()):
        said = f"/{said}/"
    if is_ipa(said):
        said = f"/{''.join(said[1:-1].split())}/"
    if not said.strip("/ ") or not word.strip():
        raise DataError(
            f"The pronunciation {{{word}|{pronunciation}}} is empty.",
            "{word|/ipa/}, {word|s ou n d s} or {word|respelling}",
        )
    return said


def _are_sounds(parts: list[str]) -> bool:
    """`w ɪ n` is, `new yen` is not: sounds are a letter or two each, and some are one."""
    sizes = [len(_NOT_A_SOUND.sub("", part)) for part in parts]
    return len(sizes) > 1 and max(sizes) <= 2 and min(sizes) == 1


def _check_said(tokenizer: Tokenizer, pronunciations: Mapping[str, str]) -> None:
    if tokenizer.kind == "phonemes":
        return
    for word, said in pronunciations.items():
        if is_ipa(said):
            raise DataError(
                f"This voice reads letters, so it cannot say {word!r} as {said}.",
                "a respelling in ordinary letters",
            )
