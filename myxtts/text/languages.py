"""The languages MyXTTS knows, and how people spell their names."""

from __future__ import annotations

import difflib

from myxtts.errors import DataError

# A trained model knows a language by its position: new ones go to the end.
LANGUAGES: dict[str, str] = {
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "de": "German",
    "it": "Italian",
    "pt": "Portuguese",
    "pl": "Polish",
    "tr": "Turkish",
    "ru": "Russian",
    "nl": "Dutch",
    "cs": "Czech",
    "ar": "Arabic",
    "zh-cn": "Chinese",
    "ja": "Japanese",
    "hu": "Hungarian",
    "ko": "Korean",
    "hi": "Hindi",
    "fa": "Persian",
}
LANGUAGE_IDS = {tag: number for number, tag in enumerate(LANGUAGES)}


def check_language(tag: str) -> str:
    """Return the tag as `LANGUAGES` spells it, or say which one may be meant."""
    folded = tag.strip().lower().replace("_", "-")
    if folded in LANGUAGES:
        return folded
    names = {name.lower(): known for known, name in LANGUAGES.items()} | {"farsi": "fa"}
    names |= {known.partition("-")[0]: known for known in LANGUAGES}  # "zh", and "en" of "en-us"
    near = names.get(folded) or names.get(folded.partition("-")[0])
    if near is None and (close := difflib.get_close_matches(folded, names, n=1)):
        near = names[close[0]]
    hint = f"{near} ({LANGUAGES[near]}), or another of " if near else "one of "
    raise DataError(f"the language {tag!r} is unknown.", hint + ", ".join(LANGUAGES))
