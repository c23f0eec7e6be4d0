"""Words that no table holds, read from their parts: plurals, possessives, compounds, verbs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from myxtts.text.persian.lexicon import own_words, package_words
from myxtts.text.persian.numbers import NUMBER_WORDS
from myxtts.text.persian.phonemes import VOWELS, plain
from myxtts.text.persian.verbs import verb_forms

_JOINER = "\u200c"
LONGEST_WORD = 40  # letters; nothing longer is a word, and cutting it up would take for ever
_SHORT_STEMS = frozenset(
    [
        "آب",
        "پا",
        "مو",
        "نو",
        "جا",
        "سر",
        "دل",
        "دم",
        "لب",
        "خط",
        "حد",
        "حق",
        "رگ",
        "سن",
        "کف",
        "گل",
        "شب",
        "تب",
        "غم",
        "نخ",
        "پل",
    ]
)
_SPOKEN_OBJECT = ("و", "رو")
_MIN_PART = 2  # letters; shorter parts of a compound are chance


class Known(NamedTuple):
    """A reading, where it comes from, and whether an ezafe is written into the word."""

    reading: str
    source: str  # "lexicon" or "rules"
    ezafe: bool = False
    verb: str = ""  # the past stem, if it is a form of a verb
    surely_verb: bool = False  # and nothing but a verb is written so


# What follows a stem: letters, how they are said after a consonant, after a vowel, and whether
# they end in a written ezafe. `^` before the stem's last vowel is set where they take no stress.
_PLURAL = (
    ("ها", "hâ"), ("هایی", "h^âyi"), ("هایم", "h^âyam"), ("هایت", "h^âyat"), ("هایش", "h^âyaš"),
    ("هایمان", "h^âyemân"), ("هایتان", "h^âyetân"), ("هایشان", "h^âyešân"), ("هام", "h^âm"),
    ("هات", "h^ât"), ("هاش", "h^âš"), ("هامون", "h^âmun"), ("هاتون", "h^âtun"), ("هاشون", "h^âšun"),
    ("هاست", "h^âst"), ("هاس", "h^âs"), ("هایند", "h^âyand"), ("هارو", "h^âro"),
)  # fmt: skip
_STRESSED = (
    ("تر", "tar", "tar"), ("ترین", "tarin", "tarin"), ("تری", "t^ari", "t^ari"),
    ("ان", "ân", "yân"), ("ات", "ât", "ât"), ("یان", "iyân", "yân"), ("گان", "egân", "egân"),
    ("انه", "âne", "âne"), ("مند", "mand", "mand"), ("دار", "dâr", "dâr"), ("گاه", "gâh", "gâh"),
    ("گر", "gar", "gar"), ("گری", "gari", "gari"), ("چی", "či", "či"), ("بان", "bân", "bân"),
    ("ستان", "estân", "stân"), ("یت", "iyyat", "iyyat"), ("ناک", "nâk", "nâk"), ("وار", "vâr", "vâr"),
    ("زاده", "zâde", "zâde"), ("پور", "pur", "pur"), ("نژاد", "nežâd", "nežâd"), ("فر", "far", "far"),
    ("آباد", "âbâd", "âbâd"), ("اباد", "âbâd", "âbâd"), ("گی", "egi", "egi"),
    ("تا", "tâ", "tâ"), ("چه", "če", "če"), ("دان", "dân", "dân"), ("کده", "kade", "kade"),
    ("سازی", "sâzi", "sâzi"), ("ساز", "sâz", "sâz"), ("بندی", "bandi", "bandi"), ("گذاری", "gozâri", "gozâri"),
    ("رسانی", "resâni", "resâni"), ("شناسی", "šenâsi", "šenâsi"), ("شناس", "šenâs", "šenâs"),
    ("زدایی", "zodâyi", "zodâyi"), ("پذیر", "pazir", "pazir"), ("ریزی", "rizi", "rizi"), ("زده", "zade", "zade"),
    ("شده", "šode", "šode"), ("کننده", "konande", "konande"), ("فروشی", "foruši", "foruši"),
    ("فروش", "foruš", "foruš"), ("نامه", "nâme", "nâme"), ("گیری", "giri", "giri"), ("گیر", "gir", "gir"),
    ("یاب", "yâb", "yâb"), ("داری", "dâri", "dâri"), ("کاری", "kâri", "kâri"), ("کار", "kâr", "kâr"),
    ("خانه", "xâne", "xâne"), ("ای", "'i", "'i"),
)  # fmt: skip
_UNSTRESSED = (
    ("ی", "i", "yi"), ("یی", "yi", "yi"), ("م", "am", "am"), ("ت", "at", "at"), ("ش", "aš", "aš"),
    ("مان", "emân", "emân"), ("تان", "etân", "etân"), ("شان", "ešân", "ešân"),
    ("مون", "emun", "mun"), ("تون", "etun", "tun"), ("شون", "ešun", "šun"),
    ("ام", "am", "'am"), ("ات", "at", "'at"), ("اش", "aš", "'aš"), ("اند", "and", "'and"),
    ("ایم", "im", "'im"), ("اید", "id", "'id"), ("ای", "i", "'i"),
    ("یم", "im", "yam"), ("یت", "iyat", "yat"), ("یش", "yaš", "yaš"), ("یمان", "yemân", "yemân"),
    ("یتان", "yetân", "yetân"), ("یشان", "yešân", "yešân"), ("ید", "id", "'id"), ("ند", "and", "and"),
    ("ست", "st", "st"), ("و", "o", "ro"), ("ه", "e", "e"), ("رو", "ro", "ro"),
)  # fmt: skip
_PREFIXES = (
    ("نا", "nâ"), ("بی", "bi"), ("هم", "ham"), ("پیش", "piš"), ("پر", "por"), ("کم", "kam"), ("غیر", "qeyre"),
    ("ضد", "zedde"), ("باز", "bâz"), ("فرا", "farâ"), ("خوش", "xoš"), ("بد", "bad"), ("نیم", "nim"),
    ("تک", "tak"), ("چند", "čand"), ("با", "bâ"), ("ابر", "abar"),
    ("پس", "pas"), ("زیر", "zir"), ("میان", "miyân"), ("بین", "beyn"), ("نو", "now"), ("سر", "sar"),
    ("آنتی", "ânti"), ("پسا", "pasâ"), ("خود", "xod"), ("یک", "yek"), ("دست", "dast"),
)  # fmt: skip


def look_up(word: str) -> Known | None:
    """How a word without vowel marks is read, by tables and rules; None is for the guesser."""
    return _look_up(word) if len(word) <= LONGEST_WORD else None


@lru_cache(maxsize=32768)
def _look_up(word: str) -> Known | None:
    bare = word.replace(_JOINER, "")
    own = own_words()
    if word in own and word != bare:
        return Known(own[word], "lexicon")
    if bare in own:
        verb = verb_forms().get(bare)
        if verb is None or plain(verb.reading).replace("'", "") != own[bare]:
            return Known(own[bare], "lexicon")
        same = plain(verb.reading) == own[bare]  # then the verb knows its stress
        return Known(
            verb.reading if same else own[bare],
            "lexicon",
            verb=verb.stem,
            surely_verb=bool(verb.stem and verb.certain),
        )
    for ending, said in _ORDER:
        if bare.endswith(ending) and bare.removesuffix(ending) in NUMBER_WORDS - {"سه"}:
            return Known(own[bare.removesuffix(ending)] + said, "rules")
    written = _written_ezafe(word)
    if written is not None:
        return written
    verb = verb_forms().get(bare)
    if verb is not None and verb.certain:
        return Known(verb.reading, "rules", verb=verb.stem, surely_verb=True)
    joined = _with_joined_ending(word)
    if joined is not None:
        return Known(joined, "rules")
    if verb is not None:
        return Known(verb.reading, "rules", verb=verb.stem)
    packaged = package_words().get(bare)
    inflected = _inflected(bare, own)
    if inflected is not None and (packaged is None or _JOINER in word):
        return Known(inflected, "rules")
    if packaged is not None:
        return Known(packaged, "lexicon")
    for found in (_compound(word, own), _inflected(bare, package_words())):
        if found is not None:
            return Known(found, "rules")
    return None


_ORDER = (("مین", "omin"), ("امین", "'omin"), ("ام", "'om"), ("م", "om"))
_EZAFE_FORMS = {"روی": "ru", "توی": "tu"}  # `رو` and `تو` alone are read otherwise


def _written_ezafe(word: str) -> Known | None:
    """`خانه‌ی`, `کتاب‌های`, `هوای`: the ezafe is there to be seen."""
    if word in _EZAFE_FORMS:
        return Known(_EZAFE_FORMS[word], "lexicon", ezafe=True)
    if word.endswith(("ه\u200cی", "ه\u0654")):
        found = look_up(word.removesuffix("\u200cی").removesuffix("\u0654"))
        return None if found is None else Known(found.reading, found.source, ezafe=True)
    if word.endswith(("های", "ای", "وی")) and not word.endswith("\u200cای"):
        found = look_up(word[:-1])
        if found is not None and found.reading[-1] in "âuo" and not found.verb:
            return Known(found.reading, found.source, ezafe=True)
    return None


def _with_joined_ending(word: str) -> str | None:
    first, _, ending = word.rpartition(_JOINER)
    found = look_up(first) if first else None
    return None if found is None else with_ending(found.reading, ending)


def with_ending(stem: str, ending: str) -> str | None:
    """An ending behind a half-space is surely one: `خسته‌ام`, `هفته‌ای`, `گوشی‌ام`."""
    stem = stem.replace("^", "")
    for letters, said in _PLURAL:
        if letters == ending:
            return stem + said
    for letters, after_consonant, after_vowel in (*_UNSTRESSED, *_STRESSED):
        if letters == ending:
            return _unstressed(stem, after_vowel if stem[-1] in VOWELS else after_consonant)
    return None


def _inflected(bare: str, table: dict[str, str]) -> str | None:
    for plural in _plurals(bare, table):
        return plural
    for letters, after_consonant, after_vowel in _STRESSED:
        stem = _stem(bare, table, without=letters)
        if stem:
            return stem + (after_vowel if stem[-1] in VOWELS else after_consonant)
    for letters, after_consonant, after_vowel in _UNSTRESSED:
        stem = _stem(bare, table, without=letters)
        if stem:
            return _unstressed(stem, after_vowel if stem[-1] in VOWELS else after_consonant)
    for letters, said in _PREFIXES:
        rest = table.get(bare.removeprefix(letters)) if bare.startswith(letters) else None
        if rest and len(bare) - len(letters) > _MIN_PART:
            return said + rest
    return None


def _plurals(bare: str, table: dict[str, str]) -> Iterator[str]:
    for letters, said in _PLURAL:
        if bare.endswith(letters):
            rest = bare[: -len(letters)]
            stem = table.get(rest) or _inflected_once(rest, table)
            if stem:
                yield stem + said


def _inflected_once(bare: str, table: dict[str, str]) -> str | None:
    for letters, after_consonant, after_vowel in (*_STRESSED, ("ی", "i", "yi")):
        stem = _stem(bare, table, without=letters)
        if stem:
            return stem + (after_vowel if stem[-1] in VOWELS else after_consonant)
    return None


def _stem(bare: str, table: dict[str, str], *, without: str) -> str | None:
    """The reading of what stands before an ending; a stem of two letters is chance."""
    rest = bare[: -len(without)]
    if without in _SPOKEN_OBJECT and len(rest) <= _MIN_PART + 1:  # جارو is no `جا رو`
        return None
    if not bare.endswith(without) or (len(rest) <= _MIN_PART and rest not in _SHORT_STEMS):
        return None
    return table.get(rest)


def _unstressed(stem: str, ending: str) -> str:
    if stem[-1] == "e" and ending in ("e", "yi"):  # `خانه` takes its own forms
        return stem + "'i"
    for place in range(len(stem) - 1, -1, -1):
        if stem[place] in VOWELS:
            return stem if "^" in stem else f"{stem[:place]}^{stem[place:]}{ending}"
    return stem + ending


def _compound(word: str, table: dict[str, str]) -> str | None:
    """Two or three known words written together, with or without half-spaces."""
    if _JOINER in word:
        parts = word.split(_JOINER)
        found = [look_up(part) for part in parts if part]
        if all(found):
            return "".join(known.reading.replace("^", "") for known in found if known)
    bare = word.replace(_JOINER, "")
    for place in range(3, len(bare) - 2):
        first, last = table.get(bare[:place]), table.get(bare[place:])
        if first and last is None:
            last = _inflected(bare[place:], table)
        if first and last:
            return first + last
    return None
