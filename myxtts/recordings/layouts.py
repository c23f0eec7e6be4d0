"""Lists the recordings of a source, whichever way they are kept, with all that is known of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from myxtts.data.clips import FOLDERS, find_audio
from myxtts.data.list_forms import DEFAULT_SPEAKER
from myxtts.data.list_lines import read_lines, split_line
from myxtts.data.manifests import read_manifest
from myxtts.data.verdicts import REMEDIES
from myxtts.documents import read_bounded
from myxtts.errors import DataError
from myxtts.recordings.kinds import (
    SUBTITLES,
    VCTK_FOLDERS,
    audio_files,
    clip_list,
    common_voice_list,
    text_beside,
)
from myxtts.recordings.sources import Cue, Recording
from myxtts.recordings.subtitles import read_subtitles

MAX_TEXT_BYTES = 16 << 20
_MICROPHONES = ("_mic1.flac", "_mic2.flac", ".flac", ".wav")


def list_recordings(source: Path, kind: str, language: str) -> Iterator[Recording]:
    """The recordings of a source of a kind, in order; `language` is of those that name none."""
    return _READERS[kind](source, language)


def _common_voice(source: Path, language: str) -> Iterator[Recording]:
    path = common_voice_list(source)
    if path is None:
        raise _not_there(source, "Common Voice's validated.tsv beside clips/")
    lines = read_lines(path)
    names = [cell.strip().lower() for cell in next(lines).text.split("\t")]
    for line in lines:
        cells, problem = split_line(line, "\t", quoted=False)
        row = dict(zip(names, map(str.strip, cells), strict=False))
        name = row.get("path", "")
        found = _find(path.parent, name)
        remedy = "mend the row in the clip list"
        if not problem and _votes(row, "down_votes") >= max(1, _votes(row, "up_votes")):
            problem = f"{row['down_votes']} of its listeners say that the text is not what is said"
            remedy = "listen to it; --as audiofolder takes clips whatever the votes"
        if not problem and isinstance(found, str):
            problem, remedy = found, REMEDIES[found]
        yield Recording(
            path=found if isinstance(found, Path) else path.parent / "clips" / name,
            name=f"clips/{name}",
            text=row.get("sentence", ""),
            speaker=row.get("client_id", ""),
            language=(row.get("locale") or language).lower().replace("_", "-"),
            problem=problem,
            remedy=remedy,
        )


def _votes(row: dict[str, str], name: str) -> int:
    value = row.get(name, "")
    return int(value) if value.isdecimal() else 0


def _vctk(source: Path, language: str) -> Iterator[Recording]:
    folder = next((source / name for name in VCTK_FOLDERS if (source / name).is_dir()), None)
    if folder is None or not (source / "txt").is_dir():
        raise _not_there(source, "VCTK's txt/ beside wav48_silence_trimmed/ or wav48/")
    for written in sorted((source / "txt").glob("*/*.txt")):
        speaker, stem = written.parent.name, written.stem
        files = [folder / speaker / f"{stem}{ending}" for ending in _MICROPHONES]
        path = next((file for file in files if file.is_file()), None)
        yield _with_text(path or files[0], source, written, speaker, language)


def _libritts(source: Path, language: str) -> Iterator[Recording]:
    for path in audio_files(source):
        parts = path.relative_to(source).parts
        speaker = parts[-3] if len(parts) > 2 else path.name.partition("_")[0]
        texts = [path.with_name(f"{path.stem}.{ending}") for ending in ("normalized.txt", "txt")]
        written = next((text for text in texts if text.is_file()), texts[0])
        yield _with_text(path, source, written, speaker, language)


def _listed(source: Path, language: str) -> Iterator[Recording]:
    path = clip_list(source)
    if path is None:
        raise _not_there(source, "a list such as metadata.csv")
    manifest = read_manifest(path, language=language)
    for number, clip in enumerate(manifest):
        problem = manifest.bad_rows.get(number, "")
        remedy = REMEDIES["bad row"]
        found = _find(path.parent, clip.audio)
        if not problem and isinstance(found, str):
            problem, remedy = found, REMEDIES[found]
        home = path.parent / clip.audio
        yield Recording(
            path=found if isinstance(found, Path) else home,
            name=clip.audio,
            text=clip.text,
            speaker="" if clip.speaker == DEFAULT_SPEAKER else clip.speaker,
            language=clip.language,
            problem=problem,
            remedy=remedy,
        )


def _beside(endings: tuple[str, ...]) -> Callable[[Path, str], Iterator[Recording]]:
    """Recordings with what lies beside each: subtitles before plain text, or nothing."""

    def read(source: Path, language: str) -> Iterator[Recording]:
        home = source if source.is_dir() else source.parent
        paths = audio_files(source)
        if not paths:
            raise _not_there(source, "a recording")
        for path in paths:
            name = str(path.relative_to(home))
            speaker = path.parent.name if path.parent != home else ""
            beside = text_beside(path, endings)
            if beside is not None and beside.suffix == ".txt":
                yield _with_text(path, home, beside, speaker, language)
                continue
            cues: tuple[Cue, ...] = ()
            problem = remedy = ""
            try:
                cues = read_subtitles(beside) if beside is not None else ()
            except DataError as error:
                problem, remedy = error.problem, error.remedy
            files = () if beside is None else (beside,)
            yield Recording(path, name, "", cues, speaker, language, problem, remedy, beside=files)

    return read


def _with_text(path: Path, home: Path, written: Path, speaker: str, language: str) -> Recording:
    name = str(path.relative_to(home))
    text, problem, remedy = "", "", ""
    try:
        text = _read_text(written)
    except DataError as error:
        problem, remedy = error.problem, error.remedy
    if not problem and not path.is_file():
        problem, remedy = "missing", REMEDIES["missing"]
    elif not problem and not text.strip():
        problem, remedy = "empty text", f"write what is said into {written.name}"
    return Recording(path, name, text, (), speaker, language, problem, remedy, beside=(written,))


def _read_text(path: Path) -> str:
    try:
        return read_bounded(path, max_bytes=MAX_TEXT_BYTES).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"{path.name} is missing.", "write what is said into it") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}", "save it as UTF-8") from error


def _find(folder: Path, name: str) -> Path | str:
    """The file that a list means, or the reason why there is none: never one outside."""
    root = Path(os.path.realpath(folder))
    inside = Path(os.path.normpath(root / name))
    if "\0" in name or root not in inside.parents:
        return "outside the data folder"
    places = [root, *(root / place for place in FOLDERS if (root / place).is_dir())]
    found = find_audio(places, str(inside.relative_to(root)))
    if found is None or not found.is_file():
        return "missing" if found is None or not found.exists() else "not a file"
    real, home = Path(os.path.realpath(found)), Path(os.path.realpath(found.parent))
    return (
        found
        if real.is_relative_to(root) or real.is_relative_to(home)
        else "outside the data folder"
    )


def _not_there(source: Path, what: str) -> DataError:
    return DataError(f"{source} has not {what}.", "another --as, or leave it out")


_READERS: dict[str, Callable[[Path, str], Iterator[Recording]]] = {
    "common-voice": _common_voice,
    "vctk": _vctk,
    "libritts": _libritts,
    "audiofolder": _listed,
    "piper": _listed,
    "coqui": _listed,
    "ljspeech": _listed,
    "subtitles": _beside((*SUBTITLES, ".txt")),
    "texts": _beside((".txt",)),
    "recordings": _beside(()),
}
