"""Every form of the verbs in `data/verbs.txt`, with its reading: a table made once, when needed.

Written forms are kept without the half-space, so that می‌رود and میرود are the same form.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from myxtts.text.persian.files import read_lines

_PREVERBS = (
    ("بر", "bar"), ("در", "dar"), ("باز", "bâz"), ("فرو", "foru"), ("وا", "vâ"), ("ور", "var"),
)  # fmt: skip
_WITH_PREVERB = frozenset(
    [
        "گشت",
        "داشت",
        "آمد",
        "آورد",
        "رفت",
        "خورد",
        "یافت",
        "گرفت",
        "گذشت",
        "گزید",
        "خاست",
        "ماند",
        "انگیخت",
        "گرداند",
        "نشست",
        "ریخت",
        "داد",
        "کرد",
        "زد",
        "چید",
        "افتاد",
        "اومد",
        "خواند",
        "افراشت",
    ]
)
_PAST = (
    ("", ""), ("م", "am"), ("ی", "i"), ("یم", "im"), ("ید", "id"), ("ند", "and"),
    ("ین", "in"), ("ن", "an"),  # these two as they are spoken
)  # fmt: skip
_PERFECT = (
    ("", ""), ("ام", "'am"), ("ای", "'i"), ("ایم", "'im"), ("اید", "'id"), ("اند", "'and"), ("م", "m"),
)  # fmt: skip
_PRESENT = (
    ("م", "am"), ("ی", "i"), ("د", "ad"), ("یم", "im"), ("ید", "id"), ("ند", "and"),
    ("ه", "e"), ("ین", "in"), ("ن", "an"),
)  # fmt: skip
_PRESENT_AFTER_VOWEL = (
    ("یم", "yam"), ("یی", "yi"), ("ید", "yad"), ("ییم", "yim"), ("یید", "yid"), ("یند", "yand"),
    ("م", "m"), ("د", "d"), ("ی", "y"), ("ین", "yn"), ("ن", "n"),
)  # fmt: skip
_VOWELS = "aâeoiu"


class VerbForm(NamedTuple):
    """How a form is read, and whether nothing but a verb is written so."""

    reading: str
    certain: bool
    stem: str = ""  # of the past; empty for an infinitive, which is a noun too


@lru_cache(maxsize=1)
def verb_forms() -> dict[str, VerbForm]:
    """Written form (no half-space) to its reading; of two verbs the first of the list wins."""
    forms: dict[str, VerbForm] = {}
    for line in read_lines("verbs.txt"):
        past, past_said, present, present_said = line.split()
        for written, form in _forms(past, past_said, present, present_said):
            known = forms.get(written)
            # نشست is nešast, though "did not wash" is written so too: another reading never wins.
            if known is None or (form.certain and form.reading == known.reading):
                forms[written] = form
    return forms


def _forms(
    past: str, past_said: str, present: str, present_said: str
) -> Iterator[tuple[str, VerbForm]]:
    """Of two forms written alike the first counts: می‌خورد is said mixorad, and خورد xord."""
    spoken = len(present) == 1 and present != "آ"  # as in می‌گم; alone it would be found in any word
    for front, front_said in (("", ""), *(_PREVERBS if past in _WITH_PREVERB else ())):
        present_forms = [
            (front + written, front_said + said, certain)
            for written, said, certain in _present(present, present_said, spoken=spoken)
        ]
        past_forms = [
            (front + written, front_said + said, certain or bool(front))
            for written, said, certain in _past(past, past_said)
        ]
        in_order = sorted(present_forms, key=lambda form: not form[2])
        first = [form for form in in_order if form[2]]
        for written, said, certain in (*first, *past_forms, *in_order[len(first) :]):
            yield written, VerbForm(said, certain, "" if written == front + past + "ن" else past)


def _past(stem: str, stem_said: str) -> Iterator[tuple[str, str, bool]]:
    """Stressed is the prefix, else the stem, and of the perfect its e: m^iraft, r^aftam, raft^e'am."""
    for written, said, certain in _prefixed(stem, stem_said, order=False):
        stressed = "^" in said
        for ending, tail in _PAST:
            if ending == "ن" and not stressed:
                continue  # the infinitive, below
            spoken = (said if stressed else _stressed(said)) + tail
            yield written + ending, spoken, certain or len(ending) > 1
        for ending, tail in _PERFECT:
            perfect = f"{said}{'' if stressed else '^'}e{tail}"
            yield written + "ه" + ending, perfect, certain or bool(ending)
    yield stem + "ن", stem_said + "an", False


def _present(stem: str, stem_said: str, *, spoken: bool) -> Iterator[tuple[str, str, bool]]:
    if stem == "-":
        return
    endings = _PRESENT_AFTER_VOWEL if stem_said[-1] in "âu" else _PRESENT
    for written, said, certain in _prefixed(stem, stem_said, order=True):
        if spoken and written == stem:
            continue
        certain = certain and not (spoken and not written.startswith(("می", "نمی")))
        for ending, tail in endings:
            if not (spoken and ending in ("د", "ید", "ند")):
                yield written + ending, said + tail, certain
        if certain and not written.startswith(("می", "نمی")):  # an order: بنویس, نکن
            yield written, _end_of_order(said), True


def _prefixed(stem: str, said: str, *, order: bool) -> Iterator[tuple[str, str, bool]]:
    """The stem behind each prefix, as written and as said, and whether that is surely a verb."""
    yield stem, said, False
    glide = "'" if said[0] == "i" else "y" if said[0] in _VOWELS else ""  # mi'istad, miyâyad
    yield "می" + stem, f"m^i{glide}{said}", True
    yield "نمی" + stem, f"n^emi{glide}{said}", True
    prefixes = [("ن", "n^a"), ("ب", "b^o" if said.startswith("xo") else "b^e")][: 1 + order]
    for letter, sound in prefixes:
        letter_said = "n^a" if letter == "ن" else "b^i"
        if said[0] not in _VOWELS:
            yield letter + stem, sound + said, True
        elif stem.startswith("آ"):  # نیامد, بیاور
            yield (
                letter + "یا" + stem[1:],
                f"{letter_said}y" + said,
                True,
            )
        elif said[0] == "i":  # بایست, نایستاد
            yield letter + stem, f"{sound}'{said}", True
        else:  # بیفتد and, as some write, بیافتد
            glide = f"{letter_said}y" + said
            yield letter + "ی" + stem[1:], glide, True
            yield letter + "ی" + stem, glide, True


def _stressed(stem: str) -> str:
    place = max(stem.rfind(vowel) for vowel in _VOWELS)
    return f"{stem[:place]}^{stem[place:]}" if place >= 0 else stem


def _end_of_order(said: str) -> str:
    return said.removesuffix("av") + "ow" if said.endswith("av") else said
