"""What a folder of recordings is: recognised by its looks, which are said, or named by the user."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from myxtts.data.list_forms import COMMON_VOICE_COLUMNS
from myxtts.data.list_lines import read_lines
from myxtts.data.manifests import ENDINGS, MANIFEST_NAMES, NUM_FIRST
from myxtts.errors import DataError
from myxtts.messages import harmless
from myxtts.recordings.audio import READABLE, UNREADABLE

MOST_FILES = 1_000_000
SUBTITLES = (".srt", ".vtt")


class Kind(NamedTuple):
    """A way in which people keep recordings."""

    name: str
    looks: str  # for people: what a folder of it has
    recognise: Callable[[Path], str]  # why a source is of this kind, or nothing


def recognise_kind(source: Path, asked: str | None = None) -> tuple[str, str]:
    """The kind of a source and why: the first that fits, or the one asked for."""
    if not source.exists():
        raise DataError(f"{source} does not exist.", "check the path")
    if asked is not None:
        if asked not in KINDS:
            raise DataError(f"The kind {asked!r} is unknown.", f"one of {', '.join(KINDS)}")
        return asked, "asked for"
    for kind in KINDS.values():
        if why := kind.recognise(source):
            return kind.name, why
    looks = "; ".join(f"{kind.name}: {kind.looks}" for kind in KINDS.values())
    raise DataError(
        f"No recording was found in {source}.",
        f"a folder with recordings, or a list of them ({looks})",
    )


def audio_files(source: Path) -> list[Path]:
    """Every recording below a folder, in order; the file itself, if it is one."""
    if source.is_file():
        return [source] if source.suffix.lower() in READABLE + UNREADABLE else []
    found = islice(_walk(source), MOST_FILES)
    return sorted(path for path in found if path.suffix.lower() in READABLE + UNREADABLE)


def common_voice_list(source: Path) -> Path | None:
    """The list of a Common Voice folder: what was validated, or else whatever is there."""
    folder = source if source.is_dir() else source.parent
    if not (folder / "clips").is_dir():
        return None
    order = ("validated.tsv", "train.tsv", "dev.tsv", "test.tsv", "other.tsv")
    names = [source.name] if source.is_file() else order
    for name in names:
        path = folder / name
        if path.is_file() and set(_header(path, "\t")) >= COMMON_VOICE_COLUMNS:
            return path
    return None


def clip_list(source: Path) -> Path | None:
    """The list of clips that a folder holds, or that the source itself is."""
    if source.is_file():
        return source if source.suffix.lower() in (*ENDINGS, ".txt") else None
    named = [source / name for name in MANIFEST_NAMES]
    others = sorted(path for path in source.iterdir() if path.suffix.lower() in ENDINGS)
    return next((path for path in (*named, *others) if path.is_file()), None)


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        elif path.is_file():
            yield path


def _header(path: Path, mark: str) -> list[str]:
    first = next(iter(read_lines(path)), None)
    return (
        []
        if first is None
        else [cell.strip().strip('"').lower() for cell in first.text.split(mark)]
    )


def _is_common_voice(source: Path) -> str:
    path = common_voice_list(source)
    return f"{path.name} has client_id, path and sentence, beside clips/" if path else ""


def _is_vctk(source: Path) -> str:
    waves = [name for name in VCTK_FOLDERS if (source / name).is_dir()]
    return f"{waves[0]}/ beside txt/" if waves and (source / "txt").is_dir() else ""


VCTK_FOLDERS = ("wav48_silence_trimmed", "wav48", "wav22", "wav16")


def _is_libritts(source: Path) -> str:
    if not source.is_dir():
        return ""
    first = next(
        (path for path in islice(_walk(source), 1000) if path.name.endswith(".normalized.txt")),
        None,
    )
    return f"{first.name} beside its recording" if first else ""


def _is_audiofolder(source: Path) -> str:
    path = clip_list(source)
    if path is None:
        return ""
    if path.suffix.lower() == ".jsonl":
        return f"{path.name}, a JSON object a line"
    return f"{path.name} has a column file_name" if "file_name" in _header(path, ",") else ""


def _is_piper(source: Path) -> str:
    form = _form_of(source)
    return "its list is id|speaker|text" if form is not None and "Piper" in form[0] else ""


def _is_coqui(source: Path) -> str:
    form = _form_of(source)
    return f"{form[2]} has a header" if form is not None and form[1] else ""


def _is_ljspeech(source: Path) -> str:
    form = _form_of(source)
    return f"{form[2]} is id|text, or id|text|normalised text" if form is not None else ""


def _form_of(source: Path) -> tuple[str, bool, str] | None:
    """Name of the form, whether it has a header, and the list."""
    from myxtts.data.list_forms import recognise

    path = clip_list(source)
    if path is None or path.suffix.lower() not in (".csv", ".tsv", ".txt"):
        return None
    first = list(islice(read_lines(path), NUM_FIRST))
    if not first or not any(mark in first[0].text for mark in "|\t,"):
        return None
    form = recognise(first, delimiter=None, language="en")
    return form.name, form.has_header, path.name


def _has_beside(endings: tuple[str, ...]) -> Callable[[Path], str]:
    def look(source: Path) -> str:
        home = source if source.is_dir() else source.parent
        texts = (path for path in _walk(home) if path.suffix.lower() in endings)
        stems = {path.parent / path.stem for path in islice(texts, MOST_FILES)}
        stems |= {stem.with_suffix("") for stem in stems}  # x.en.srt
        for path in audio_files(source) if stems else ():
            if path.parent / path.stem in stems and (text := text_beside(path, endings)):
                return f"{harmless(text.name)} beside {harmless(path.name)}"
        return ""

    return look


def text_beside(path: Path, endings: tuple[str, ...]) -> Path | None:
    """`x.txt` beside `x.wav`; of subtitles, also `x.en.srt`."""
    for ending in endings:
        exact = path.with_name(path.stem + ending)
        if exact.is_file():
            return exact
        if ending in SUBTITLES:
            for other in sorted(path.parent.glob(f"{glob.escape(path.stem)}.*{ending}")):
                return other
    return None


def _has_recordings(source: Path) -> str:
    found = len(audio_files(source))
    return f"{found} recordings, and no text with them" if found else ""


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("common-voice", "validated.tsv beside clips/", _is_common_voice),
        Kind("vctk", "wav48_silence_trimmed/ beside txt/", _is_vctk),
        Kind("libritts", "SPEAKER/CHAPTER/*.wav with *.normalized.txt", _is_libritts),
        Kind("audiofolder", "metadata.jsonl, or metadata.csv with file_name", _is_audiofolder),
        Kind("piper", "metadata.csv of id|speaker|text", _is_piper),
        Kind("coqui", "a CSV whose header names audio_file and text", _is_coqui),
        Kind("ljspeech", "metadata.csv of id|text|normalised text", _is_ljspeech),
        Kind("subtitles", "x.srt or x.vtt beside x.wav", _has_beside(SUBTITLES)),
        Kind("texts", "x.txt beside x.wav", _has_beside((".txt",))),
        Kind("recordings", "recordings alone", _has_recordings),
    )
}
