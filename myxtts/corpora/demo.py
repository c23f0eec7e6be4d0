"""The built-in corpus: espeak-ng speaks a small data set, so that training can be tried at once."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.corpora.demo_sentences import (
    ENGLISH,
    DemoTexts,
    Vocabulary,
    draw_slot_sentences,
    draw_texts,
)
from myxtts.corpora.persian_sentences import PERSIAN
from myxtts.documents import read_json
from myxtts.errors import DataError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.text import espeak
from myxtts.text.recital import persian_for_espeak, recite
from myxtts.text.tokenizers import ESPEAK_VOICES

SETTINGS_FILE = "demo.json"
TRAIN_MANIFEST = "metadata.csv"
NEW_SENTENCES_MANIFEST = "heldout/metadata_new_sentences.csv"  # trained words, new combinations
NEW_WORDS_MANIFEST = "heldout/metadata_new_words.csv"  # every word of it never heard in training
UNSEEN_REFERENCES_MANIFEST = "unseen/metadata_references.csv"  # of voices never trained on
UNSEEN_TESTS_MANIFEST = "unseen/metadata_tests.csv"  # held-out sentences, the same for each of them
_ENDS_A_FIELD = re.compile(r"[|\r\n]+")
MANIFEST_COLUMNS = ("audio_file", "text", "speaker_name", "language")

_FORMAT = 1  # raised when the same settings would give other files
_LEVEL = 0.1  # root mean square of every clip, of full scale
_PEAK = 0.95
_UNSEEN_REFERENCES = 3  # clips of each unseen voice to listen to
_UNSEEN_TESTS = 2  # sentences of trained words for each to say, and as many of unseen words
_LEFTOVER_SECONDS = 3600  # a corpus takes seconds; an older partial folder has no owner any more


@dataclass(frozen=True)
class DemoVoice:
    """One speaker: the name in the manifest, and how espeak-ng speaks it."""

    name: str
    espeak_voice: str
    rate: int = 150
    pitch: int = 50
    pitch_range: int = 50
    formants: float = 1.0  # of a longer (below 1) or a shorter throat; pitch moves along


VOCABULARIES: dict[str, Vocabulary] = {"en": ENGLISH, "fa": PERSIAN}
"""The languages that there is a demo corpus of."""

# The variants a recogniser reads well (0.97 of the words and more); the first is the single voice.
DEMO_VOICES = tuple(DemoVoice(name, f"en-us+{name}") for name in ("f2", "m6", "f1", "f5"))


@dataclass(frozen=True)
class DemoSummary:
    """What lies in the folder; `seconds` is audio of the training set."""

    folder: Path
    speakers: tuple[str, ...]
    num_clips: int
    num_held_out: int
    seconds: float
    reused: bool
    unseen_speakers: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Clip:
    manifest: str
    audio_file: str  # from the manifest's own folder
    text: str
    voice: DemoVoice
    language: str


def make_demo_corpus(
    folder: Path,
    *,
    voices: int | Sequence[DemoVoice] = len(DEMO_VOICES),
    unseen_voices: Sequence[DemoVoice] = (),
    sentences: int = 400,
    held_out: int = 40,
    seed: int = 0,
    language: str = "en",
    progress: Callable[[int, int], None] | None = None,
) -> DemoSummary:
    """Speak a corpus into `folder`, or reuse the one there if it was made with these settings.

    `voices` counts the speakers (1 gives a single voice) or lists them, `sentences` counts the
    training clips, `held_out` the clips of each of the two held-out sets; all are shared out
    between the speakers. Unseen voices speak nothing of those, only references and tests of their
    own. All of them speak `language`, one of `VOCABULARIES`. `progress` is told the clips done and
    the clips in all. The folder appears when it is whole.
    """
    folder = Path(folder).expanduser().resolve()
    vocabulary = vocabulary_of(language)
    chosen = _choose_voices(voices)
    _choose_voices([*chosen, *unseen_voices])  # names differ between the two as well
    texts = draw_texts(
        num_sentences=sentences, num_held_out=held_out, seed=seed, vocabulary=vocabulary
    )
    clips = _plan_clips(texts, [in_language(voice, language) for voice in chosen], language)
    apart = [in_language(voice, language) for voice in unseen_voices]
    clips += _plan_unseen(apart, language, avoid=[clip.text for clip in clips], seed=seed)
    settings = {"format": _FORMAT, "seed": seed, "clips": len(clips), "plan": _digest(clips)}
    if summary := _existing(folder, settings):
        return summary
    with partial_folder(folder) as partial:
        facts = _speak_clips(clips, partial, progress)
        record = {"settings": settings, "facts": facts}
        (partial / SETTINGS_FILE).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        try:
            os.rename(partial, folder)
        except OSError:
            # Another process may have finished the same corpus first: theirs is as good.
            if not (summary := _existing(folder, settings)):
                raise
            return summary
    return _summary(folder, facts, reused=False)


def _choose_voices(voices: int | Sequence[DemoVoice]) -> tuple[DemoVoice, ...]:
    if isinstance(voices, int):
        if not 1 <= voices <= len(DEMO_VOICES):
            raise DataError(
                f"The demo corpus has no {voices} voices.", f"1 to {len(DEMO_VOICES)} voices"
            )
        return DEMO_VOICES[:voices]
    names = [voice.name for voice in voices]
    if not names or len(set(names)) < len(names) or not all(map(_is_plain, names)):
        raise DataError(
            f"The speaker names {names} are not usable.",
            "at least one, each different, of letters, digits, - and _",
        )
    return tuple(voices)


def _is_plain(name: str) -> bool:
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum()


def vocabulary_of(language: str) -> Vocabulary:
    """What a demo corpus of a language is drawn from."""
    if language not in VOCABULARIES:
        raise DataError(
            f"There is no demo corpus in {language!r}.", f"one of {', '.join(VOCABULARIES)}"
        )
    return VOCABULARIES[language]


def in_language(voice: DemoVoice, language: str) -> DemoVoice:
    """The same speaker, speaking another language."""
    variant = voice.espeak_voice.partition("+")[2]
    return replace(voice, espeak_voice=f"{ESPEAK_VOICES.get(language, language)}+{variant}")


def _plan_clips(texts: DemoTexts, voices: Sequence[DemoVoice], language: str) -> list[_Clip]:
    """Decide every clip from the settings alone."""
    return [
        _Clip(manifest, f"wavs/{prefix}_{index:04d}_{voice.name}.wav", text, voice, language)
        for manifest, prefix, listed in (
            (TRAIN_MANIFEST, "demo", texts.train),
            (NEW_SENTENCES_MANIFEST, "new_sentence", texts.new_sentences),
            (NEW_WORDS_MANIFEST, "new_words", texts.new_words),
        )
        for index, text in enumerate(listed)
        for voice in (voices[index % len(voices)],)
    ]


def _plan_unseen(
    voices: Sequence[DemoVoice], language: str, *, avoid: Sequence[str], seed: int
) -> list[_Clip]:
    """References of each voice, all different, and tests that all voices share."""
    vocabulary = VOCABULARIES[language]
    rng = random.Random(f"unseen {seed}")  # noqa: S311 - a shuffle, not a secret
    num_references = _UNSEEN_REFERENCES * len(voices)
    drawn = draw_slot_sentences(
        vocabulary.slots, num_sentences=num_references + _UNSEEN_TESTS, rng=rng, avoid=avoid
    )
    tests = drawn[num_references:] + draw_slot_sentences(
        vocabulary.held_out_slots, num_sentences=_UNSEEN_TESTS, rng=rng, avoid=avoid
    )
    said = [
        (UNSEEN_REFERENCES_MANIFEST, "reference", drawn[i : num_references : len(voices)], voice)
        for i, voice in enumerate(voices)
    ] + [(UNSEEN_TESTS_MANIFEST, "test", tests, voice) for voice in voices]
    return [
        _Clip(manifest, f"wavs/{prefix}_{index:04d}_{voice.name}.wav", text, voice, language)
        for manifest, prefix, listed, voice in said
        for index, text in enumerate(listed)
    ]


def _digest(clips: Sequence[_Clip]) -> str:
    # Covers texts and voices, so a release with other sentences does not take this for its own.
    plan = [asdict(clip) for clip in clips]
    for clip in plan:
        if clip["voice"]["formants"] == 1.0:  # a later setting: older corpora stay valid without it
            del clip["voice"]["formants"]
        if clip["language"] == "en":  # likewise
            del clip["language"]
        elif clip["language"] == "fa":  # read in another way, it is another corpus
            clip["said"] = persian_for_espeak(clip["text"])
    return hashlib.sha256(json.dumps(plan).encode()).hexdigest()


def _speak_clips(
    clips: Sequence[_Clip], folder: Path, progress: Callable[[int, int], None] | None
) -> dict[str, Any]:
    import soundfile

    seconds = 0.0
    rows: dict[str, list[_Clip]] = {}
    for num_done, clip in enumerate(clips, start=1):
        path = (folder / clip.manifest).parent / clip.audio_file
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = speak_clip(clip.text, clip.voice)
        soundfile.write(path, samples, SAMPLE_RATE, subtype="PCM_16")
        rows.setdefault(clip.manifest, []).append(clip)
        seconds += len(samples) / SAMPLE_RATE if clip.manifest == TRAIN_MANIFEST else 0.0
        if progress:
            progress(num_done, len(clips))
    for manifest, listed in rows.items():
        entries = [(c.audio_file, c.text, c.voice.name, c.language) for c in listed]
        write_list(folder / manifest, entries)
    listed_unseen = rows.get(UNSEEN_REFERENCES_MANIFEST, [])
    num_unseen = len(listed_unseen) + len(rows.get(UNSEEN_TESTS_MANIFEST, []))
    return {
        "speakers": list(dict.fromkeys(clip.voice.name for clip in rows[TRAIN_MANIFEST])),
        "unseen_speakers": list(dict.fromkeys(clip.voice.name for clip in listed_unseen)),
        "num_clips": len(rows[TRAIN_MANIFEST]),
        "num_held_out": len(clips) - len(rows[TRAIN_MANIFEST]) - num_unseen,
        "seconds": round(seconds, 3),
        "espeak_ng": espeak.library_version(),
    }


def write_list(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write a clip list of our columns; in a list with bars a quote is text, so none is added.

    A bar or a line's end inside a field would end it, and becomes a space.
    """
    fields = ([" ".join(_ENDS_A_FIELD.split(field)) for field in row] for row in rows)
    lines = ["|".join(row) + "\n" for row in (MANIFEST_COLUMNS, *fields)]
    path.write_text("".join(lines), encoding="utf-8", newline="")


