"""Persian names of numbers: counted, in order, as a fraction, or figure by figure."""

from __future__ import annotations

from functools import lru_cache

MAX_DIGITS = 15  # longer ones are codes, and are read figure by figure
JOIN = " و "

FIGURES = ("صفر", "یک", "دو", "سه", "چهار", "پنج", "شش", "هفت", "هشت", "نه")
_TEENS = (
    "ده", "یازده", "دوازده", "سیزده", "چهارده", "پانزده", "شانزده", "هفده", "هجده", "نوزده",
)  # fmt: skip
_TENS = ("", "", "بیست", "سی", "چهل", "پنجاه", "شصت", "هفتاد", "هشتاد", "نود")
_HUNDREDS = (
    "", "صد", "دویست", "سیصد", "چهارصد", "پانصد", "ششصد", "هفتصد", "هشتصد", "نهصد",
)  # fmt: skip
_SCALES = ("", "هزار", "میلیون", "میلیارد", "تریلیون")
ORDER_MARK = "م"

NUMBER_WORDS = frozenset((*FIGURES, *_TEENS, *_TENS[2:], *_HUNDREDS[1:], *_SCALES[1:]))
"""Every word a number is made of, without the `و` between them."""


@lru_cache(maxsize=16384)
def count_words(digits: str) -> str:
    """Say a row of digits as a count; one that starts with zero, or is too long, as a code."""
    if len(digits) > MAX_DIGITS or (len(digits) > 1 and digits[0] == "0"):
        return figure_words(digits)
    value = int(digits)
    if value == 0:
        return FIGURES[0]
    parts = []
    for scale in reversed(range(len(_SCALES))):
        group, value = divmod(value, 1000**scale)
        if not group:
            continue
        name = _SCALES[scale]
        if scale == 1 and group == 1:  # "هزار", while a million is "یک میلیون"
            parts.append(name)
        else:
            parts.append(f"{_below_thousand(group)} {name}".rstrip())
    return JOIN.join(parts)


def figure_words(digits: str) -> str:
    """Say digits one by one."""
    return " ".join(FIGURES[int(digit)] for digit in digits)


def code_words(digits: str) -> str:
    """Say a group of a phone number: its leading zeros one by one, the rest as a count."""
    rest = digits.lstrip("0")
    zeros = [FIGURES[0]] * (len(digits) - len(rest))
    return " ".join([*zeros, count_words(rest)] if rest else zeros)


def order_words(digits: str, *, superlative: bool = False) -> str:
    """Say a place in an order: `پنجم`, or with `superlative` `پنجمین`."""
    words = count_words(digits)
    if words.endswith("سه"):
        words = words.removesuffix("سه") + "سوم"
    elif words.endswith("سی"):  # a vowel needs its alef
        words += "\u200cام"
    else:
        words += ORDER_MARK
    return words + "ین" * superlative


def decimal_words(whole: str, fraction: str) -> str:
    """Say a number with a decimal part: `دو ممیز پنج`; the part is a count of its own."""
    said = code_words(fraction) if len(fraction) <= 4 else figure_words(fraction)
    return f"{count_words(whole)} ممیز {said}"


def _below_thousand(value: int) -> str:
    hundreds, rest = divmod(value, 100)
    parts = [_HUNDREDS[hundreds]] if hundreds else []
    if rest >= 20:
        tens, ones = divmod(rest, 10)
        parts.append(_TENS[tens])
        parts += [FIGURES[ones]] if ones else []
    elif rest >= 10:
        parts.append(_TEENS[rest - 10])
    elif rest:
        parts.append(FIGURES[rest])
    return JOIN.join(parts)
