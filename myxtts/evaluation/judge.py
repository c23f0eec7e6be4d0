"""Speaks held-out clips and measures them, beside the originals and their copies by the vocoder."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from myxtts.corpora.demo_sentences import HELD_OUT_SLOTS, SLOTS
from myxtts.data.waves import decode
from myxtts.errors import DataError, MyXTTSError
from myxtts.evaluation.distortion import Distortion, compare
from myxtts.evaluation.held_out import HeldOut, SpokenClip
from myxtts.evaluation.pitch import Sound, analyse
from myxtts.evaluation.recognition import ClosedSetRecogniser
from myxtts.evaluation.results import (
    COPY,
    ORIGINAL,
    SYNTHESIS,
    ClipResult,
    Evaluation,
    Marks,
    Note,
    Shown,
)
from myxtts.evaluation.voice_match import VoiceProfile, average_profile, profile_of, rank
from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference.speaker import HeardVoice
from myxtts.inference.synthesizer import Synthesizer

NUM_STREAMS = 5  # of which the median is the time to first audio
MAX_SHOWN = 4  # clips to look at and listen to

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class _Judge:
    """What every clip is measured with."""

    recogniser: ClosedSetRecogniser | None
    voices: Mapping[str, VoiceProfile]

    def marks(self, wave: Floats, sound: Sound, clip: SpokenClip, distortion: Distortion) -> Marks:
        """One audio of a clip, measured."""
        nearest = rank(profile_of(sound), self.voices)[0] if len(self.voices) > 1 else None
        words = None
        if self.recogniser is not None and said_words(clip.text) is not None:
            words = self.recogniser.score(wave, SAMPLE_RATE, clip.text)
        return Marks(words, nearest, **distortion._asdict())


def evaluate(
    synthesizer: Synthesizer,
    held_out: HeldOut,
    *,
    seed: int = 0,
    on_clip: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Speak every clip in its own voice, cloned from other recordings, and measure what comes out.

    `on_clip` is told of every voice listened to and of every clip done.
    """
    notes: list[Note] = []
    recogniser = _make_recogniser(held_out.clips, notes)
    profiles, clones = {}, {}
    spoken = {clip.speaker for clip in held_out.clips}
    for speaker, paths in held_out.references.items():
        profiles[speaker] = average_profile([profile_of(analyse(_read(path))) for path in paths])
        if speaker in spoken:
            clones[speaker] = synthesizer.listen(paths)
        on_clip()
    if len(profiles) < 2:
        notes.append(Note("A voice is matched among several; there is one."))
    judge = _Judge(recogniser, profiles)
    first = held_out.clips[0]  # what is traced once must not count as speaking
    synthesizer.perform([first.text], voice=clones[first.speaker], language=first.language)
    first_audio_s = _time_to_first_audio(synthesizer, held_out.clips, clones)
    shown_ids = {id(clip) for clip in _choose_shown(held_out.clips)}
    results, shown = [], []
    for clip in held_out.clips:
        result, look = _judge_clip(synthesizer, judge, clip, clones[clip.speaker], seed=seed)
        results.append(result)
        if id(clip) in shown_ids:
            shown.append(look)
        on_clip()
    return Evaluation(
        clips=tuple(results),
        voices=tuple(profiles),
        first_audio_s=first_audio_s,
        shown=tuple(shown),
        notes=tuple(notes),
    )


def said_words(text: str) -> str | None:
    """Whether a text is of the demo's closed set: "trained" words, "unseen" ones, or neither."""
    words = text.rstrip(".").split()
    if len(words) != len(SLOTS):
        return None
    for kind, slots in (("trained", SLOTS), ("unseen", HELD_OUT_SLOTS)):
        if all(word in slots[slot] for word, slot in zip(words, SLOTS, strict=True)):
            return kind
    return None


def _make_recogniser(clips: Sequence[SpokenClip], notes: list[Note]) -> ClosedSetRecogniser | None:
    if not any(said_words(clip.text) for clip in clips):
        notes.append(
            Note(
                "Words are judged on sentences of the demo corpus only, a closed set of words; "
                "these texts are others."
            )
        )
        return None
    try:
        return ClosedSetRecogniser([SLOTS[slot] + HELD_OUT_SLOTS[slot] for slot in SLOTS])
    except DataError:
        raise
    except MyXTTSError as error:  # the extra is not installed
        notes.append(Note("Words are not judged: pocketsphinx is not installed.", error.remedy))
        return None


def _judge_clip(
    synthesizer: Synthesizer, judge: _Judge, clip: SpokenClip, voice: HeardVoice, *, seed: int
) -> tuple[ClipResult, Shown]:
    original = _read(clip.path)
    sound = analyse(original)
    began = time.perf_counter()
    (copy,) = synthesizer.vocoder([sound.mel])
    copied = time.perf_counter()
    (speech,) = synthesizer.perform([clip.text], voice=voice, language=clip.language, seed=seed)
    spoke = time.perf_counter()
    waves = {ORIGINAL: original, COPY: copy, SYNTHESIS: speech.wave}
    sounds = {ORIGINAL: sound, COPY: analyse(copy), SYNTHESIS: analyse(speech.wave)}
    marks = {
        column: judge.marks(waves[column], each, clip, compare(each, sound))
        for column, each in sounds.items()
    }
    rate = synthesizer.sample_rate
    result = ClipResult(
        clip=clip,
        words=said_words(clip.text),
        marks=marks,
        seconds={column: len(wave) / rate for column, wave in waves.items()},
        took_s={COPY: copied - began, SYNTHESIS: spoke - copied},
    )
    return result, Shown(clip, waves, sounds, speech.alignment, speech.symbols)


def _read(path: Path) -> Floats:
    wave: Floats = decode(path).astype(np.float32) / np.float32(32768.0)
    return wave


def _time_to_first_audio(
    synthesizer: Synthesizer, clips: Sequence[SpokenClip], clones: Mapping[str, HeardVoice]
) -> float:
    """Seconds from the text to its first sentence, in a voice already listened to."""
    times = []
    for clip in clips[:NUM_STREAMS]:
        began = time.perf_counter()
        next(synthesizer.stream(clip.text, voice=clones[clip.speaker], language=clip.language))
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def _choose_shown(clips: Sequence[SpokenClip]) -> list[SpokenClip]:
    """A few clips: of different voices first."""
    seen: set[str] = set()
    first: list[SpokenClip] = []
    again: list[SpokenClip] = []
    for clip in clips:
        (again if clip.speaker in seen else first).append(clip)
        seen.add(clip.speaker)
    return [*first, *again][:MAX_SHOWN]
