"""The corpus of the base voice: a crowd of espeak-ng in every language, and people's recordings.

A synthetic speaker is one voice in several languages, so that its reference may be in another one
than what it says. A person is heard as recorded and, in half of the clips each, played faster and
slower, which moves pitch and formants: of few people that makes more. Each speaker has a level of
their own, since references are of any.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from myxtts.corpora.base_texts import FOLDER, TextSource, read_phrases, says_held_out_word
from myxtts.corpora.demo import in_language, partial_folder, speak_clip, write_list
from myxtts.corpora.many_voices import make_crowd
from myxtts.data.clips import check_clips
from myxtts.data.list_forms import DEFAULT_SPEAKER
from myxtts.data.manifests import read_manifest
from myxtts.data.waves import decode
from myxtts.documents import read_json
from myxtts.errors import DataError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.text import espeak
from myxtts.text.languages import LANGUAGES

FACTS_FILE = "base_corpus.json"
NUM_VOICES = 240
LONGEST_SECONDS = 10.2

_FORMAT = 2  # raised when the same settings would give other clips
_OWN_CLIPS = {"en": 5, "fa": 4}  # of each synthetic speaker
_OTHER_CLIPS = 4  # in as many other languages, all in turn
_LEVEL, _LEVEL_SPREAD_DB, _PEAK = 0.1, 6.0, 0.95
_SHIFTS = (1.05, 1.16)  # how much faster or slower a person is played
_QUIET, _MARGIN_S = 0.02, 0.05  # of the loudest: what is softer at either end is cut off
_CROWD_SEED = 10
_IN_FILES = re.compile(r"[^\w.-]")  # what of a speaker's name no file is named by

Wave = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Recordings:
    """A folder of people's recordings. `words`: single words with a pause after each."""

    folder: Path
    words: bool = False
    leave_out: frozenset[str] = frozenset()  # speakers, who are for judging


@dataclass(frozen=True)
class _Row:
    audio_file: str
    text: str
    speaker: str
    language: str
    source: str
    seconds: float
    is_played: bool = False  # a copy, faster or slower: another voice for the model


