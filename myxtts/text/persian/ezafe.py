"""Where the ezafe is said: the tagger's opinion, mended by what grammar rules out or demands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from myxtts.text.persian.files import read_lines
from myxtts.text.persian.lexicon import first_names
from myxtts.text.persian.morphology import Known
from myxtts.text.persian.numbers import NUMBER_WORDS
from myxtts.text.persian.spoken import MONTHS


def _set(name: str) -> frozenset[str]:
    """A class of words, by its name in `data/grammar.txt`."""
    for line in read_lines("grammar.txt"):
        first, *words = line.split()
        if first == f"{name}:":
            return frozenset(words)
    raise KeyError(name)


_ALWAYS = _set("always")
_NEVER = _set("never")
_NEVER_BEFORE = _set("never_before")
_DAYS = _set("days")
_OF_A_DAY = _set("of_a_day")
_TIMES = _set("times")
_RELATIVE = _set("relative")
_SPANS = _set("spans")
_BEFORE_NUMBER = _set("before_number")
_ADVERBS = _set("adverbs")
_LIGHT = _set("light")
_FUTURE = _set("future")
_COPULA = _set("copula")
_AGENTS = _set("agents")
_LIKELY = 0.35
_COUNTS = frozenset(["چند", "چندین"])
_OWNING = frozenset(["داد", "داشت", "گرفت"])  # plain verbs where things are counted
_PAIRS = frozenset(tuple(pair.split("+")) for pair in _set("pairs"))
_AGENT_ENDINGS = ("فروش", "کار", "گر", "مند", "بان", "چی", "پزشک", "شناس")
_FAMILY_ENDINGS = ("پور", "زاده", "نژاد", "فر")


class _Place(NamedTuple):
    """A word in its sentence, and the two behind it."""

    word: str
    tag: str
    likely: float  # how likely the tagger thinks it
    known: Known | None
    word_before: str
    before: str  # the tag of the word before
    in_chain: bool  # the word before has an ezafe
    next: str
    next_tag: str
    next_known: Known | None
    after: str
    after_known: Known | None


def mark_ezafe(
    words: Sequence[str],
    tags: Sequence[str],
    known: Sequence[Known | None],
    likely: Sequence[float],
) -> list[bool]:
    """Say for each word of a sentence (its marks are words of their own) whether it takes it."""
    marked: list[bool] = []
    for i in range(len(words)):
        following = (*words[i + 1 : i + 3], ".", ".")
        tag_after = tags[i + 1] if i + 1 < len(words) else "PUNC"
        known_after = (*known[i + 1 : i + 3], None, None)
        place = _Place(
            words[i], tags[i], likely[i], known[i], words[i - 1] if i else "",
            tags[i - 1] if i else "",
            i > 0 and marked[-1], following[0], tag_after, known_after[0], following[1],
            known_after[1],
        )  # fmt: skip
        marked.append(_takes(place, ends_phrase=_ends_phrase(words, tags, i)))
    return marked


def _takes(place: _Place, *, ends_phrase: bool) -> bool:
    word, tag = place.word, place.tag
    if not word[:1].isalpha() or not place.next[:1].isalpha():
        return False
    if place.known is not None and place.known.ezafe:  # written: خانه‌ی, کتاب‌های
        return True
    if ends_phrase or _ruled_out(place):
        return False
    if place.next in NUMBER_WORDS:
        return (
            word in _BEFORE_NUMBER
            or word in MONTHS
            or (tag == "N" and place.likely > 0.5 and word not in NUMBER_WORDS)
        )
    if word in NUMBER_WORDS:
        return False
    if place.next in MONTHS and word.endswith(("م", "‌ام")):
        return True  # the twelfth of Mordad
    if word in _ALWAYS:
        return True
    if word == "حال" and place.next_tag in ("N", "PRO"):
        return True
    if place.likely >= _LIKELY:
        return True
    # A noun, an adjective and a verb that is more than "is" or "does".
    counted = place.word_before in _COUNTS or place.word_before in NUMBER_WORDS
    described = tag == "N" and (counted or place.before != "DET") and place.next_tag == "AJ"
    if not described or place.next in _RELATIVE or place.next.endswith("تر"):
        return False
    verb = place.after_known.verb if place.after_known else ""
    light = _LIGHT - _OWNING if counted else _LIGHT
    return bool(verb) and verb not in light and not _makes_verb(place.next, verb)


def _ruled_out(place: _Place) -> bool:
    word = place.word
    if word in _NEVER or place.next in _NEVER_BEFORE or (word, place.next) in _PAIRS:
        return True
    if place.tag == "V" and place.known is not None and place.known.verb:
        return True
    if place.next in _DAYS:
        return word not in _OF_A_DAY
    if place.next_tag in ("V", "POSTP", "CONJ", "PUNC"):
        return place.next_tag != "V" or place.next_known is None or bool(place.next_known.verb)
    if place.next_known is not None and place.next_known.surely_verb:
        return True
    next_verb = place.next_known.verb if place.next_known else ""
    if next_verb and place.next.endswith("ه") and place.after in _COPULA:  # `گذشته است`
        return True
    if word in first_names() or word.endswith(_FAMILY_ENDINGS):
        return place.next_tag in ("N", "NUM", "DET") or place.next in NUMBER_WORDS
    if place.next in _TIMES and place.after in _RELATIVE and word not in _SPANS:
        return True
    verb = place.after_known.verb if place.after_known else ""
    if place.after in _FUTURE and any(place.next in nouns for nouns in _compounds().values()):
        return True
    if verb and (place.next in _ADVERBS or _makes_verb(place.next, verb)):
        return True
    predicate = place.next_tag == "AJ" and place.after in _COPULA
    return predicate and (place.in_chain or place.before in ("", "P", "DET", "PUNC"))


def _ends_phrase(words: Sequence[str], tags: Sequence[str], place: int) -> bool:
    """`پلیس | راننده را`, `قبل از ورزش | بدن خود را`: an object of its own begins behind it."""
    word = words[place]
    if place == 0:
        agent = word in _AGENTS or word.endswith(_AGENT_ENDINGS)
        return agent and tags[1:2] != ["AJ"] and _leads_to_object(words, tags)
    after_time = words[place - 1] == "از" and words[max(place - 2, 0)] in ("قبل", "بعد", "پس")
    return after_time and not word.endswith("ن") and _leads_to_object(words[place:], tags[place:])


def _leads_to_object(words: Sequence[str], tags: Sequence[str]) -> bool:
    """Whether nouns and adjectives alone stand between the first word and a `را`."""
    for word, tag in zip(words[1:], tags[1:], strict=True):
        if word == "را":
            return True
        if tag not in ("N", "AJ", "PRO", "DET", "NUM"):
            return False
    return False


@lru_cache(maxsize=1)
def _compounds() -> dict[str, frozenset[str]]:
    table: dict[str, frozenset[str]] = {}
    for line in read_lines("compound_verbs.txt"):
        stem, *nouns = line.split()
        table[stem] = frozenset(nouns)
    return table


def _makes_verb(noun: str, stem: str) -> bool:
    return noun in _compounds().get(stem, ())
