"""What the columns of a clip list mean: LJ Speech's, Piper's, those a header names, or JSON's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from myxtts.data.list_lines import DELIMITERS, SHOWN, Line, is_unicode, split_line
from myxtts.errors import DataError
from myxtts.messages import harmless

AUDIO_COLUMNS = (
    *("audio_file", "audio_filepath", "audio", "path", "file", "filename", "file_name", "wav"),
    "id",  # last: where a file is named as well, that counts
)
TEXT_COLUMNS = ("text", "transcription", "normalized_text", "sentence", "transcript")
SPEAKER_COLUMNS = ("speaker_name", "speaker", "speaker_id", "client_id")
LANGUAGE_COLUMNS = ("language", "lang", "locale")
COLUMNS = (AUDIO_COLUMNS, TEXT_COLUMNS, SPEAKER_COLUMNS, LANGUAGE_COLUMNS)
_KNOWN = {name for names in COLUMNS for name in names}
COMMON_VOICE_COLUMNS = {"client_id", "path", "sentence"}
DEFAULT_SPEAKER = "speaker"
SAME_WIDTH = 0.95  # of the lines: with fewer of three columns, commas are rather parts of texts


class Clip(NamedTuple):
    """One listed recording, not yet looked at. `audio` is as the list names it."""

    audio: str
    text: str
    speaker: str
    language: str


Row = tuple[Clip, str]  # and why it cannot be used


class Form(NamedTuple):
    """How a list is read; it has a name where it was recognised by its looks."""

    read: Callable[[Line], Row]
    name: str = ""
    has_header: bool = False


def recognise(first: Sequence[Line], *, delimiter: str | None, language: str) -> Form:
    """The form of a list, by its first lines. `language` is for clips that give none."""
    for mark in (delimiter,) if delimiter else DELIMITERS.values():
        form = _with_header(first[0], mark, language)
        if form is not None:
            return form
    mark = delimiter or _detect_delimiter(first)
    rows = [split_line(line, mark, quoted=mark == ",")[0] for line in first]
    threes = sum(len(row) == 3 for row in rows)
    width = 3 if mark != "," or threes >= SAME_WIDTH * len(rows) else 2
    if width == 3 and _has_speakers(rows):
        return Form(_like_piper(mark, language), "Piper's id|speaker|text")
    return Form(_like_ljspeech(mark, width, language))


def json_lines(language: str) -> Form:
    """A JSON object a line."""

    def read(line: Line) -> Row:
        row, problem = _parse_json(line)
        values = [_first_named(row, names) for names in COLUMNS]
        if "\\u" in line.text and not is_unicode("".join(values)):
            problem = problem or "the row holds half a character"
        return _row(line, *values, default=language, problem=problem)

    return Form(read)


def _with_header(first: Line, mark: str, language: str) -> Form | None:
    """The form whose columns a list's first line names, if it names an audio and a text column."""
    cells = [cell.strip() for cell in first.text.split(mark)]
    # Who quotes even these names quotes everything.
    quoted = mark == "," or all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells)
    names = [cell.strip('"').strip().lower() for cell in cells]
    if set(names).isdisjoint(AUDIO_COLUMNS) or set(names).isdisjoint(TEXT_COLUMNS):
        return None
    twice = [name for name, times in Counter(names).items() if times > 1 and name in _KNOWN]
    if twice:
        raise DataError(
            f"The clip list has more than one column named {' and '.join(twice)}.",
            "rename or remove all but one",
        )
    places = [[names.index(name) for name in some if name in names] for some in COLUMNS]
    width = len(names)

    def read(line: Line) -> Row:
        row, problem = split_line(line, mark, quoted=quoted)
        if len(row) != width:
            problem = problem or _too_wide(row, width, mark)
            row += [""] * (width - len(row))  # editors cut tabs off the end of a line
        values = [_first_given(row, some) for some in places]
        return _row(line, *values, default=language, problem=problem)

    name = "Common Voice" if set(names) >= COMMON_VOICE_COLUMNS else ""
    return Form(read, name, has_header=True)


