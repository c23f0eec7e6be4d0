"""Turns written text into speakable text, so that the model never meets a digit or an odd quote.

`normalize_text` is deterministic, and its own output passes through it unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

from num2words import num2words

from myxtts.text.languages import check_language
from myxtts.text.persian.spoken import speak_signs


def normalize_text(text: str, language: str) -> str:
    """Spell out numbers, signs and abbreviations of a language, and unify its characters."""
    language = check_language(language)
    clean = _clean(text, language)
    if language == "en":
        spoken = _speak_english(clean)
    elif language == "fa":
        spoken = speak_signs(clean)
    elif language in _STYLES and _DIGIT.search(clean):
        spoken = _speak_numbers(clean, language)
    else:
        return clean
    # Words put in place of signs may leave a gap before a comma, or a mark to compose with.
    return clean if spoken is clean or spoken == clean else _clean(spoken, language)


# --- Characters ------------------------------------------------------------------------------

_UNIFY = str.maketrans(
    dict.fromkeys("“”„‟″«»「」『』", '"')
    | dict.fromkeys("‘’‚‛′`´‹›", "'")
    | dict.fromkeys("‐‑−", "-")
    | {"…": "..."}
    | {chr(0xFEE0 + code): chr(code) for code in range(48, 123) if chr(code).isalnum()}
)
# Control and format characters without a sound, variation selectors and lone surrogates.
_SILENT = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_JOINERS = {"fa": "\u200c", "hi": "\u200c\u200d"}  # where they change the shape of a word
_RANGE_DASH = re.compile(r"(?<=[0-9])[‒–](?=[0-9])")
_DASH = re.compile(r" *(?:[‒–—―]|--)[-‒–—―]* *")
_GAP_BEFORE_MARK = re.compile(r" +(?=[,;:?!.]+(?: |$))")
_FRENCH_QUOTE = re.compile(r"(?<=«)\s+|\s+(?=»)")

_PERSIAN = str.maketrans("كيىېٱہھە٪", "کیییاههه%") | {ord("ـ"): None, ord("ۀ"): "هٔ"}
_EASTERN_DIGITS = str.maketrans("٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹", "01234567890123456789")
_EASTERN_SEPARATOR = re.compile(r"(?<=[0-9])[٫٬](?=[0-9])")
_PRESENTATION_FORM = re.compile("[\ufb50-\ufdff\ufe70-\ufefc]+")  # letters frozen in one shape


def _clean(text: str, language: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
        if language == "fr":
            text = _FRENCH_QUOTE.sub("", text)
        text = text.translate(_UNIFY)
        if language in ("fa", "ar"):
            text = _clean_arabic_script(text, language)
        text = _RANGE_DASH.sub("-", text)
    text = _SILENT.sub("", text)
    if not text.isascii():
        text = _clean_joiners(text, keep=_JOINERS.get(language, ""))
    text = " ".join(text.split())
    if "--" in text or not text.isascii():
        text = _DASH.sub(" — ", text).strip()
        text = " ".join(unicodedata.normalize("NFC", text).split())
    return _GAP_BEFORE_MARK.sub("", text) if " " in text else text


def _clean_arabic_script(text: str, language: str) -> str:
    text = _PRESENTATION_FORM.sub(lambda m: unicodedata.normalize("NFKC", m[0]), text)
    if language == "fa":
        # Within an Arabic phrase the letter sounds as t; at the end of a Persian word it is silent.
        text = re.sub(r"ة(?=\s+ال)", "ت", text).replace("ة", "ه")
        text = text.translate(_PERSIAN)
    text = text.translate(_EASTERN_DIGITS).replace("٪", "%").replace("ـ", "")
    return _EASTERN_SEPARATOR.sub(lambda m: "." if m[0] == "٫" else ",", text)


def _clean_joiners(text: str, *, keep: str) -> str:
    if "\u200c" not in text and "\u200d" not in text:
        return text
    runs = re.split("([\u200c\u200d]+)", text)
    for i in range(1, len(runs), 2):
        between = runs[i - 1][-1:] + runs[i + 1][:1]
        joins = len(between) == 2 and all(unicodedata.category(c)[0] in "LM" for c in between)
        runs[i] = runs[i][0] if joins and runs[i][0] in keep else ""
    return "".join(runs)


# --- Numbers in any language -------------------------------------------------------------------


class _Style(NamedTuple):
    """How a language writes its numbers and says their signs."""

    group: str  # a character class between groups of three digits
    decimal: str
    point: str
    minus: str
    percent: str = ""  # empty: inflected or said in front, left to the phonemiser
    spaced: bool = True


_STYLES: dict[str, _Style] = {
    "en": _Style(",", ".", "point", "minus", "percent"),
    "es": _Style("[.]", ",", "coma", "menos", "por ciento"),
    "fr": _Style(" ", ",", "virgule", "moins", "pour cent"),
    "de": _Style("[.]", ",", "Komma", "minus", "Prozent"),
    "it": _Style("[.]", ",", "virgola", "meno", "per cento"),
    "pt": _Style("[.]", ",", "vírgula", "menos", "por cento"),
    "pl": _Style(" ", ",", "przecinek", "minus", "procent"),
    "tr": _Style("[.]", ",", "virgül", "eksi"),
    "ru": _Style(" ", ",", "запятая", "минус"),
    "nl": _Style("[.]", ",", "komma", "min", "procent"),
    "cs": _Style(" ", ",", "celá", "minus", "procent"),
    "ar": _Style(",", ".", "فاصلة", "سالب", "بالمئة"),
    "ja": _Style(",", ".", "点", "マイナス", "パーセント", spaced=False),
    "hu": _Style(" ", ",", "vessző", "mínusz", "százalék"),
    "ko": _Style(",", ".", "점", "마이너스", "퍼센트", spaced=False),
}
_DIGIT = re.compile("[0-9]")
_MAX_DIGITS = 15  # num2words knows names up to here in all of them; longer ones are codes anyway
_LEADING_PERCENT = re.compile(r"(?<![0-9])%([0-9]+(?:[.,][0-9]+)*)(?!%)")


def _speak_numbers(text: str, language: str) -> str:
    if language == "tr":
        text = _LEADING_PERCENT.sub(r"yüzde \1", text)
    style = _STYLES[language]

    def speak(match: re.Match[str]) -> str:
        sign, number, percent = match.group("sign", "number", "percent")
        words = [style.minus] if sign else []
        words.append(number_words(number, language))
        words += [style.percent or "%"] if percent else []
        return _set_apart(match, (" " if style.spaced else "").join(words), style.spaced)

    return _number_pattern(language).sub(speak, text)


@cache
def _number_pattern(language: str) -> re.Pattern[str]:
    group, decimal = _STYLES[language].group, re.escape(_STYLES[language].decimal)
    return re.compile(
        rf"(?P<sign>(?<![\w)\].-])-)?(?P<number>(?:(?<![0-9])[0-9]{{1,3}}(?:{group}[0-9]{{3}})+"
        rf"(?![0-9])|[0-9]+)(?:{decimal}[0-9]+)*)(?P<percent> ?%)?"
    )


@lru_cache(maxsize=16384)
def number_words(number: str, language: str) -> str:
    """Say a number as its language writes it, such as 1,234.5 in English or 1.234,5 in German."""
    style = _STYLES[language]
    whole, *parts = number.split(style.decimal)
    plain_year = language in ("en", "de") and re.fullmatch("1[1-9][0-9]{2}", number)
    whole = re.sub(style.group, "", whole)
    join = " " if style.spaced else ""
    words = [_integer_words(whole, language, to="year" if plain_year else "cardinal")]
    for part in parts:
        digits = [part] if len(parts) > 1 else part  # 1.2.14 is a version: its parts are numbers
        words += [style.point, *(_integer_words(digit, language) for digit in digits)]
    return join.join(words)


def _integer_words(digits: str, language: str, *, to: str = "cardinal") -> str:
    if len(digits) > _MAX_DIGITS or (digits[0] == "0" and len(digits) > 1):  # a code, not a count
        return " ".join(_integer_words(digit, language) for digit in digits)
    words: str = num2words(int(digits), lang=language, to=to)
    return words.replace(",", "").replace(" oh-", " oh ")  # no pause within a number


def _set_apart(match: re.Match[str], words: str, spaced: bool) -> str:
    """Put a space where the number touched a letter: B52, 5kg."""
    if not spaced:
        return words
    start, end = match.span()
    before, after = match.string[max(start - 1, 0) : start], match.string[end : end + 1]
    return f"{' ' * before.isalnum()}{words}{' ' * after.isalnum()}"


# --- English -----------------------------------------------------------------------------------

_TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Ms", "Messrs": "Messieurs", "Dr": "Doctor",
    "Drs": "Doctors", "Prof": "Professor", "Rev": "Reverend", "Hon": "Honorable",
    "Gen": "General", "Maj": "Major", "Col": "Colonel", "Capt": "Captain", "Lt": "Lieutenant",
    "Sgt": "Sergeant", "Gov": "Governor", "Sen": "Senator", "Mt": "Mount", "Ft": "Fort",
    "Jan": "January", "Feb": "February", "Aug": "August", "Sept": "September",
    "Oct": "October", "Nov": "November", "Dec": "December", "vs": "versus",
    "i.e": "that is", "e.g": "for example",
}  # fmt: skip
_TRAILERS = {  # these may end a sentence, whose full stop must then stay
    "Co": "Company", "Corp": "Corporation", "Inc": "Incorporated", "Ltd": "Limited",
    "Bros": "Brothers", "Jr": "Junior", "Sr": "Senior", "Esq": "Esquire", "Ave": "Avenue",
    "Blvd": "Boulevard", "Rd": "Road", "etc": "et cetera",
}  # fmt: skip
_COUNTED = {  # only in front of a number: "No." is also an answer
    "No": "Number", "no": "number", "Nos": "Numbers", "nos": "numbers", "Fig": "Figure",
    "fig": "figure", "Vol": "Volume", "vol": "volume", "p": "page", "pp": "pages",
}  # fmt: skip
_MONEY = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
}
_AMOUNT = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)"


def _any_of(words: dict[str, str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_ABBREVIATION = re.compile(
    rf"(?<![\w.])({_any_of(_TITLES | _TRAILERS)}|St)\.(?=([\"')]*$| [\"'(]?[A-Z])|[ ,;:!?)\"'-])"
)
_COUNTED_WORD = re.compile(rf"(?<![\w.])({_any_of(_COUNTED)})\. ?(?=[0-9])")
_TRAILING_EURO = re.compile(rf"(?<![0-9.,])({_AMOUNT}(?:\.[0-9]+)?) ?€(?! ?[0-9])")
_PRICE = re.compile(
    rf"([$£€]) ?({_AMOUNT})(?:\.([0-9]+))?(?: (hundred|thousand|million|billion|trillion)\b)?"
)
_HALF_DAY = re.compile(r"(?<=[0-9]) ?([AaPp])\.?[Mm]\b\.?")
_CLOCK = re.compile(r"(?<![\w:.])([01]?[0-9]|2[0-3]):([0-5][0-9])(?![\w:]|\.[0-9])(?=( [ap]\.m)?)")
_RANGE = re.compile(r"(?<![\w.,:$£€/-])([0-9]{1,4})-([0-9]{1,4})(?![\w/-]|[.,:][0-9])")
_DECADE = re.compile(r"(?<![\w.,])'?([12][0-9]{2}0|[2-9]0)'?s\b")
_ORDINAL = re.compile(rf"(?<![\w.,])({_AMOUNT})(?:st|nd|rd|th)\b", re.IGNORECASE)
_POINT = re.compile(r"(?<![\w.])\.(?=[0-9])")


def _speak_english(text: str) -> str:
    if "&" in text:
        text = re.sub(" ?& ?", " and ", text)
    if _DIGIT.search(text):
        for pattern, speak in _ENGLISH_NUMBERS:
            text = pattern.sub(speak, text)
        text = _speak_numbers(text, "en")
    return _ABBREVIATION.sub(_spell_abbreviation, text) if "." in text else text


def _spell_abbreviation(match: re.Match[str]) -> str:
    short, following = match[1], match[2]
    ends_text = following is not None and not following.startswith(" ")
    if short == "St":
        return "Saint" if following and not ends_text else "Street" + "." * ends_text
    if short in _TITLES:
        return _TITLES[short] + "." * ends_text
    return _TRAILERS[short] + "." * (following is not None)


def _say_price(match: re.Match[str]) -> str:
    sign, whole, fraction, scale = match.groups()
    one, many, one_minor, many_minor = _MONEY[sign]
    whole = whole.replace(",", "")
    if scale or (fraction and len(fraction) != 2):
        number = number_words(f"{whole}.{fraction}", "en") if fraction else _whole(whole)
        return _set_apart(match, f"{number} {scale + ' ' if scale else ''}{many}", True)
    minor = int(fraction or 0)
    said = [] if minor and not int(whole) else [f"{_whole(whole)} {one if whole == '1' else many}"]
    said += [f"{_whole(str(minor))} {one_minor if minor == 1 else many_minor}"] if minor else []
    return _set_apart(match, " and ".join(said), True)


def _whole(digits: str) -> str:
    return _integer_words(digits, "en")


def _say_time(match: re.Match[str]) -> str:
    hour, minute, half_day = match.groups()
    if minute == "00":
        return _whole(str(int(hour))) + ("" if half_day else " o'clock")
    spoken = f"oh {_whole(minute[1])}" if minute[0] == "0" else _whole(minute)
    return f"{_whole(str(int(hour)))} {spoken}"


def _say_range(match: re.Match[str]) -> str:
    first, last = match.groups()
    lengths = (len(first), len(last))
    rising = int(first) < int(last) and lengths in ((1, 1), (2, 2), (3, 3), (4, 4), (1, 2), (2, 3))
    return f"{first} to {last}" if rising or lengths == (4, 2) else match[0]


def _say_decade(match: re.Match[str]) -> str:
    words = number_words(match[1], "en")
    return words.removesuffix("y") + "ies" if words.endswith("y") else words + "s"


def _say_ordinal(match: re.Match[str]) -> str:
    digits = match[1].replace(",", "")
    if len(digits) > _MAX_DIGITS:
        return match[0]
    return _set_apart(match, _integer_words(digits, "en", to="ordinal"), True)


# In this order: each pattern relies on the ones before it having taken their numbers.
_ENGLISH_NUMBERS: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (_COUNTED_WORD, lambda match: _COUNTED[match[1]] + " "),
    (re.compile("# ?(?=[0-9])"), "number "),
    (_HALF_DAY, lambda match: f" {match[1].lower()}.m."),
    (_CLOCK, _say_time),
    (_TRAILING_EURO, r"€\1"),
    (_PRICE, _say_price),
    (_RANGE, _say_range),
    (_DECADE, _say_decade),
    (_ORDINAL, _say_ordinal),
    (_POINT, "point "),
]
