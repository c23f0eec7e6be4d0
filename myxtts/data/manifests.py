"""Finds and reads lists of clips: every line that is not blank is a clip, or says why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from myxtts.data.list_forms import Clip, Row, json_lines, recognise
from myxtts.data.list_lines import DELIMITERS, read_lines
from myxtts.errors import DataError
from myxtts.messages import harmless

MANIFEST_NAMES = ("metadata.csv", "metadata.tsv", "metadata.jsonl", "manifest.jsonl")
COMMON_VOICE_NAMES = ("validated.tsv", "train.tsv")  # beside `clips`, of several lists
ENDINGS = (".csv", ".tsv", ".jsonl")
NUM_FIRST = 1000  # lines by which the form of a list is recognised


@dataclass
class Manifest:
    """A list of clips in columns: a million of them must fit in memory with ease."""

    folder: Path
    audio: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    speakers: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    bad_rows: dict[int, str] = field(default_factory=dict)  # position -> why it cannot be read
    form: str = ""  # "Common Voice" and the like, where the list was recognised as that
    _names: dict[str, str] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.audio)

    def __getitem__(self, index: int) -> Clip:
        return Clip(
            self.audio[index], self.texts[index], self.speakers[index], self.languages[index]
        )

    def __iter__(self) -> Iterator[Clip]:
        return map(Clip, self.audio, self.texts, self.speakers, self.languages)

    def append(self, row: Row) -> None:
        """Add a row; one that could not be read keeps its place, with the reason."""
        clip, problem = row
        if problem:
            self.bad_rows[len(self.audio)] = problem
        self.audio.append(clip.audio)
        self.texts.append(clip.text)
        # Once in memory, however many clips a speaker has: a Common Voice name has 128 letters.
        self.speakers.append(self._names.setdefault(clip.speaker, clip.speaker))
        self.languages.append(self._names.setdefault(clip.language, clip.language))


def read_manifest(
    source: str | Path, *, delimiter: str | None = None, language: str = "en"
) -> Manifest:
    """The clips that a data folder, or a list in it, names. No audio file is touched.

    `language` is for clips whose list gives none. The delimiter is found out if not given.
    """
    if delimiter is not None and delimiter not in DELIMITERS.values():
        raise DataError(f"The delimiter {delimiter!r} is not known.", "use | or tab or comma")
    path = Path(source)
    try:
        path = find_manifest(path)
        lines = read_lines(path)
        first = list(islice(lines, NUM_FIRST))
        if not first:
            raise DataError(f"The clip list {path} is empty.", "list a clip a line: id|text")
        if path.suffix.lower() in (".jsonl", ".json"):
            form = json_lines(language)
        else:
            form = recognise(first, delimiter=delimiter, language=language)
        manifest = Manifest(path.parent, form=form.name)
        for line in chain(islice(first, form.has_header, None), lines):
            manifest.append(form.read(line))
    except OSError as error:
        raise DataError(
            f"The clip list {path} cannot be read: {error}", "check the path"
        ) from error
    if not len(manifest):
        raise DataError(f"The clip list {path} has a header and no clip.", "list a clip a line")
    return manifest


def find_manifest(source: Path) -> Path:
    """The list itself, or the one in a folder."""
    if not source.is_dir():
        if not source.exists():
            raise DataError(f"The data folder {source} does not exist.", "check the path")
        return source
    for name in MANIFEST_NAMES:
        if (source / name).is_file():
            return source / name
    others = sorted(path.name for path in source.iterdir() if path.suffix.lower() in ENDINGS)
    others = [name for name in others if (source / name).is_file()]
    if len(others) == 1:
        return source / others[0]
    for name in COMMON_VOICE_NAMES:
        if name in others and (source / "clips").is_dir():
            return source / name
    raise DataError(
        f"The data folder {source} holds "
        + (f"several clip lists: {harmless(', '.join(others))}." if others else "no clip list."),
        "name the list itself" if others else "add metadata.csv with a line id|text for each clip",
    )