def _like_ljspeech(mark: str, width: int, language: str) -> Callable[[Line], Row]:
    """`id|text` or `id|text|normalised text`, of which the normalised is taken where given."""

    def read(line: Line) -> Row:
        row, problem = split_line(line, mark, quoted=mark == ",")
        if len(row) > width:
            problem = problem or _too_wide(row, width, mark)
        if len(row) < 2:
            return _row(line, row[0].strip(), problem=problem or "the row has no text column")
        text = (row[2].strip() if len(row) > 2 else "") or row[1].strip()
        return _row(line, row[0].strip(), text, default=language, problem=problem)

    return read


def _like_piper(mark: str, language: str) -> Callable[[Line], Row]:
    def read(line: Line) -> Row:
        row, problem = split_line(line, mark, quoted=mark == ",")
        if len(row) != 3:
            few = f"the row has {len(row)} columns, not id, speaker and text"
            problem = problem or (few if len(row) < 3 else _too_wide(row, 3, mark))
        audio, speaker, text = (cell.strip() for cell in (*row, "", "")[:3])
        return _row(line, audio, text, speaker, default=language, problem=problem)

    return read


def _first_given(row: list[str], places: Iterable[int]) -> str:
    for place in places:
        if value := row[place].strip():
            return value
    return ""


def _first_named(row: dict[str, Any], names: Iterable[str]) -> str:
    for name in names:
        if name in row and (value := _as_text(row[name]).strip()):
            return value
    return ""


def _row(
    line: Line,
    audio: str,
    text: str = "",
    speaker: str = "",
    tag: str = "",
    *,
    default: str = "",
    problem: str,
) -> Row:
    """A clip of its columns; one that names no audio is listed by the beginning of its line."""
    if not audio:
        audio, problem = line.text.strip()[:SHOWN], problem or "the row names no audio file"
    names = f"{audio}{speaker}{tag}"
    # A half-space is not printable to Python either, hence the second look.
    if not names.isprintable() and harmless(names) != names:
        problem = problem or "a name holds control characters"
    if problem:
        problem = f"line {line.number}: {problem}"
    language = tag.lower().replace("_", "-") if tag else default  # as `check_language` spells it
    return Clip(audio, text, speaker or DEFAULT_SPEAKER, language), problem


def _too_wide(row: list[str], width: int, mark: str) -> str:
    """What is wrong with a row of more columns than are known; nothing, if they are empty."""
    if not any(map(str.strip, row[width:])):
        return ""
    name = next(name for name, known in DELIMITERS.items() if known == mark)
    hint = "put quotation marks round a text with commas" if mark == "," else f"no {name} in a text"
    return f"the row has {len(row)} columns, not {width}: {hint}"


def _detect_delimiter(lines: Sequence[Line]) -> str:
    """The delimiter that most lines contain; the pipe wins ties, for texts are full of commas."""
    counts = {mark: sum(mark in line.text for line in lines) for mark in DELIMITERS.values()}
    return max(counts, key=lambda mark: counts[mark])  # of equals the first


def _has_speakers(rows: list[list[str]]) -> bool:
    """Whether the second of three columns is a speaker, for a speaker says more than one text.

    LJ Speech's second column is the text as written, and what is read follows from it.
    """
    pairs = {(row[1].strip(), row[2].strip()) for row in rows if len(row) == 3}
    pairs = {pair for pair in pairs if all(pair)}
    return len(pairs) > len(rows) / 2 and 2 * len({name for name, _ in pairs}) <= len(pairs)


class _RepeatedKeyError(ValueError):
    """An object has a key twice: which of them is meant, nobody knows."""


def _parse_json(line: Line) -> tuple[dict[str, Any], str]:
    if line.problem:
        return {}, line.problem
    try:
        row = _DECODER.decode(line.text)
    except _RepeatedKeyError as error:
        return {}, str(error)
    except (ValueError, RecursionError):
        return {}, "the row is not valid JSON"
    return (row, "") if isinstance(row, dict) else ({}, "the row is not valid JSON")


def _keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise _RepeatedKeyError("the row has a key twice")
    return row


_DECODER = json.JSONDecoder(object_pairs_hook=_keys_once)  # making one takes as long as a row


def _as_text(value: Any) -> str:
    """A JSON value as a column: names may be numbers; what is no single value counts as none."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""
