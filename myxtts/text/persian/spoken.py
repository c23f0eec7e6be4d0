"""What Persian text writes in figures and signs, said in words: dates, times, money, phones, units.

It reads text with Latin digits, as `normalize_text` leaves them, and leaves no digit behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from myxtts.text.persian.numbers import (
    code_words,
    count_words,
    decimal_words,
    figure_words,
    order_words,
)

JALALI_MONTHS = (
    "فروردین", "اردیبهشت", "خرداد", "تیر", "مرداد", "شهریور",
    "مهر", "آبان", "آذر", "دی", "بهمن", "اسفند",
)  # fmt: skip
GREGORIAN_MONTHS = (
    "ژانویه", "فوریه", "مارس", "آوریل", "مه", "ژوئن",
    "ژوئیه", "اوت", "سپتامبر", "اکتبر", "نوامبر", "دسامبر",
)  # fmt: skip
LUNAR_MONTHS = ("محرم", "صفر", "رجب", "شعبان", "رمضان", "شوال", "ذی‌القعده", "ذی‌الحجه")
MONTHS = frozenset((*JALALI_MONTHS, *GREGORIAN_MONTHS, "مرداد", "امرداد", "می", "جولای", "آگوست"))

_UNITS = {
    "km/h": "کیلومتر بر ساعت", "km": "کیلومتر", "cm": "سانتی‌متر", "mm": "میلی‌متر", "m²": "متر مربع",
    "m2": "متر مربع", "m³": "متر مکعب", "m3": "متر مکعب", "m": "متر", "kg": "کیلوگرم", "mg": "میلی‌گرم",
    "g": "گرم", "ml": "میلی‌لیتر", "l": "لیتر", "°c": "درجه سانتی‌گراد", "°f": "درجه فارنهایت",
    "°": "درجه", "gb": "گیگابایت", "mb": "مگابایت", "kb": "کیلوبایت", "tb": "ترابایت", "ghz": "گیگاهرتز",
    "mhz": "مگاهرتز", "hz": "هرتز", "kw": "کیلووات", "mw": "مگاوات", "w": "وات", "v": "ولت",
    "ms": "میلی‌ثانیه", "mbps": "مگابیت بر ثانیه",
}  # fmt: skip
_MONEY = {
    "$": ("دلار", "سنت"), "€": ("یورو", "سنت"), "£": ("پوند", "پنی"), "¥": ("ین", ""),
    "₺": ("لیر", "قروش"), "₽": ("روبل", "کوپک"),
}  # fmt: skip
_OPERATORS = {"+": "به‌علاوه‌ی", "×": "ضرب در", "*": "ضرب در", "÷": "تقسیم بر", "=": "مساوی"}
_BEFORE_FIGURES = {"ص": "صفحه", "ج": "جلد", "ش": "شماره"}
_FRACTION_SIGNS = {
    "½": "1/2",
    "⅓": "1/3",
    "⅔": "2/3",
    "¼": "1/4",
    "¾": "3/4",
    "⅕": "1/5",
    "⅛": "1/8",
}
_ABBREVIATIONS = {
    "ه.ش": "هجری شمسی", "ه.ق": "هجری قمری", "ق.م": "قبل از میلاد", "ر.ک": "رجوع کنید به",
    "ص.ب": "صندوق پستی", "(ص)": "صلی الله علیه و آله", "(ع)": "علیه السلام", "(س)": "سلام الله علیها",
    "(ره)": "رحمت الله علیه",
}  # fmt: skip

_AMOUNT = r"(?:[0-9]{1,3}(?:[,،][0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?"
_ABBREVIATION = re.compile(
    "|".join(
        rf"(?<![\w.]){re.escape(a)}\.?(?![\w.])" if a[0] != "(" else re.escape(a)
        for a in _ABBREVIATIONS
    )
)
_ENDLESS = re.compile(r"[0-9][0-9.,،:/+-]{60,}")  # no number: it would only keep the patterns busy
_NO_DIGIT = re.compile("[^0-9]")
_EDGE, _END = r"(?<![0-9.,:/+-])", r"(?![0-9]|[.,:/-][0-9])"


def speak_signs(text: str) -> str:
    """Spell out figures and signs; text without them comes back as it is."""
    if "." in text or "(" in text:
        text = _ABBREVIATION.sub(lambda m: f" {_ABBREVIATIONS[_undotted(m[0])]} ", text)
    if not _HAS_FIGURE.search(text):
        return text
    text = _ENDLESS.sub(lambda m: f" {figure_words(_NO_DIGIT.sub('', m[0]))} ", text)
    for pattern, speak in _PATTERNS:
        text = pattern.sub(_spaced(speak), text)
    return text


def _undotted(abbreviation: str) -> str:
    return abbreviation if abbreviation in _ABBREVIATIONS else abbreviation.removesuffix(".")


def _spaced(speak: Callable[[re.Match[str]], str]) -> Callable[[re.Match[str]], str]:
    """Put a space where a figure touched a letter: B52, 5kg."""

    def spaced(match: re.Match[str]) -> str:
        said = speak(match)
        if said == match[0]:
            return said
        start, end = match.span()
        before, after = match.string[max(start - 1, 0) : start], match.string[end : end + 1]
        return f"{' ' * before.isalnum()}{said}{' ' * after.isalnum()}"

    return spaced


# --- Dates and times ---------------------------------------------------------------------------


def _date(year: str, month: str, day: str, otherwise: str) -> str:
    months = GREGORIAN_MONTHS if len(year) == 4 and int(year) >= 1700 else JALALI_MONTHS
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31 and len(year) in (2, 4)):
        return otherwise
    if len(year) == 4 and not (1200 <= int(year) <= 1499 or 1700 <= int(year) <= 2199):
        return otherwise
    said = code_words(year)
    return f"{order_words(str(int(day)))} {months[int(month) - 1]} {said}"


def _say_clock(match: re.Match[str]) -> str:
    named, hour, minute, second = match.groups()
    said = count_words(str(int(hour)))
    rest = int(minute)
    if second is not None:
        said += f" و {count_words(str(rest))} دقیقه و {count_words(str(int(second)))} ثانیه"
    elif rest in (15, 30) and int(hour) <= 12:
        said += " و ربع" if rest == 15 else " و نیم"
    elif rest:
        said += f" و {count_words(str(rest))} دقیقه"
    return f"{named or ('' if rest or second else 'ساعت ')}{said}"


# --- Phones ------------------------------------------------------------------------------------


def _say_mobile(match: re.Match[str]) -> str:
    country = match[1]
    digits = re.sub("[^0-9]", "", match[2])
    groups = (digits[:3], digits[3:6], digits[6:8], digits[8:])
    front = "صفر" if country == "0" else "مثبت نود و هشت،"
    return f"{front} {'، '.join(map(code_words, groups))}"


def _say_landline(match: re.Match[str]) -> str:
    digits = re.sub("[^0-9]", "", match[2])
    pairs = [digits[i : i + 2] for i in range(0, len(digits), 2)]
    front = f"صفر {code_words(match[1])}" if match[1] else ""
    return "، ".join(filter(None, [front, *map(code_words, pairs)]))


def _say_card(match: re.Match[str]) -> str:
    return "، ".join(map(figure_words, re.split("[ -]", match[0])))


# --- Amounts -----------------------------------------------------------------------------------


def _number(written: str) -> str:
    whole, _, fraction = re.sub("[,،]", "", written).partition(".")
    return decimal_words(whole, fraction) if fraction else count_words(whole)


def _say_money(sign: str, amount: str, scale: str | None) -> str:
    unit, part = _MONEY[sign]
    whole, _, fraction = re.sub("[,،]", "", amount).partition(".")
    if scale:
        return f"{_number(amount)} {scale} {unit}"
    if part and len(fraction) == 2:
        said = [f"{count_words(whole)} {unit}"] if int(whole) else []
        said += [f"{count_words(str(int(fraction)))} {part}"] if int(fraction) else []
        return " و ".join(said) or f"صفر {unit}"
    return f"{_number(amount)} {unit}"


def _say_slashed(match: re.Match[str]) -> str:
    """`۳/۴` is three quarters; `۲/۵ درصد`, and more parts than the whole has, a decimal."""
    upper, lower, percent = match.groups()
    if percent or int(upper) >= int(lower) or len(lower) > 3 or lower[0] == "0":
        return f"{decimal_words(upper, lower)}{percent or ''}"
    return "یک دوم" if lower == "2" else f"{count_words(upper)} {order_words(lower)}"


def _say_range(match: re.Match[str]) -> str:
    """`۱۰-۱۵` goes from one to the other; `۳-۱` is a score."""
    first, last = match[1], match[2]
    one, other = (float(re.sub("[,،]", "", number)) for number in (first, last))
    if one < other:
        return f"{first} تا {last}"
    return f"{first} بر {last}" if one < 20 else match[0]


def _say_unit(match: re.Match[str]) -> str:
    return f"{match[1]} {_UNITS[match[2].lower()]}"


def _say_version(match: re.Match[str]) -> str:
    return " نقطه ".join(map(count_words, match[0].split(".")))


def _say_number(match: re.Match[str]) -> str:
    sign, written, percent = match.groups()
    minus = {"-": "منفی ", "+": "مثبت "}.get(sign or "", "")
    return f"{minus}{_number(written)}{' درصد' if percent else ''}"


_MONTH_NAMES = "|".join(sorted((*JALALI_MONTHS, *GREGORIAN_MONTHS, *LUNAR_MONTHS), key=len)[::-1])
_UNIT_NAMES = "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))
_SIGNS = "".join(_MONEY)
_SCALES = "هزار|میلیون|میلیارد|تریلیون"
_HAS_FIGURE = re.compile(f"[0-9{''.join(_FRACTION_SIGNS)}]")

# In this order: each pattern relies on the ones before it having taken their figures.
_PATTERNS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (re.compile(f"[{''.join(_FRACTION_SIGNS)}]"), lambda m: f" {_FRACTION_SIGNS[m[0]]} "),
    (
        re.compile(rf"(?<![\w.])({'|'.join(_BEFORE_FIGURES)})\.? (?=[0-9])"),
        lambda m: f"{_BEFORE_FIGURES[m[1]]} ",
    ),
    (
        re.compile(rf"{_EDGE}([0-9]{{4}})([/-])([0-9]{{1,2}})\2([0-9]{{1,2}}){_END}"),
        lambda m: _date(m[1], m[3], m[4], m[0]),
    ),
    (
        re.compile(rf"{_EDGE}([0-9]{{1,2}})([/.-])([0-9]{{1,2}})\2([0-9]{{4}}){_END}"),
        lambda m: _date(m[4], m[3], m[1], m[0]),
    ),
    (
        re.compile(rf"{_EDGE}([0-9]{{2}})/([0-9]{{1,2}})/([0-9]{{1,2}}){_END}"),
        lambda m: _date(m[1], m[2], m[3], m[0]),
    ),
    (
        re.compile(rf"{_EDGE}([12]?[0-9]|3[01])(?: ?م| ?ام)?(?= (?:{_MONTH_NAMES})(?!\w))"),
        lambda m: order_words(m[1]) if int(m[1]) else m[0],
    ),
    (
        re.compile(rf"(ساعت )?{_EDGE}([01]?[0-9]|2[0-4]):([0-5][0-9])(?::([0-5][0-9]))?{_END}"),
        _say_clock,
    ),
    (re.compile(rf"{_EDGE}[0-9]{{4}}(?:([ -])[0-9]{{4}})(?:\1[0-9]{{4}}){{2}}{_END}"), _say_card),
    (
        re.compile(
            rf"(?<![\w.,:/-])(0|\+98 ?|0098 ?)(9[0-9]{{2}}[ -]?[0-9]{{3}}[ -]?[0-9]{{2}}[ -]?[0-9]{{2}}){_END}"
        ),
        _say_mobile,
    ),
    (
        re.compile(rf"(?<![\w.,:/-])0([1-8][0-9]{{1,2}})[ -]?([0-9]{{4}}[ -]?[0-9]{{4}}){_END}"),
        _say_landline,
    ),
    (re.compile(rf"{_EDGE}()([2-9][0-9]{{3}}[ -][0-9]{{4}}){_END}"), _say_landline),
    (
        re.compile(rf"([{_SIGNS}]) ?({_AMOUNT})(?: ({_SCALES})(?!\w))?"),
        lambda m: _say_money(m[1], m[2], m[3]),
    ),
    (
        re.compile(rf"(?<![0-9.,])({_AMOUNT})(?: ({_SCALES}))? ?([{_SIGNS}])(?! ?[0-9])"),
        lambda m: _say_money(m[3], m[1], m[2]),
    ),
    (re.compile(rf"(?<![0-9])% ?({_AMOUNT})(?! ?%)"), lambda m: f"{m[1]}%"),
    (
        re.compile(rf"{_EDGE}([0-9]{{1,4}})/([0-9]{{1,4}}){_END}( ?%| درصد(?!\w))?"),
        _say_slashed,
    ),
    (
        re.compile(rf"(?<![\w.,:/+-])({_AMOUNT}) ?- ?({_AMOUNT})(?![\w/-])"),
        _say_range,
    ),
    (
        re.compile(rf"(?<=[0-9]) ?({'|'.join(map(re.escape, _OPERATORS))}) ?(?=[0-9])"),
        lambda m: f" {_OPERATORS[m[1]]} ",
    ),
    (re.compile(rf"({_AMOUNT}) ?({_UNIT_NAMES})(?![\w/²³°])", re.IGNORECASE), _say_unit),
    (
        re.compile("(?<![0-9.,])([0-9]{1,9})[\u200c ]?(?:ا?مین)(?!\\w)"),
        lambda m: order_words(m[1], superlative=True),
    ),
    (
        re.compile("(?<![0-9.,])([0-9]{1,9})(?:\u200c?ا?م| ام)(?!\\w)"),
        lambda m: order_words(m[1]),
    ),
    (re.compile(r"(?<![0-9.])[0-9]+(?:\.[0-9]+){2,}(?!\.?[0-9])"), _say_version),
    (re.compile(rf"((?<![\w)\].+-])[-+])?({_AMOUNT})( ?%| ?درصد(?!\w))?"), _say_number),
]
