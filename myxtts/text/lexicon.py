"""A pronunciation dictionary: how names and rare words are to be said.

Each line of the file is `word<TAB>pronunciation`, or `word,pronunciation`. The pronunciation is a
respelling ("Nguyen", "win") or IPA between slashes ("/wˈɪn/"); a line that starts with # is a
comment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from myxtts.errors import DataError
from myxtts.text.normalize import normalize_text

# A letter or the marks that belong to one: \w alone would cut Hindi and vowelled Persian words.
_LETTER = "[\\w\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0962\u0963\u200c\u200d]"
# "don't" is one word, while "Nguyen's" and "l'Haÿ" are a name and something at its side.
_TOKEN = re.compile(
    rf"{_LETTER}+(?:'(?:t|re|ve|ll|d|m)(?!{_LETTER}))?|.", re.IGNORECASE | re.DOTALL
)


class Lexicon:
    """Replaces whole words, whatever their case, by their pronunciation."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        self.entries = dict(entries)
        # By first token, longest first: "New York" wins over "New".
        self._index: dict[str, list[tuple[list[str], str]]] = {}
        seen: dict[tuple[str, ...], str] = {}
        for word, pronunciation in self.entries.items():
            tokens = _tokens(word.casefold())
            if not tokens or not pronunciation.strip("/ "):
                raise DataError(
                    f"the lexicon has an empty entry {word!r} -> {pronunciation!r}.",
                    "a word and its pronunciation",
                )
            if (other := seen.setdefault(tuple(tokens), word)) != word:
                raise DataError(
                    f"the lexicon has {word!r} twice, the first time as {other!r}.",
                    "keep one of them",
                )
            self._index.setdefault(tokens[0], []).append((tokens, pronunciation))
        for candidates in self._index.values():
            candidates.sort(key=lambda candidate: -len(candidate[0]))
        self._by_language: dict[str, Lexicon] = {}

    @classmethod
    def load(cls, path: str | Path) -> Lexicon:
        """Read a UTF-8 lexicon file; an error names the line."""
        if Path(path).exists() and not Path(path).is_file():  # a pipe may never end
            raise DataError(f"the lexicon {path} is no regular file.", "the path of a text file")
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except OSError as error:
            raise DataError(
                f"the lexicon {path} cannot be read: {error.strerror}.", "the path of a text file"
            ) from error
        except UnicodeDecodeError as error:
            number = error.object.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{path}, line {number}: this is not UTF-8.", "save the file in the UTF-8 encoding"
            ) from error
        entries: dict[str, str] = {}
        lines: dict[str, int] = {}
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            mark = "\t" if "\t" in line else ","  # a spreadsheet saves commas
            word, *rest = (part.strip() for part in line.split(mark))
            if len(rest) != 1 or not word or not rest[0].strip("/ "):
                raise DataError(
                    f"{path}, line {number}: {line.strip()!r} is not word<TAB>pronunciation.",
                    "one word, one tab or comma, one pronunciation",
                )
            key = word.casefold()
            if key in lines:
                raise DataError(
                    f"{path}, line {number}: {word!r} is already on line {lines[key]}.",
                    "keep one of the two lines",
                )
            lines[key] = number
            entries[word] = rest[0]
        return cls(entries)

    def for_language(self, language: str) -> Lexicon:
        """Spell the words as normalised text spells them, so that "3M" is found as "three M"."""
        if language not in self._by_language:
            words = [normalize_text(word, language) for word in self.entries]
            if twice := [word for word, count in Counter(words).items() if count > 1]:
                raise DataError(
                    f"the lexicon has several words that are read {twice[0]!r} in {language}.",
                    "keep one of them",
                )
            said = (p if is_ipa(p) else normalize_text(p, language) for p in self.entries.values())
            self._by_language[language] = Lexicon(dict(zip(words, said, strict=True)))
        return self._by_language[language]

    def apply(self, text: str) -> str:
        """Return the text with every known word replaced; IPA keeps its slashes."""
        return "".join(f"/{piece}/" if in_ipa else piece for piece, in_ipa in self.pieces(text))

    def pieces(self, text: str) -> list[tuple[str, bool]]:
        """Cut the text, words replaced, into (piece, is it IPA)."""
        pieces: list[tuple[str, bool]] = []
        plain: list[str] = []
        for written, said in self.spans(text):
            if said is not None and is_ipa(said):
                pieces += [("".join(plain), False), (said[1:-1].strip(), True)]
                plain = []
            else:
                plain.append(written if said is None else said)
        pieces.append(("".join(plain), False))
        return [piece for piece in pieces if piece[0]]

    def spans(self, text: str) -> list[tuple[str, str | None]]:
        """Cut the text into (what is written, how the lexicon says it, or None)."""
        tokens = _tokens(text)
        folded = [token.casefold() for token in tokens]
        spans: list[tuple[str, str | None]] = []
        plain: list[str] = []
        position = 0
        while position < len(tokens):
            found = self._match(folded, position)
            if found is None:
                plain.append(tokens[position])
                position += 1
                continue
            end = position + len(found[0])
            spans += [("".join(plain), None), ("".join(tokens[position:end]), found[1])]
            plain, position = [], end
        spans.append(("".join(plain), None))
        return [span for span in spans if span[0]]

    def _match(self, folded: list[str], position: int) -> tuple[list[str], str] | None:
        for words, said in self._index.get(folded[position], ()):
            if folded[position : position + len(words)] == words:
                return words, said
        return None


class LayeredLexicon(Lexicon):
    """Words of one lexicon, and those of another that the first does not have."""

    def __init__(self, upper: Lexicon, lower: Lexicon) -> None:
        # The entries are not joined: a request's few must not make a voice's many be read again.
        self._upper, self._lower = upper, lower
        self.entries = {**lower.entries, **upper.entries}

    def for_language(self, language: str) -> Lexicon:
        """Both, as normalised text spells them."""
        return LayeredLexicon(
            self._upper.for_language(language), self._lower.for_language(language)
        )

    def spans(self, text: str) -> list[tuple[str, str | None]]:
        """Cut the text into (what is written, how either says it, or None)."""
        found: list[tuple[str, str | None]] = []
        for written, said in self._upper.spans(text):
            found += [(written, said)] if said is not None else self._lower.spans(written)
        return found


def is_ipa(pronunciation: str) -> bool:
    """Say whether a pronunciation is written in IPA, which is between slashes."""
    return len(pronunciation) > 2 and pronunciation[0] == pronunciation[-1] == "/"


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)