def speak_clip(text: str, voice: DemoVoice) -> np.ndarray:
    """What a voice says, as 16-bit samples at our rate, as loud as every other clip."""
    samples, rate = recite(
        text,
        voice=voice.espeak_voice,
        rate=round(voice.rate / voice.formants),  # so that playing it faster or slower makes up
        pitch=voice.pitch,
        pitch_range=voice.pitch_range,
    )
    wave = samples.astype(np.float64) / 32768
    played_at = rate * voice.formants
    if played_at != SAMPLE_RATE:
        import soxr

        wave = soxr.resample(wave, played_at, SAMPLE_RATE)
    level, peak = np.sqrt(np.mean(wave**2)), np.max(np.abs(wave))
    wave *= min(_LEVEL / level, _PEAK / peak)
    return np.rint(wave * 32767).astype(np.int16)


def _existing(folder: Path, settings: dict[str, Any]) -> DemoSummary | None:
    """Return what lies in the folder if it is this corpus, None if it is free, or refuse."""
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise DataError(f"{folder} is a file.", "the name of a new folder")
    remedy = "another folder, or delete this one"
    if not any(folder.iterdir()):
        if folder == Path.cwd():  # renaming over it would leave the shell in a deleted folder
            raise DataError("The demo corpus cannot replace the current folder.", "a new folder")
        return None
    try:
        record = read_json(folder / SETTINGS_FILE)
        same, facts = record["settings"] == settings, record["facts"]
        summary = _summary(folder, facts, reused=True)
    except FileNotFoundError:
        raise DataError(f"{folder} holds something else than a demo corpus.", remedy) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / SETTINGS_FILE} cannot be read: {error!r}.", remedy) from error
    if not same:
        raise DataError(f"{folder} holds a demo corpus with other settings.", remedy)
    if sum(1 for _ in folder.glob("**/wavs/*.wav")) != settings["clips"]:
        raise DataError(f"Some clips of the demo corpus in {folder} are gone.", remedy)
    return summary


def _summary(folder: Path, facts: dict[str, Any], *, reused: bool) -> DemoSummary:
    return DemoSummary(
        folder,
        speakers=tuple(facts["speakers"]),
        num_clips=facts["num_clips"],
        num_held_out=facts["num_held_out"],
        seconds=facts["seconds"],
        reused=reused,
        unseen_speakers=tuple(facts.get("unseen_speakers", ())),
    )


@contextmanager
def partial_folder(target: Path) -> Iterator[Path]:
    """Give a folder beside the target, gone at the end unless it was renamed."""
    prefix = f".{target.name}.partial-"
    partial = target.with_name(prefix + uuid.uuid4().hex[:8])
    try:
        partial.mkdir(parents=True)
        for leftover in target.parent.glob(f"{prefix}*"):  # of a killed run
            if time.time() - leftover.stat().st_mtime > _LEFTOVER_SECONDS:
                shutil.rmtree(leftover, ignore_errors=True)
        yield partial
    except OSError as error:
        raise DataError(
            f"The demo corpus cannot be written to {target}: {error}.",
            "a folder on a disk with space that you may write to",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
