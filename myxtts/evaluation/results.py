"""What an evaluation found: marks of every clip, and the numbers they come to."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.evaluation.held_out import SpokenClip
from myxtts.evaluation.pitch import Sound

Column = Literal["original", "vocoder copy", "synthesis"]
ORIGINAL: Column = "original"
COPY: Column = "vocoder copy"
SYNTHESIS: Column = "synthesis"
COLUMNS: tuple[Column, ...] = (ORIGINAL, COPY, SYNTHESIS)

Unit = Literal["share", "dB", "factor", "s"]


class Marks(NamedTuple):
    """One audio of a clip, measured against the original; None or NaN: not measured."""

    words: float | None  # share of the words heard in their places
    nearest: str | None  # the voice it is closest to
    cepstral_db: float
    pitch_error: float
    contour_error: float
    voicing_error: float


class Note(NamedTuple):
    """What was not measured, and why."""

    text: str
    remedy: str = ""


@dataclass(frozen=True)
class ClipResult:
    """One clip: its marks as recorded, as copied by the vocoder, and as spoken by the model."""

    clip: SpokenClip
    words: str | None  # "trained", "unseen", or a free text
    marks: Mapping[Column, Marks]
    seconds: Mapping[Column, float]  # of audio
    took_s: Mapping[Column, float]  # to make it


@dataclass(frozen=True)
class Shown:
    """A clip to look at and listen to."""

    clip: SpokenClip
    waves: Mapping[Column, npt.NDArray[np.float32]]
    sounds: Mapping[Column, Sound]
    alignment: npt.NDArray[np.float32]  # of the synthesis, [T, F]
    symbols: tuple[str, ...]


class Measure(NamedTuple):
    """A row of the table."""

    name: str
    unit: Unit
    of: Callable[[Sequence[ClipResult], Column], float | None]
    meaning: str


def _over_clips(
    mark: Callable[[ClipResult, Marks], float | None],
    average: Callable[[Sequence[float]], float] = statistics.fmean,
) -> Callable[[Sequence[ClipResult], Column], float | None]:
    """The average of a mark over the clips that have it."""

    def measure(clips: Sequence[ClipResult], column: Column) -> float | None:
        marks = (mark(clip, clip.marks[column]) for clip in clips)
        known = [value for value in marks if value is not None and np.isfinite(value)]
        return average(known) if known else None

    return measure


def _is_matched(clip: ClipResult, marks: Marks) -> float | None:
    return None if marks.nearest is None else float(marks.nearest == clip.clip.speaker)


def _real_time_factor(clips: Sequence[ClipResult], column: Column) -> float | None:
    if any(column not in clip.took_s for clip in clips):
        return None
    return sum(clip.took_s[column] for clip in clips) / sum(clip.seconds[column] for clip in clips)


MEASURES = (
    Measure(
        "words understood, trained",
        "share",
        _over_clips(lambda clip, marks: marks.words if clip.words == "trained" else None),
        "words heard in their places by pocketsphinx, out of 32 a place; words of the training",
    ),
    Measure(
        "words understood, unseen",
        "share",
        _over_clips(lambda clip, marks: marks.words if clip.words == "unseen" else None),
        "the same with words that training never said",
    ),
    Measure(
        "cepstral distortion",
        "dB",
        _over_clips(lambda _, marks: marks.cepstral_db),
        "how far the spectrum is from the original's; mean over frames paired by time warping",
    ),
    Measure(
        "pitch error",
        "share",
        _over_clips(lambda _, marks: marks.pitch_error, statistics.median),
        "a clip's median pitch against the original's; median over clips",
    ),
    Measure(
        "pitch contour error",
        "share",
        _over_clips(lambda _, marks: marks.contour_error),
        "frame by frame, where both are voiced; another melody is not always a worse one",
    ),
    Measure(
        "voicing error",
        "share",
        _over_clips(lambda _, marks: marks.voicing_error),
        "frames voiced in one of the two only",
    ),
    Measure(
        "voice match",
        "share",
        _over_clips(_is_matched),
        "clips whose nearest voice, by pitch and average spectrum, is the speaker's own",
    ),
    Measure(
        "real-time factor",
        "factor",
        _real_time_factor,
        "seconds of work for a second of audio on this machine's CPU, one text at a time",
    ),
)
WORDS = "words understood"
# From this share of the words understood in the recordings on.
VERDICTS = (
    (0.95, "It is understood about as well as the recordings."),
    (0.80, "Most of it is understood; longer training or more recordings may bring the rest."),
    (0.0, "Much of it is not understood: train it longer, on more recordings, or from a voice."),
)
NOT_HEARD = "How well it is understood was not measured; listen, and compare the distortions."
FIRST_AUDIO = "time to first audio"
FIRST_AUDIO_MEANING = (
    "from a text to the audio of its first sentence, in a voice already listened to"
)


@dataclass(frozen=True)
class Evaluation:
    """All results; the tables are made of them."""

    clips: tuple[ClipResult, ...]
    voices: tuple[str, ...]  # all that a clip may be mistaken for
    first_audio_s: float
    shown: tuple[Shown, ...]
    notes: tuple[Note, ...]

    def rows(self) -> list[tuple[Measure, dict[Column, float | None]]]:
        """Every measure with a number in some column."""
        rows = [(m, {column: m.of(self.clips, column) for column in COLUMNS}) for m in MEASURES]
        first = Measure(FIRST_AUDIO, "s", lambda clips, column: None, FIRST_AUDIO_MEANING)
        rows.append((first, {ORIGINAL: None, COPY: None, SYNTHESIS: self.first_audio_s}))
        return [(m, values) for m, values in rows if any(v is not None for v in values.values())]

    def verdict(self) -> str:
        """Good or bad in a sentence, by the words understood beside the recordings' own."""
        compared = []
        for measure, values in self.rows():
            said, heard = values[SYNTHESIS], values[ORIGINAL]
            if measure.name.startswith(WORDS) and said is not None and heard:
                compared.append(said / heard)
        if not compared:
            return NOT_HEARD
        share = min(compared)  # what it never heard in training is the harder half
        return next(sentence for least, sentence in VERDICTS if share >= least)

    def groups(self, key: Callable[[ClipResult], str]) -> dict[str, list[ClipResult]]:
        """The clips by what they have in common."""
        groups: dict[str, list[ClipResult]] = {}
        for clip in self.clips:
            groups.setdefault(key(clip), []).append(clip)
        return dict(sorted(groups.items()))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "clips": len(self.clips),
            "voices": len(self.voices),
            "measures": {
                measure.name: {"unit": measure.unit, **values} for measure, values in self.rows()
            },
            "notes": [" ".join(filter(None, note)) for note in self.notes],
            "by_clip": [
                {
                    "audio": str(clip.clip.path),
                    "list": clip.clip.source,
                    "text": clip.clip.text,
                    "speaker": clip.clip.speaker,
                    "language": clip.clip.language,
                    "words": clip.words,
                    "seconds": dict(clip.seconds),
                    "took_s": dict(clip.took_s),
                    "marks": {column: _plain(marks) for column, marks in clip.marks.items()},
                }
                for clip in self.clips
            ],
        }


def _plain(marks: Marks) -> dict[str, Any]:
    """NaN, which is no JSON, as null."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in marks._asdict().items()
    }


def format_value(value: float | None, unit: Unit) -> str:
    """A number as tables show it."""
    if value is None:
        return "–"
    return {
        # Of a handful of clips tenths of a per cent would be made up; small errors need them.
        "share": f"{100 * value:.0f}%" if value >= 0.1 else f"{100 * value:.1f}%",
        "dB": f"{value:.2f} dB",
        "factor": f"{value:.3f}",
        "s": f"{value:.2f} s",
    }[unit]
