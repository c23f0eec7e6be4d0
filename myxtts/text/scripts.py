"""Which script a text is written in, and whether that is its language's."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from myxtts.errors import DataError
from myxtts.text.languages import LANGUAGES

# As Unicode names them; every other language here is written in Latin letters.
SCRIPTS: dict[str, tuple[str, ...]] = {
    "ru": ("CYRILLIC",),
    "ar": ("ARABIC",),
    "fa": ("ARABIC",),
    "zh-cn": ("CJK",),
    "ja": ("HIRAGANA", "KATAKANA", "CJK"),
    "ko": ("HANGUL",),
    "hi": ("DEVANAGARI",),
}
ARABIC_LETTERS = frozenset("ةيكىإأ")  # today's Persian writes none of them
LOOKED_AT = 400  # texts of a list: enough to tell, and quick for a million


def check_script(texts: Sequence[str], language: str, *, name: str = "text") -> None:
    """Refuse texts of which most are not written as their language is; a foreign word is fine."""
    looked_at = texts[:: max(1, len(texts) // LOOKED_AT)]
    strange = [text for text in looked_at if not fits_script(text, language)]
    if 2 * len(strange) <= len(looked_at):
        return
    script = _dominant(strange[0]) or ""
    written = "CHINESE" if script == "CJK" else script
    said = f"The {name} is" if len(texts) == 1 else f"Most of the {name}s are"
    likely = likely_language(strange)
    remedy = f"--language {likely}" if likely else f"one of {', '.join(LANGUAGES)}"
    raise DataError(
        f"{said} in {written.title()} script, and {LANGUAGES[language]} ({language}) is not "
        f"written in it: {_shortened(strange[0])}",
        remedy if len(texts) == 1 else f"{remedy}, or mend the language column of the list",
    )


def likely_language(texts: Sequence[str]) -> str | None:
    """The language that texts of this script are most likely in."""
    script = _dominant("".join(texts))
    if script == "ARABIC":
        return "ar" if ARABIC_LETTERS & set("".join(texts)) else "fa"
    if script in ("HIRAGANA", "KATAKANA"):
        return "ja"
    if script == "LATIN":
        return "en"
    return next((tag for tag, scripts in SCRIPTS.items() if script in scripts), None)


def fits_script(text: str, language: str) -> bool:
    """Whether a text is mostly written as its language is; one without letters is."""
    counts = Counter(filter(None, map(_script, text)))
    own = sum(counts[script] for script in SCRIPTS.get(language, ("LATIN",)))
    return 2 * own >= counts.total()


def _dominant(text: str) -> str | None:
    counts = Counter(filter(None, map(_script, text)))
    return counts.most_common(1)[0][0] if counts else None


@lru_cache(maxsize=4096)
def _script(character: str) -> str | None:
    if not character.isalpha():
        return None
    return unicodedata.name(character, "").partition(" ")[0].partition("-")[0] or None


def _shortened(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
