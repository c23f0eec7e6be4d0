"""Turns text into the symbol ids the model reads: characters, or phonemes from espeak-ng.

Both tokenizers normalise the text and apply the lexicon themselves, so that training and
synthesis cannot differ. Ids are promises of a trained model: symbols are only ever appended.
"""

from __future__ import annotations

import copy
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, Protocol, runtime_checkable

from myxtts.errors import ConfigError, DataError
from myxtts.messages import harmless
from myxtts.text import espeak
from myxtts.text.languages import check_language
from myxtts.text.lexicon import LayeredLexicon, Lexicon, is_ipa
from myxtts.text.normalize import normalize_text
from myxtts.text.persian.reader import read_persian
from myxtts.text.words import ReadWord

logger = logging.getLogger(__name__)

PAD_ID, UNKNOWN_ID, BEGIN_ID, END_ID = range(4)
_SPECIAL = ("<pad>", "<unk>", "<bos>", "<eos>")
_UNKNOWN_CHARACTER = "\ufffd"  # what decode shows for an unknown symbol

BASE_CHARACTERS = (*map(chr, range(0x20, 0x7F)), "—")

_PHONEME_BLOCKS = (
    " ,.?!;:",
    "abcdefghijklmnopqrstuvwxyz0123456789",  # Chinese tones are digits
    "-\"^'_~*@|‖↗↘‿",  # espeak's own leftovers (Russian, Korean, Chinese) and IPA's breaks
    "æðøħŋœβθχᵻᵊᵝᶣⁿˡǀǁǂǃⱱ",
    *("".join(map(chr, range(start, start + 16))) for start in range(0x250, 0x2B0, 16)),  # IPA
    "ʰʱʲʳʴʵʶʷʸʼˈˌːˑˀˁˠˢˣˤ˞˥˦˧˨˩ꜛꜜ",
    "\u0300\u0301\u0302\u0303\u0304\u0306\u0308\u030a\u030b\u030c\u030d\u030f\u0311\u0318\u0319"
    "\u031a\u031c\u031d\u031e\u031f\u0320\u0321\u0322\u0323\u0324\u0325\u0327\u0329\u032a\u032b"
    "\u032c\u032f\u0330\u0334\u0339\u033a\u033b\u033c\u033d\u0346\u035c\u0361\u1dc4\u1dc5\u1dc8",
)
PHONEMES = tuple("".join(_PHONEME_BLOCKS))
"""Every symbol of IPA and of what espeak-ng says for all our languages, in decomposed form."""

_KNOWN_PHONEMES = frozenset(PHONEMES)

ESPEAK_VOICES = {"en": "en-us", "zh-cn": "cmn"}  # the other tags name their voice themselves

ASCII_MARKS = str.maketrans("،؛؟。、，．！？；：।—…", ",;?.,,.!?;:.,.")
# A mark counts before a gap; "3.5", "a.m." and the initials of "J. F. Kennedy" are no pauses.
_PAUSE = re.compile(
    r"((?:[,?!;:،؛؟।—…]|(?<!(?<!\w)[A-Za-z])\.|\.(?=\W*$))+(?=[\s\"')\]]|$)|[。、，．！？；：]+|—)"
)

# Outside Chinese espeak would say "Chinese letter" for each: better an unknown symbol, reported.
_HAN = re.compile("([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+)")
_POSSESSIVE = re.compile(r"'s(?!\w)")
_IPA_SPELLING = str.maketrans("g':", "ɡˈː")  # what keyboards offer for the IPA letters


def says_something(ids: Iterable[int], tokenizer: Tokenizer) -> bool:
    """Whether any of the symbols is more than a mark: `...` is a pause and no speech."""
    return any(i > END_ID and tokenizer.symbols[i].isalnum() for i in ids)


@runtime_checkable
class Tokenizer(Protocol):
    """What the data pipeline, the model and the exports need of a tokenizer."""

    kind: str
    symbols: tuple[str, ...]
    unknown_counts: Counter[str]
    guessed_counts: Counter[str]

    @property
    def vocab_size(self) -> int: ...  # noqa: D102

    def encode(self, text: str, language: str) -> list[int]: ...  # noqa: D102

    def decode(self, ids: Iterable[int]) -> str: ...  # noqa: D102

    def to_dict(self) -> dict[str, Any]: ...  # noqa: D102


