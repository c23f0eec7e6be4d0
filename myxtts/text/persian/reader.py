"""Persian text, read word by word: its vowels, its ezafe, and where each came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from myxtts.text.lexicon import Lexicon, is_ipa
from myxtts.text.persian.ezafe import mark_ezafe
from myxtts.text.persian.homographs import choose_reading, other_readings
from myxtts.text.persian.letters import align
from myxtts.text.persian.morphology import Known, look_up
from myxtts.text.persian.numbers import NUMBER_WORDS
from myxtts.text.persian.phonemes import plain, to_ipa, with_ezafe
from myxtts.text.persian.tagger import tag
from myxtts.text.persian.unknown import read_unknown
from myxtts.text.words import ReadWord

_SHORT = {"\u064e": "a", "\u064f": "o", "\u0650": "e"}  # fatha, damma, kasra
_MARK = re.compile("[\u064b-\u0653\u0670]")
_KASRA = "\u0650"
_LETTER = "\u0621-\u063a\u0641-\u064a\u0671-\u06d3\u06d5\u06ee\u06ef\u06fa-\u06ff"
_TOKEN = re.compile(
    f"(?P<word>[{_LETTER}][{_LETTER}\u064b-\u0655\u0670\u200c]*)"
    "|(?P<pause>[.!?؟،؛:;,…—])|(?P<other>[^\\W_]+(?:['’-][^\\W_]+)*)"
)
_ENDS = frozenset(".!?؟")
_DOUBTFUL = (0.25, 0.75)  # between them the tagger is not sure
_IN_NUMBERS = {"و": "o", "نه": "noh"}
_UNSTRESSED = frozenset(
    ["و", "به", "از", "که", "را", "با", "در", "تا", "بر", "رو", "یه", "هم", "این", "آن"]
)
_PLURAL_ENDINGS = frozenset(
    ["ها", "های", "هایی", "هایم", "هایت", "هایش", "هایمان", "هایتان", "هایشان", "ترین"]
)


@dataclass(frozen=True)
class _Token:
    text: str  # as it stands in the text
    read_as: str  # without vowel marks; a respelling of the user's
    kind: str  # "word", "mark", "other" or "ipa"
    said: str = ""  # the user's IPA
    by_user: bool = False


def read_persian(
    text: str, say: Callable[[str], str], *, lexicon: Lexicon | None = None
) -> list[ReadWord]:
    """Read normalised text; `say` gives the phonemes of what is in no table: espeak-ng does."""
    said: list[ReadWord] = []
    for sentence in _sentences(_joined(list(_tokens(text, lexicon)))):
        said += _read_sentence(sentence, say)
    return said


def _tokens(text: str, lexicon: Lexicon | None) -> Iterator[_Token]:
    spans = lexicon.spans(text) if lexicon else [(text, None)]
    for written, said in spans:
        if said is not None and is_ipa(said):
            yield _Token(written, _MARK.sub("", written), "ipa", said[1:-1].strip(), by_user=True)
            continue
        for match in _TOKEN.finditer(written if said is None else said):
            kind = {"word": "word", "pause": "mark"}.get(match.lastgroup or "", "other")
            if kind == "mark" and not _is_pause(match):
                continue
            yield _Token(match[0], _MARK.sub("", match[0]), kind, by_user=said is not None)


def _is_pause(match: re.Match[str]) -> bool:
    """A mark counts before a gap: `3.5` and `a.m.` have none."""
    following = match.string[match.end() : match.end() + 1]
    return match[0] not in ".:,;" or not following or not following.isalnum()


def _joined(tokens: list[_Token]) -> list[_Token]:
    """`می روم` and `کتاب ها` are one word each, though written as two."""
    made: list[_Token] = []
    for token in tokens:
        before = made[-1] if made else None
        if before is not None and before.kind == token.kind == "word":
            together = f"{before.read_as}\u200c{token.read_as}"
            prefix = before.read_as in ("می", "نمی") and _is_verb(together)
            ending = token.read_as in _PLURAL_ENDINGS and look_up(before.read_as) is not None
            if prefix or ending:
                made[-1] = replace(before, text=f"{before.text} {token.text}", read_as=together)
                continue
        made.append(token)
    return made


def _is_verb(word: str) -> bool:
    found = look_up(word)
    return found is not None and bool(found.verb)


def _sentences(tokens: list[_Token]) -> Iterator[list[_Token]]:
    begin = 0
    for place, token in enumerate(tokens):
        if token.kind == "mark" and token.text in _ENDS:
            yield tokens[begin : place + 1]
            begin = place + 1
    if begin < len(tokens):
        yield tokens[begin:]


def _read_sentence(tokens: Sequence[_Token], say: Callable[[str], str]) -> Iterator[ReadWord]:
    words = [token.read_as for token in tokens]
    tags, likely = tag(words) or ([_plain_tag(word) for word in words], [0.0] * len(words))
    known = [look_up(t.read_as) if t.kind == "word" else None for t in tokens]
    ezafes = mark_ezafe(words, tags, known, likely)
    for place, token in enumerate(tokens):
        if token.kind == "mark":
            yield ReadWord(token.text, token.text, "mark")
        elif token.kind == "other":
            yield ReadWord(token.text, say(token.text), "espeak-ng")
        elif token.kind == "ipa":
            ezafe = ezafes[place] or token.text.endswith(_KASRA)
            ending = ("je" if token.said[-1:] in "aɑeioːu" else "e") if ezafe else ""
            yield ReadWord(token.text, token.said + ending, "user", ezafe)
        else:
            read = _read_word(token, words, tags, place, known[place], say, ezafe=ezafes[place])
            entry = known[place]
            sure = entry is not None and (entry.ezafe or bool(entry.verb))
            doubtful = not sure and _DOUBTFUL[0] < likely[place] < _DOUBTFUL[1]
            if not read.doubt and doubtful:
                read = replace(read, doubt=f"ezafe? ({likely[place]:.0%} likely)")
            yield read


def _read_word(
    token: _Token,
    words: Sequence[str],
    tags: Sequence[str],
    place: int,
    known: Known | None,
    say: Callable[[str], str],
    *,
    ezafe: bool,
) -> ReadWord:
    word = token.read_as
    ezafe = ezafe or token.text.endswith((_KASRA, "ه\u0654"))
    chosen = choose_reading(words, tags, place)
    if chosen is not None:
        reading, source = chosen
    elif known is not None:
        reading, source = known.reading, known.source
    else:
        ezafe = ezafe or (word.endswith("های") and place + 1 < len(words))
        reading = read_unknown(word.removesuffix("ی") if word.endswith("های") else word, say)
        source = "guess"
    if word in _IN_NUMBERS and _follows_number(words, place):
        reading = _IN_NUMBERS[word]
    if token.text != word:
        reading = _with_marks(token.text, reading)
    written_end = known is not None and known.ezafe and word.endswith("ی")
    said = with_ezafe(reading) if ezafe else reading
    if written_end and not ezafe:  # `هوای` at the end of a clause keeps its ye
        said = reading + "y"
    silent_h = word.endswith("ه") and not ezafe  # the ezafe's own e is as short as any
    phonemes = to_ipa(said, silent_h=silent_h, stressed=word not in _UNSTRESSED)
    shown = plain(reading) + (("-ye" if reading[-1:] in "aâeoiu" else "-e") if ezafe else "")
    if token.by_user:
        return ReadWord(token.text, phonemes, "user", ezafe, shown)
    doubt = "guessed by espeak-ng" if source == "guess" else ""
    if others := other_readings(word, reading):
        doubt = f"or {', '.join(others)}"
    return ReadWord(token.text, phonemes, source, ezafe, shown, doubt)


def _follows_number(words: Sequence[str], place: int) -> bool:
    """`بیست و نه`: the و or the last word of a number."""
    first = place - 1 if words[place] == "و" else place - 2
    joined = words[first + 1 : first + 2] == ["و"] and words[first + 2 : first + 3] != []
    return first >= 0 and joined and {words[first], words[first + 2]} <= NUMBER_WORDS


@lru_cache(maxsize=4096)
def _with_marks(written: str, reading: str) -> str:
    """The reading with the vowels that the writer marked: کِرِم is kerem, whatever the table says."""
    letters: list[str] = []
    vowels: dict[int, str] = {}
    for character in written:
        if character in _SHORT:
            vowels[len(letters) - 1] = _SHORT[character]
        elif not _MARK.match(character) and character != "\u200c":
            letters.append(character)
    vowels.pop(len(letters) - 1, None)  # behind the last letter it is an ezafe
    pieces = align(letters, plain(reading)) if vowels else None
    if pieces is None:
        return reading
    for place, vowel in vowels.items():
        if 0 <= place < len(pieces):
            pieces[place] = pieces[place].rstrip("aeo") + vowel
    return "".join(pieces)


def _plain_tag(word: str) -> str:
    """Without a tagger: verbs are told, everything else is a noun."""
    return "V" if _is_verb(word) else "N"
