"""Readings in Latin letters, as the tables write them, and the IPA that espeak-ng says in Persian.

espeak-ng's own symbols are kept, `q1` among them, so that voices trained on its Persian and voices
trained on ours agree. A `^` in a reading stands before the vowel that is stressed.
"""

from __future__ import annotations

import re

VOWELS = "aâeoiu"
_SOUNDS = str.maketrans(
    {"â": "ɑ", "š": "ʃ", "ž": "ʒ", "č": "tʃ", "j": "dʒ", "q": "q1", "y": "j", "'": "ʔ", "g": "ɡ"}
)
_DIPHTHONG = re.compile(f"ow(?!\\^?[{VOWELS}])")
_BEFORE_VOWEL = re.compile(f"ow(?=\\^?[{VOWELS}])")
_LAST_VOWEL = re.compile(f"([{VOWELS}])(?=[^{VOWELS}]*$)")

FROM_LEXICON_IPA = {
    "t͡ʃ": "č", "d͡ʒ": "j", "ʃ": "š", "ʒ": "ž", "æ": "a", "ɒː": "â", "e̞": "e", "iː": "i", "uː": "u",
    "ɾ": "r", "j": "y", "ʔ": "'", "ɢ": "q",
}  # fmt: skip
"""The symbols of `gruut-lang-fa` that differ from those of a reading."""


def plain(reading: str) -> str:
    """The reading without its stress."""
    return reading.replace("^", "")


def with_ezafe(reading: str) -> str:
    """The reading with the ezafe behind it: -ye after a vowel, else -e."""
    if "^" not in reading:
        reading = _LAST_VOWEL.sub(r"^\1", reading)  # the ezafe takes no stress
    return reading + ("ye" if reading[-1:] in VOWELS else "e")


def to_ipa(reading: str, *, silent_h: bool = False, stressed: bool = True) -> str:
    """The IPA of a reading; `silent_h` if its last e is written ه, which espeak-ng lengthens."""
    if not stressed:
        reading = plain(reading)
    elif "^" not in reading:
        reading = _LAST_VOWEL.sub(r"^\1", reading)
    long_e = silent_h and reading.endswith("e")
    ipa = _BEFORE_VOWEL.sub("ov", _DIPHTHONG.sub("oː", reading)).translate(_SOUNDS)
    return ipa.replace("^", "ˈ") + "ː" * long_e


_FROM_IPA = (
    ("tʃ", "č"), ("dʒ", "J"), ("q1", "q"), ("ʃ", "š"), ("ʒ", "ž"), ("ɑ", "â"), ("j", "y"), ("J", "j"),
    ("ʔ", "'"), ("ɡ", "g"), ("ɹ", "r"), ("ɾ", "r"), ("ˌ", ""), (" ", ""), ("oː", "ow"), ("ː", ""),
)  # fmt: skip
_NO_SOUND = re.compile("[^aâeoiubptsjčhxdzržšqfkglmnvy'w]")


def from_ipa(ipa: str) -> str:
    """What espeak-ng says in Persian, as a reading without its stress."""
    for symbol, letter in _FROM_IPA:
        ipa = ipa.replace(symbol, letter)
    return _NO_SOUND.sub("", ipa)


_ESPEAK_NAMES = {
    "tʃ": "tS", "dʒ": "dZ", "q1": "q1", "ʃ": "S", "ʒ": "Z", "ɑ": "A", "r": "R", "ʔ": "?", "ɡ": "g",
    "ˈ": "'", "ˌ": ",", "aː": "a:", "eː": "e:", "oː": "o:", "uː": "u:", "iː": "i:",
    **{sound: sound for sound in "aeoiubptdkfvszxhmnljw"},
}  # fmt: skip
_ESPEAK_NAME = re.compile("|".join(sorted(_ESPEAK_NAMES, key=len, reverse=True)))


def to_espeak(ipa: str) -> str | None:
    """The names that espeak-ng's Persian has for these sounds; None if it lacks one of them."""
    named = _ESPEAK_NAME.sub("", ipa) == ""
    return _ESPEAK_NAME.sub(lambda found: _ESPEAK_NAMES[found[0]], ipa) if named else None
