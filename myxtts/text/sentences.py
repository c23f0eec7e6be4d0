"""Where long text may be cut: at paragraphs and sentences, and within a sentence if it must be."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, NamedTuple

Cut = Literal["clause", "word", "character"]


class Sentence(NamedTuple):
    """A sentence as it was written, on one line."""

    text: str
    ends_paragraph: bool


def split_sentences(text: str, language: str = "en") -> list[Sentence]:
    """Sentences in order. An empty line ends a paragraph; any other line break is a space.

    When in doubt nothing is cut: two sentences said as one sound better than one said as two.
    """
    sentences = []
    for paragraph in _PARAGRAPH.split(text):
        parts = _split_paragraph(" ".join(paragraph.split()), language)
        sentences += [Sentence(part, part is parts[-1]) for part in parts]
    return sentences


def cut_in_two(sentence: str) -> tuple[str, str, Cut] | None:
    """The two parts of a sentence, cut near its middle: after a clause, a word, or anywhere."""
    kinds: tuple[tuple[Cut, re.Pattern[str]], ...] = (("clause", _CLAUSE), ("word", _SPACE))
    for kind, pattern in kinds:
        gaps = [gap.span() for gap in pattern.finditer(sentence) if 0 < gap.start() < len(sentence)]
        if gaps:
            begin, end = min(gaps, key=lambda gap: abs(sum(gap) - len(sentence)))
            return sentence[:begin], sentence[end:], kind
    place = (len(sentence) + 1) // 2
    while 0 < place < len(sentence) and unicodedata.combining(sentence[place]):
        place += 1  # an accent stays with its letter
    if not 0 < place < len(sentence):
        return None
    return sentence[:place], sentence[place:], "character"


_PARAGRAPH = re.compile(r"(?:\r\n|\r|\n)[^\S\r\n]*(?:\r\n|\r|\n)\s*|[\u2029\f]+")
_SPACE = re.compile(r"\s+")
_CLAUSE = re.compile(r"(?<=[,;:—–،؛])\s+|(?<=[、，；：])|\s+(?=[—–(])")

_CLOSING = "\"'”’»›)\\]}」』）】〉》"
_MARKS = re.compile(rf"([.!?…؟۔।॥。！？｡．]+)(?:[{_CLOSING}]| »(?!\w))*")  # French: « Oui. »
_NEXT = re.compile(r"\s*[\"'“„‘«‹(\[{¿¡—–-]*\s*(\S)")
_WORD_BEFORE = re.compile(r"[^\s\"'“„‘«‹(\[{—–-]*$")
_UNSPACED = set("。！？｡．")  # end a sentence wherever they stand
_LOOSE = set("؟۔।॥")  # often written without the space behind them
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")  # U.S, z.B
_HALF_DAY = {"a.m", "p.m"}  # unlike other dotted words these often end a sentence
_DAY_BEFORE_MONTH = {"de", "cs", "hu", "pl", "tr"}  # 3. Oktober: the full stop makes an ordinal

# Never at the end of a sentence, whatever the language. Those that may be ("Inc.", "etc.") are told
# by the small letter behind them.
_ABBREVIATION_LIST = """
mr mrs ms dr drs prof rev hon gen maj col capt lt sgt gov sen rep st mt ft messrs vs cf eg ie approx
jan feb aug sept oct nov dec
hr fr frl bzw ca evtl ggf inkl sog str vgl zzgl
mme mlle mgr
sr sra srta ud uds dña sto sta exmo exma dra profa
sig dott ing avv geom
dhr mevr mw bijv
np tzn tj např
им ул ст руб
sn bkz
"""
_ABBREVIATIONS = frozenset(_ABBREVIATION_LIST.split())
_BEFORE_NUMBERS = {"no", "nos", "nr", "fig", "vol", "p", "pp", "ch", "sec", "art", "op", "abb", "s"}


def _split_paragraph(text: str, language: str) -> list[str]:
    sentences, begin = [], 0
    for match in _MARKS.finditer(text):
        if _ends_sentence(text, begin, match, language):
            sentences.append(text[begin : match.end()].strip())
            begin = match.end()
    sentences.append(text[begin:].strip())
    return [sentence for sentence in sentences if sentence]


def _ends_sentence(text: str, begin: int, match: re.Match[str], language: str) -> bool:
    marks, end = match[1], match.end()
    following = _NEXT.match(text, end)
    if following is None or set(marks) & _UNSPACED:
        return True
    if not text[end].isspace():
        return bool(set(marks) & _LOOSE) and text[end].isalpha()
    if following[1].islower():
        return False
    return marks != "." or _full_stop_ends(
        text[begin : match.start()].strip(), next_is_digit=following[1].isdigit(), language=language
    )


def _full_stop_ends(before: str, *, next_is_digit: bool, language: str) -> bool:
    found = _WORD_BEFORE.search(before)
    word = found[0] if found else ""
    folded = word.casefold()
    if before.isdecimal() or (len(before) == 1 and before.isalpha()):
        return False  # the number of a list's item
    if word.isdecimal() and len(word) <= 2 and language in _DAY_BEFORE_MONTH:
        return False
    if len(word) == 1 and word.isupper() and word != "I":
        return False  # an initial
    if _DOTTED.fullmatch(word) and folded not in _HALF_DAY:
        return False
    return folded not in _ABBREVIATIONS and not (next_is_digit and folded in _BEFORE_NUMBERS)
