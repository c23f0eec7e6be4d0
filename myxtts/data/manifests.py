"""Reads lists of clips: LJSpeech's metadata.csv, CSV with a header, and JSON Lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from myxtts.errors import DataError

MANIFEST_NAMES = ("metadata.csv", "metadata.tsv", "metadata.jsonl", "manifest.jsonl")
AUDIO_COLUMNS = ("audio_file", "audio_filepath", "audio", "path", "file", "filename", "wav")
TEXT_COLUMNS = ("text", "transcription", "normalized_text", "sentence")
SPEAKER_COLUMNS = ("speaker_name", "speaker", "speaker_id")
LANGUAGE_COLUMNS = ("language", "lang", "locale")
DELIMITERS = {"pipe": "|", "tab": "\t", "comma": ","}
DEFAULT_SPEAKER = "speaker"


class Clip(NamedTuple):
    """One listed recording, not yet looked at. `audio` is as the list names it."""

    audio: str
    text: str
    speaker: str
    language: str


@dataclass
class Manifest:
    """A list of clips in columns: a million of them must fit in memory with ease."""

    folder: Path
    audio: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    speakers: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    bad_rows: dict[int, str] = field(default_factory=dict)  # position -> why it cannot be read

    def __len__(self) -> int:
        return len(self.audio)

    def __getitem__(self, index: int) -> Clip:
        return Clip(
            self.audio[index], self.texts[index], self.speakers[index], self.languages[index]
        )

    def __iter__(self) -> Iterator[Clip]:
        return map(Clip, self.audio, self.texts, self.speakers, self.languages)

    def append(self, clip: Clip, problem: str = "") -> None:
        """Add a row; one that could not be read keeps its place, with the reason."""
        if not problem and not _is_unicode(clip.text + clip.audio):
            problem = "the row is not UTF-8"
        if problem:
            self.bad_rows[len(self.audio)] = problem
        self.audio.append(clip.audio)
        self.texts.append(clip.text)
        self.speakers.append(clip.speaker)
        self.languages.append(clip.language)


def read_manifest(
    source: str | Path, *, delimiter: str | None = None, language: str = "en"
) -> Manifest:
    """The clips that a data folder, or a list in it, names. No audio file is touched.

    `language` is for clips whose list gives none. The delimiter is found out if not given.
    """
    path = find_manifest(Path(source))
    if delimiter is not None and delimiter not in DELIMITERS.values():
        raise DataError(f"The delimiter {delimiter!r} is not known.", "use | or tab or comma")
    try:
        # Bytes that are no UTF-8 must cost one row, not the run.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            if path.suffix in (".jsonl", ".json"):
                manifest = _read_json_lines(file, Manifest(path.parent), language)
            else:
                manifest = _read_csv(file, Manifest(path.parent), delimiter, language)
    except OSError as error:
        raise DataError(
            f"The clip list {path} cannot be read: {error}", "check the path"
        ) from error
    if not len(manifest):
        raise DataError(f"The clip list {path} is empty.", "list a clip a line: id|text")
    return manifest


def find_manifest(source: Path) -> Path:
    """The list itself, or the one in a folder."""
    if source.is_file():
        return source
    if not source.is_dir():
        raise DataError(f"The data folder {source} does not exist.", "check the path")
    for name in MANIFEST_NAMES:
        if (source / name).is_file():
            return source / name
    others = sorted(
        path.name for path in source.iterdir() if path.suffix in (".csv", ".tsv", ".jsonl")
    )
    if len(others) == 1:
        return source / others[0]
    raise DataError(
        f"The data folder {source} holds "
        + (f"several clip lists: {', '.join(others)}." if others else "no clip list."),
        "name the list itself" if others else "add metadata.csv with a line id|text for each clip",
    )


def _read_json_lines(file: Iterator[str], manifest: Manifest, language: str) -> Manifest:
    for line in file:
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            assert isinstance(row, dict)
        except (ValueError, AssertionError):
            manifest.append(Clip(line.strip()[:80], "", "", language), "the row is not valid JSON")
            continue
        names = {key: str(value) for key, value in row.items() if value is not None}
        manifest.append(*_from_columns(names, language))
    return manifest


def _read_csv(
    file: Iterator[str], manifest: Manifest, delimiter: str | None, language: str
) -> Manifest:
    first_lines = [line for _, line in zip(range(50), file, strict=False)]
    delimiter = delimiter or _detect_delimiter(first_lines)
    lines = _chain(first_lines, file)
    header = [name.strip().lower() for name in (first_lines or [""])[0].split(delimiter)]
    header = [name.strip('"') for name in header]
    named = bool(set(header) & set(AUDIO_COLUMNS)) and bool(set(header) & set(TEXT_COLUMNS))
    # LJSpeech's own form knows no quoting: its texts hold lone quotation marks.
    plain = delimiter == "|" and not named
    rows = csv.reader(
        lines, delimiter=delimiter, quoting=csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL
    )
    csv.field_size_limit(1 << 20)
    if named:
        next(rows)
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return manifest
        except csv.Error as error:
            manifest.append(Clip(f"row {len(manifest) + 1}", "", "", language), str(error))
            continue
        if not any(row):
            continue
        if named:
            values = dict(zip(header, row, strict=False))
            manifest.append(*_from_columns(values, language))
        else:
            manifest.append(*_from_ljspeech(row, language))


def _from_ljspeech(row: list[str], language: str) -> tuple[Clip, str]:
    """`id|text` or `id|text|normalised text`, of which the normalised is taken where given."""
    text = next((part for part in (*row[2:3], *row[1:2]) if part.strip()), "")
    clip = Clip(row[0].strip(), text.strip(), DEFAULT_SPEAKER, language)
    if len(row) > 3:
        return clip, f"the row has {len(row)} columns; LJSpeech's form has two or three"
    return clip, "" if len(row) > 1 else "the row has no text column"


def _from_columns(values: dict[str, str], language: str) -> tuple[Clip, str]:
    def first(names: tuple[str, ...], default: str = "") -> str:
        return next((values[n].strip() for n in names if (values.get(n) or "").strip()), default)

    clip = Clip(
        first(AUDIO_COLUMNS),
        first(TEXT_COLUMNS),
        first(SPEAKER_COLUMNS, DEFAULT_SPEAKER),
        first(LANGUAGE_COLUMNS, language).lower(),
    )
    return clip, "" if clip.audio else "the row names no audio file"


def _detect_delimiter(lines: list[str]) -> str:
    """The delimiter that most lines contain; the pipe wins ties, for texts are full of commas."""
    counts = {mark: sum(mark in line for line in lines) for mark in DELIMITERS.values()}
    return max(counts, key=lambda mark: counts[mark])  # of equals the first


def _chain(first: list[str], rest: Iterator[str]) -> Iterator[str]:
    yield from first
    yield from rest


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a byte that surrogateescape carried along
        return False
    return True