def make_base_corpus(
    folder: Path,
    *,
    recordings: Sequence[Recordings] = (),
    english_texts: Path | None = None,
    voices: int = NUM_VOICES,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Make the corpus in `folder`, or reuse the one there; returns the facts of it.

    The facts say of each source its clips, minutes and speakers. The folder appears when it is
    whole.
    """
    folder = Path(folder).expanduser().resolve()
    settings = _settings(recordings, english_texts, voices=voices, seed=seed)
    if (folder / FACTS_FILE).is_file():
        facts: dict[str, Any] = read_json(folder / FACTS_FILE)
        if facts.get("settings") != settings:
            raise DataError(
                f"{folder} holds a base corpus with other settings.", "another --out, or delete it"
            )
        return facts
    if folder.exists() and any(folder.iterdir()):
        raise DataError(f"{folder} holds something else.", "another --out")
    people = [_usable(each) for each in recordings]
    _check_names(recordings)
    total = voices * (sum(_OWN_CLIPS.values()) + _OTHER_CLIPS) + sum(map(len, people))
    with partial_folder(folder) as partial:
        (partial / "wavs").mkdir()
        rows: list[_Row] = []
        phrases = read_phrases(english_texts) if english_texts else ()
        texts = TextSource(seed=seed, english=phrases)
        made = [_speak_crowd(partial, texts, voices=voices, seed=seed)]
        made += [
            _copy_people(partial, each, clips, seed=seed)
            for each, clips in zip(recordings, people, strict=True)
        ]
        num_done = 0
        for source in made:
            for found in source:
                rows += found
                num_done += 1
                if progress:
                    progress(num_done, total)
        facts = {"settings": settings, "sources": _count(rows), "espeak_ng": _version()}
        _write_lists(partial, rows, facts)
        os.rename(partial, folder)
    return facts


def _settings(
    recordings: Sequence[Recordings], english_texts: Path | None, *, voices: int, seed: int
) -> dict[str, Any]:
    """All that decides the clips, by content and not by where it lies."""
    sentences = b"".join(path.read_bytes() for path in sorted(FOLDER.glob("*.txt")))
    return {
        "format": _FORMAT,
        "seed": seed,
        "voices": voices,
        "sentences": hashlib.sha256(sentences).hexdigest(),
        "english_texts": None if english_texts is None else _digest(english_texts),
        "recordings": [
            {
                "name": each.folder.name,
                "list": _digest(_list_of(each.folder)),
                "words": each.words,
                "leave_out": sorted(each.leave_out),
            }
            for each in recordings
        ],
    }


def _list_of(folder: Path) -> Path:
    return folder / "metadata.csv" if folder.is_dir() else folder


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}", "check the path") from error


def _version() -> str:
    return espeak.library_version()


# -- the crowd --


def _speak_crowd(
    folder: Path, texts: TextSource, *, voices: int, seed: int
) -> Iterator[list[_Row]]:
    rng = random.Random(f"base crowd {seed}")  # noqa: S311 - a draw, not a secret
    others = [tag for tag in LANGUAGES if tag not in _OWN_CLIPS]
    for number, voice in enumerate(make_crowd("b", count=voices, seed=_CROWD_SEED)):
        level_db = rng.uniform(-_LEVEL_SPREAD_DB, _LEVEL_SPREAD_DB)
        first = number * _OTHER_CLIPS
        spoken = [tag for tag, count in _OWN_CLIPS.items() for _ in range(count)]
        spoken += [others[(first + i) % len(others)] for i in range(_OTHER_CLIPS)]
        for i, tag in enumerate(spoken):
            text = texts.draw(tag)
            wave = speak_clip(text, in_language(voice, tag)).astype(np.float64) / 32768
            name = f"wavs/{voice.name}_{i:02d}_{tag}.wav"
            seconds = _write(folder / name, wave, level_db=level_db)
            yield [_Row(name, text, voice.name, tag, "espeak-ng", seconds)]


# -- people --


def _check_names(recordings: Sequence[Recordings]) -> None:
    """Refuse speakers to leave out whom nobody knows, and folders that would be one source."""
    wanted = {name for each in recordings for name in each.leave_out}
    known = {clip.speaker for each in recordings for clip in read_manifest(each.folder)}
    if missing := sorted(wanted - known):
        raise DataError(
            f"No recording is of the speakers to leave out: {', '.join(missing)}.",
            "--leave-out with names as the clip lists have them",
        )
    names = [each.folder.name for each in recordings]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(
            f"Several folders of recordings are called {', '.join(twice)}.", "rename one of them"
        )


def _usable(recordings: Recordings) -> list[tuple[Path, str, str, str]]:
    """Path, text, speaker and language of the recordings that are used."""
    manifest = read_manifest(recordings.folder)
    verdicts = check_clips(manifest, max_seconds=LONGEST_SECONDS)
    found = []
    for clip, verdict in zip(manifest, verdicts, strict=True):
        if not verdict.kept or clip.speaker in recordings.leave_out:
            continue
        # Recordings of few single words cannot spare one; the card names those they have.
        if not recordings.words and clip.language == "en" and says_held_out_word(clip.text):
            continue
        speaker = recordings.folder.name if clip.speaker == DEFAULT_SPEAKER else clip.speaker
        text = ", ".join(clip.text.split()) + "." if recordings.words else clip.text
        found.append((manifest.folder / verdict.path, text, speaker, clip.language))
    if not found:
        raise DataError(f"No recording of {recordings.folder} can be used.", "myxtts data check")
    return found


def _copy_people(
    folder: Path,
    recordings: Recordings,
    clips: Sequence[tuple[Path, str, str, str]],
    *,
    seed: int,
) -> Iterator[list[_Row]]:
    source = recordings.folder.name
    for number, (path, text, speaker, language) in enumerate(clips):
        wave = _without_silence(decode(path).astype(np.float64) / 32768)
        rows = []
        which = ("up", "down")[number % 2]
        for name, factor, level_db in (
            (speaker, 1.0, 0.0),
            (f"{speaker}_{which}", *_variation(f"{speaker} {which} {seed}", which)),
        ):
            if len(wave) > factor * LONGEST_SECONDS * SAMPLE_RATE:
                continue
            audio = f"wavs/{source}_{number:04d}_{_IN_FILES.sub('_', name)}.wav"
            seconds = _write(folder / audio, _played(wave, factor), level_db=level_db)
            is_played = name != speaker
            rows.append(_Row(audio, text, name, language, source, seconds, is_played))
        yield rows


def _variation(name: str, which: str) -> tuple[float, float]:
    """How one copy of a person differs: always the same for the same name."""
    rng = random.Random(name)  # noqa: S311 - a draw, not a secret
    factor = rng.uniform(*_SHIFTS)
    level_db = rng.uniform(-_LEVEL_SPREAD_DB, _LEVEL_SPREAD_DB)
    return (factor if which == "up" else 1.0 / factor), level_db


def _played(wave: Wave, factor: float) -> Wave:
    if factor == 1.0:
        return wave
    import soxr

    moved: Wave = soxr.resample(wave, SAMPLE_RATE * factor, SAMPLE_RATE)
    return moved


def _without_silence(wave: Wave) -> Wave:
    loud = np.flatnonzero(np.abs(wave) > _QUIET * np.abs(wave).max())
    margin = round(_MARGIN_S * SAMPLE_RATE)
    return wave[max(0, loud[0] - margin) : loud[-1] + margin]


# -- files --


def _write(path: Path, wave: Wave, *, level_db: float) -> float:
    """Write a clip at a level relative to the common one; returns its seconds."""
    import soundfile

    level = _LEVEL * 10 ** (level_db / 20)
    gain = min(level / np.sqrt(np.mean(wave**2)), _PEAK / np.max(np.abs(wave)))
    soundfile.write(path, np.rint(wave * gain * 32767).astype(np.int16), SAMPLE_RATE, "PCM_16")
    return len(wave) / SAMPLE_RATE


def _count(rows: Sequence[_Row]) -> dict[str, Any]:
    """Clips, minutes, speakers and languages of each source."""
    counted = {}
    for source in dict.fromkeys(row.source for row in rows):
        own = [row for row in rows if row.source == source]
        counted[source] = {
            "clips": len(own),
            "minutes": round(sum(row.seconds for row in own) / 60, 1),
            "speakers": len({row.speaker for row in own}),
            "played": len({row.speaker for row in own if row.is_played}),
            "languages": sorted({row.language for row in own}),
        }
    return counted


def _write_lists(folder: Path, rows: Sequence[_Row], facts: dict[str, Any]) -> None:
    listed = [(row.audio_file, row.text, row.speaker, row.language) for row in rows]
    write_list(folder / "metadata.csv", listed)
    text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
    (folder / FACTS_FILE).write_text(text, encoding="utf-8")
