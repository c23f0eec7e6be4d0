"""The words of a page: two languages, and what comes from elsewhere made harmless."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Literal

from markupsafe import Markup, escape

from myxtts import messages
from myxtts.messages import Message

Language = Literal["en", "fa"]

PERSIAN_DIGITS = str.maketrans("0123456789.,%", "۰۱۲۳۴۵۶۷۸۹٫٬٪")
PERSIAN = {
    "Copy": "کپی",
    "Copied": "کپی شد",
    "Light or dark": "روشن یا تیره",
}
LEFT_TO_RIGHT, AS_IT_STARTS, END = "\u2066", "\u2068", "\u2069"  # Unicode's isolates


def harmless(text: str) -> str:
    """Text from elsewhere; line breaks, which a page does not obey, stay as they are."""
    return messages.harmless(text, lines=True)


def data_uri(kind: str, content: bytes) -> str:
    """A file itself as an address, for a page that opens anywhere."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


class Page:
    """A page in one language: its words (Persian ones by their English), digits and side.

    What it says is `Markup`: escaped, with the names in it kept from turning the words around
    them. A plain string is from elsewhere, and is made harmless and escaped where it is shown.
    """

    def __init__(self, language: Language, persian: Mapping[str, str]) -> None:
        self.language, self.rtl = language, language == "fa"
        self._persian = {**PERSIAN, **persian}

    def say(self, english: str, *values: str | Message) -> Markup:
        """A text in the page's language; `{}` in it takes the values."""
        words = escape(harmless(self._persian.get(english, english) if self.rtl else english))
        return words.format(*map(self._value, values)) if values else words

    def tell(self, message: Message) -> Markup:
        """A message in the page's language."""
        return self.say(message.english, *message.values)

    def _value(self, value: str | Message) -> str:
        if isinstance(value, Message):
            return self.tell(value)
        if isinstance(value, Markup):
            return value
        value = harmless(value)
        if value.isascii() and not self.rtl:
            return value
        if not re.search(r"[^\W\d_]", value):  # a number or a time
            return self.digits(value)
        start = LEFT_TO_RIGHT if re.search("[A-Za-z]", value) else AS_IT_STARTS
        return f"{start}{value}{END}"

    def number(self, value: float, decimals: int = 0) -> str:
        """A number with the digits of the language."""
        return self.digits(f"{value:,.{decimals}f}")

    def percent(self, share: float, decimals: int = 0) -> str:
        """A share from 0 to 1 in per cent."""
        return self.digits(f"{100 * share:.{decimals}f}%")

    def digits(self, text: str) -> str:
        """A formatted number or time with the digits of the language."""
        return text.translate(PERSIAN_DIGITS) if self.rtl else text