class _SymbolTokenizer:
    """One id for each symbol of a fixed inventory; the subclasses say what text turns into."""

    kind: str

    def __init__(self, symbols: Sequence[str], *, lexicon: Lexicon | None = None) -> None:
        symbols = tuple(symbols)
        repeated = [symbol for symbol, count in Counter(symbols).items() if count > 1]
        if symbols[:4] != _SPECIAL or repeated or any(len(symbol) != 1 for symbol in symbols[4:]):
            raise DataError(
                f"the {self.kind} inventory is damaged (repeated: {repeated}).",
                f"{', '.join(_SPECIAL)} and then single characters, each once",
            )
        self.symbols = symbols
        self.lexicon = lexicon
        self.unknown_counts: Counter[str] = Counter()
        self.guessed_counts: Counter[str] = Counter()  # words no table or rule could read
        self._ids = {symbol: i for i, symbol in enumerate(symbols) if i >= len(_SPECIAL)}

    @property
    def vocab_size(self) -> int:
        """The number of ids, special ones included."""
        return len(self.symbols)

    def transcribe(self, text: str, language: str) -> str:
        """Return the symbols that `encode` numbers, as one string."""
        raise NotImplementedError

    def encode(self, text: str, language: str) -> list[int]:
        """Normalise raw text and return its ids between the begin and end symbols."""
        said = self.transcribe(text, language)
        ids = [self._ids.get(symbol, UNKNOWN_ID) for symbol in said]
        if UNKNOWN_ID in ids:
            self._count_unknown(said)
        return [BEGIN_ID, *ids, END_ID]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the symbols of the ids, without padding, begin and end."""
        said = []
        for i in ids:
            if not 0 <= i < len(self.symbols):
                raise DataError(
                    f"the id {i} is outside the inventory of {self.vocab_size} {self.kind}.",
                    "the tokenizer that made these ids",
                )
            if i == UNKNOWN_ID:
                said.append(_UNKNOWN_CHARACTER)
            elif i >= len(_SPECIAL):
                said.append(self.symbols[i])
        return "".join(said)

    def to_dict(self) -> dict[str, Any]:
        """Return everything needed to encode alike elsewhere, ready for JSON."""
        entries = dict(self.lexicon.entries) if self.lexicon else None
        return {"kind": self.kind, "symbols": list(self.symbols), "lexicon": entries}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Any:
        """Rebuild the tokenizer of a `to_dict`, with the ids it had then."""
        if saved.get("kind") != cls.kind or not isinstance(saved.get("symbols"), list):
            raise DataError(
                f"this is no saved {cls.kind} tokenizer (kind {saved.get('kind')!r}).",
                "tokenizer_from_dict, with the tokenizer of the same export",
            )
        lexicon = Lexicon(saved["lexicon"]) if saved.get("lexicon") else None
        return cls(saved["symbols"], lexicon=lexicon)

    def _count_unknown(self, said: str) -> None:
        for symbol in said:
            if symbol in self._ids:
                continue
            if symbol not in self.unknown_counts:
                logger.warning(
                    "character %r (U+%04X) is unknown to the %s tokenizer and is read as %s",
                    *(symbol, ord(symbol), self.kind, _SPECIAL[UNKNOWN_ID]),
                )
            self.unknown_counts[symbol] += 1


class CharacterTokenizer(_SymbolTokenizer):
    """Letters and marks of any script, as found in the texts."""

    kind = "characters"

    def __init__(
        self,
        symbols: Sequence[str] = (*_SPECIAL, *BASE_CHARACTERS),
        *,
        lexicon: Lexicon | None = None,
    ) -> None:
        super().__init__(symbols, lexicon=lexicon)
        if lexicon and (words := [w for w, said in lexicon.entries.items() if is_ipa(said)]):
            raise DataError(
                f"the lexicon gives IPA for {words[0]!r}, which a characters tokenizer cannot say.",
                "a respelling in ordinary letters, or the phonemes tokenizer",
            )

    @classmethod
    def from_texts(
        cls, texts: Iterable[tuple[str, str]], *, lexicon: Lexicon | None = None
    ) -> CharacterTokenizer:
        """Collect the inventory from (text, language) pairs, on top of ASCII."""
        base = cls(lexicon=lexicon)
        found: set[str] = set()
        for text, language in texts:
            found.update(base.transcribe(text, language))
        return base.extended(sorted(found))

    def extended(self, new_symbols: Iterable[str]) -> CharacterTokenizer:
        """Return a tokenizer that also knows these characters; the ids of old ones stay."""
        new = (symbol for symbol in dict.fromkeys(new_symbols) if symbol not in self._ids)
        return CharacterTokenizer((*self.symbols, *new), lexicon=self.lexicon)

    def transcribe(self, text: str, language: str) -> str:
        """Return the normalised text, lexicon applied."""
        text = normalize_text(text, language)
        return (
            self.lexicon.for_language(check_language(language)).apply(text)
            if self.lexicon
            else text
        )


class PhonemeTokenizer(_SymbolTokenizer):
    """IPA by espeak-ng, with the marks , . ? ! ; : kept, from which pauses are learned.

    Persian has a reader of its own, which says the same symbols.
    """

    kind = "phonemes"

    def __init__(
        self, symbols: Sequence[str] = (*_SPECIAL, *PHONEMES), *, lexicon: Lexicon | None = None
    ) -> None:
        super().__init__(symbols, lexicon=lexicon)

    def transcribe(self, text: str, language: str) -> str:
        """Return the IPA of the text with its punctuation."""
        language = check_language(language)
        text = normalize_text(text, language)
        if language == "fa":
            return self._transcribe_persian(text)
        pieces = (
            self.lexicon.for_language(language).pieces(text) if self.lexicon else [(text, False)]
        )
        said, after_ipa = "", False
        for piece, in_ipa in pieces:
            if in_ipa:
                said = f"{said} {_own_ipa(piece)}"
            else:
                if after_ipa and language == "en" and _POSSESSIVE.match(piece):
                    said, piece = said + _possessive_ending(said), piece[2:]
                said += _say(piece, language, ESPEAK_VOICES.get(language, language))
            after_ipa = in_ipa
        return " ".join(said.split())

    def _transcribe_persian(self, text: str) -> str:
        said = ""
        own = self.lexicon.for_language("fa") if self.lexicon else None
        for word in read_persian_words(text, own):
            if word.is_mark:
                mark = word.text.translate(ASCII_MARKS)
                said += "" if said.endswith(mark) else mark
            else:
                said += f" {word.phonemes}"
                if word.source == "guess":
                    self._count_guessed(word.text)
        return " ".join(said.split())

    def _count_guessed(self, word: str) -> None:
        if not self.guessed_counts:  # said once: a list of names would be hundreds of lines
            logger.info(
                "words that no table knows are read by espeak-ng's rules, the first is %s; myxtts "
                "data check lists them all",
                harmless(word),
            )
        self.guessed_counts[word] += 1


def unread_kanji(tokenizer: Tokenizer, text: str, language: str) -> str:
    """Kanji of a Japanese text that would not be said: espeak-ng knows kana alone."""
    if language != "ja" or not isinstance(tokenizer, PhonemeTokenizer):
        return ""
    return "".join(dict.fromkeys("".join(_HAN.findall(tokenizer.transcribe(text, language)))))


def read_words(text: str, language: str, lexicon: Lexicon | None = None) -> list[ReadWord]:
    """What the phonemes tokenizer will say of a raw text, word by word.

    Outside Persian espeak-ng reads each word by itself, so that links between words are not shown.
    """
    language = check_language(language)
    text = normalize_text(text, language)
    own = lexicon.for_language(language) if lexicon else None
    if language == "fa":
        return read_persian_words(text, own)
    voice = ESPEAK_VOICES.get(language, language)
    read: list[ReadWord] = []
    for written, said in own.spans(text) if own else [(text, None)]:
        if said is not None and is_ipa(said):
            read.append(ReadWord(written, _own_ipa(said[1:-1].strip()), "user"))
            continue
        for i, part in enumerate(_PAUSE.split(written if said is None else said)):
            if i % 2:
                read.append(ReadWord(part, part.translate(ASCII_MARKS), "mark"))
                continue
            for word in part.split():
                phonemes = _say(word, language, voice).strip()
                source = "espeak-ng" if said is None else "user"
                read.append(ReadWord(word, phonemes, source, doubt=_unknown(phonemes)))
    return [word for word in read if word.phonemes]


def _unknown(phonemes: str) -> str:
    strange = sorted(set(phonemes) - _KNOWN_PHONEMES)
    return f"unknown: {' '.join(strange)}" if strange else ""


def read_persian_words(text: str, lexicon: Lexicon | None) -> list[ReadWord]:
    """Normalised Persian, word by word; words in other letters are read by espeak-ng."""
    words = read_persian(text, _say_persian, lexicon=lexicon)
    return [
        replace(word, phonemes=_own_ipa(word.phonemes)) if word.source == "user" else word
        for word in words
    ]


def _say_persian(word: str) -> str:
    return _say(word, "fa", "fa").strip()


def _own_ipa(ipa: str) -> str:
    return unicodedata.normalize("NFD", ipa).translate(_IPA_SPELLING)


def _say(text: str, language: str, voice: str) -> str:
    said = ""
    for i, part in enumerate(_PAUSE.split(text)):
        if i % 2:  # the separators; "..." is one pause
            said += re.sub(r"(.)\1+", r"\1", part.translate(ASCII_MARKS))
            continue
        for run in (part,) if language == "zh-cn" else _HAN.split(part):
            is_han = language != "zh-cn" and _HAN.fullmatch(run)
            said += f" {run if is_han else _phonemes(run.strip(), voice)}"
            said = said.rstrip()
    return said


def _possessive_ending(ipa: str) -> str:
    if ipa.endswith(("s", "z", "ʃ", "ʒ")):
        return "ᵻz"
    return "s" if ipa.endswith(("p", "t", "k", "f", "θ")) else "z"


@lru_cache(maxsize=65536)
def _phonemes(text: str, voice: str) -> str:
    if not text:
        return ""
    ipa = unicodedata.normalize("NFD", espeak.phonemize(text, voice))
    if not ipa and any(character.isalnum() for character in text):
        return text  # letters that espeak passes over come out as unknown symbols, not as nothing
    # Hindi and Chinese write retroflex sounds with a dot, which must not read as a full stop.
    return re.sub(r"[,.?!;:]", lambda m: "\u0322" if m[0] == "." else "", ipa)


_CLASSES: dict[str, type[CharacterTokenizer] | type[PhonemeTokenizer]] = {
    "characters": CharacterTokenizer,
    "phonemes": PhonemeTokenizer,
}


def tokenizer_from_dict(saved: Mapping[str, Any]) -> Tokenizer:
    """Rebuild whichever tokenizer was saved by `to_dict`."""
    kind = saved.get("kind")
    if kind not in _CLASSES:
        raise DataError(f"the tokenizer kind {kind!r} is unknown.", f"one of {', '.join(_CLASSES)}")
    tokenizer: Tokenizer = _CLASSES[kind].from_dict(saved)
    return tokenizer


def with_lexicon(tokenizer: Tokenizer, lexicon: Lexicon) -> Tokenizer:
    """The same tokenizer with a further lexicon, whose words come before those of its own."""
    assert isinstance(tokenizer, _SymbolTokenizer)
    other: Any = copy.copy(tokenizer)
    own = tokenizer.lexicon
    other.lexicon = LayeredLexicon(lexicon, own) if own else lexicon
    return other  # type: ignore[no-any-return]


def make_tokenizer(
    kind: Literal["auto", "characters", "phonemes"],
    *,
    texts: Iterable[tuple[str, str]] = (),
    lexicon: Lexicon | None = None,
) -> Tokenizer:
    """Build the tokenizer asked for; `texts` are (text, language) pairs for the characters."""
    if kind not in ("auto", *_CLASSES):
        raise ConfigError(
            f"the tokenizer {kind!r} is unknown.", f"one of auto, {', '.join(_CLASSES)}"
        )
    remedy = "pip install espeakng-loader"
    has_espeak = kind != "characters" and espeak.is_available()
    if kind == "phonemes" and not has_espeak:
        raise ConfigError(
            "the phonemes tokenizer needs espeak-ng, which is not installed.",
            f"{remedy}, or the characters tokenizer",
        )
    if has_espeak:
        logger.info("text is read as phonemes by espeak-ng")
        return PhonemeTokenizer(lexicon=lexicon)
    if kind == "auto":
        logger.warning("espeak-ng is not installed, so text is read as characters (%s)", remedy)
    return CharacterTokenizer.from_texts(texts, lexicon=lexicon)
