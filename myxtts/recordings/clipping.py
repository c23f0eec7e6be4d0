"""Makes clips of one recording: as it is, by its text, by its subtitles, or by its pauses alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from myxtts.errors import DataError
from myxtts.features.audio import HOP, SAMPLE_RATE
from myxtts.recordings.audio import Floats, Wave, length_of, levels, read_recording
from myxtts.recordings.cutting import MOST_S, Cut, Unit, cut_units, speech_units
from myxtts.recordings.pauses import speech_frames
from myxtts.recordings.sources import Cue, Recording
from myxtts.text import espeak
from myxtts.text.scripts import check_script

if TYPE_CHECKING:
    from myxtts.recordings.aligner import Aligner, TimedWord

STRETCH_S = 60.0  # of subtitles that are aligned at once
STRETCH_GAP_S = 2.0  # between cues: another stretch
CUE_REACH_S = 0.6  # by how much the times of subtitles may be off
FASTEST = 30.0  # letters a second: nobody speaks faster
MOST_UNWRITTEN_S = 1.5  # of speech between the words of a clip
NO_FIT = "the text does not fit what is said"
NO_FIT_REMEDY = "check the text of this part; it was left out"


@dataclass(frozen=True)
class NewClip:
    """A clip to be written; without a wave it is the whole file as it is."""

    start: float
    end: float | None
    text: str
    seconds: float
    wave: Wave | None = None
    speaker: str = ""


@dataclass
class Clippings:
    """The clips of a recording, and what of it was left out, with the reason and the remedy."""

    seconds: float
    clips: list[NewClip] = field(default_factory=list)
    left_out: list[tuple[float, float, str, str]] = field(default_factory=list)


OnShare = Callable[[float, float], None]  # what share of a recording is done, and its seconds


class Clipper:
    """Cuts recordings; what it needs for that (models) is loaded when it is first needed."""

    def __init__(self) -> None:
        self._aligner: Aligner | None = None

    def clip(
        self, recording: Recording, *, on_share: OnShare = lambda share, seconds: None
    ) -> Clippings:
        """The clips of a recording; `on_share` hears how much of it is done."""
        seconds = length_of(recording.path)
        made = Clippings(seconds)
        if not recording.cues and seconds <= MOST_S:
            text = " ".join(recording.text.split())
            made.clips.append(NewClip(0.0, None, text, seconds))
            return made
        wave = read_recording(recording.path)
        made.seconds = len(wave) / SAMPLE_RATE
        speech = speech_frames(wave, on_share=lambda share: on_share(0.8 * share, seconds))
        if not speech.any():
            made.left_out.append((0.0, seconds, "nobody speaks", "leave it out"))
            return made
        level = levels(wave)
        if recording.cues:
            self._by_cues(recording, wave, speech, level, made)
        elif recording.text.strip():
            words = self._align(wave, recording.text, recording.language, speech)
            if words is None:
                made.left_out.append((0.0, seconds, NO_FIT, "give it its own text"))
            else:
                _by_words(words, recording.language, wave, speech, level, made)
        else:
            for cut in cut_units(speech_units(speech, level), level):
                made.clips.append(_take(wave, cut.start, cut.end, ""))
        return made

    def _by_cues(
        self,
        recording: Recording,
        wave: Wave,
        speech: npt.NDArray[np.bool_],
        level: Floats,
        made: Clippings,
    ) -> None:
        """Words are looked for near where the subtitles put them; speakers are never mixed."""
        for stretch in _stretches(recording.cues):
            first = max(0.0, stretch[0].start - CUE_REACH_S)
            last = min(made.seconds, stretch[-1].end + CUE_REACH_S)
            if last - first < 0.3:
                continue
            text = " ".join(cue.text for cue in stretch)
            part = slice(int(first * SAMPLE_RATE), int(last * SAMPLE_RATE))
            inside = speech[int(first * SAMPLE_RATE / HOP) : int(last * SAMPLE_RATE / HOP) + 1]
            words = self._align(wave[part], text, recording.language, inside)
            if words is None:
                made.left_out.append((first, last, NO_FIT, NO_FIT_REMEDY))
                continue
            moved = [word.later(first) for word in words]
            _by_words(
                moved, recording.language, wave, speech, level, made, speaker=stretch[0].speaker
            )

    def _align(
        self, wave: Wave, text: str, language: str, speech: npt.NDArray[np.bool_]
    ) -> list[TimedWord] | None:
        from myxtts.recordings.aligner import Aligner, split_words

        if self._aligner is None:
            if not espeak.is_available():
                raise EspeakMissing(
                    "Aligning a text with a recording needs espeak-ng, which is not installed.",
                    espeak.INSTALL_REMEDY,
                )
            self._aligner = Aligner()
        check_script([text], language)
        return self._aligner.align(wave, split_words(text, language), language, speech=speech)


class EspeakMissing(DataError):  # noqa: N818 - what is missing, not what went wrong
    """Not a fault of one recording: it ends the import."""


def _stretches(cues: Sequence[Cue]) -> list[list[Cue]]:
    stretches: list[list[Cue]] = []
    for cue in cues:
        here = stretches[-1] if stretches else []
        if (
            here
            and cue.start - here[-1].end <= STRETCH_GAP_S
            and cue.end - here[0].start <= STRETCH_S
            and cue.speaker == here[0].speaker
        ):
            here.append(cue)
        else:
            stretches.append([cue])
    return stretches


def _by_words(
    words: Sequence[TimedWord],
    language: str,
    wave: Wave,
    speech: npt.NDArray[np.bool_],
    level: Floats,
    made: Clippings,
    *,
    speaker: str = "",
) -> None:
    from myxtts.recordings.aligner import join_words

    for cut in cut_units([Unit(word.start, word.end) for word in words], level):
        said = words[cut.first : cut.last]
        text = join_words([word.text for word in said], language)
        problem = _misfit(said, cut, text, speech)
        if problem:
            made.left_out.append((cut.start, cut.end, problem, NO_FIT_REMEDY))
        else:
            made.clips.append(_take(wave, cut.start, cut.end, text, speaker))


def _misfit(words: Sequence[TimedWord], cut: Cut, text: str, speech: npt.NDArray[np.bool_]) -> str:
    """Why the words of a clip cannot be what is said in it, or nothing."""
    seconds = words[-1].end - words[0].start
    if cut.end - cut.start > MOST_S + 0.01:
        return "a word seems to last for many seconds"
    if sum(map(str.isalnum, text)) > FASTEST * max(seconds, 0.1):
        return NO_FIT
    unwritten = 0.0
    for before, behind in pairwise(words):
        frames = slice(int(before.end * SAMPLE_RATE / HOP), int(behind.start * SAMPLE_RATE / HOP))
        unwritten = max(unwritten, float(speech[frames].sum()) * HOP / SAMPLE_RATE)
    return "somebody speaks and the text does not say what" if unwritten > MOST_UNWRITTEN_S else ""


def _take(wave: Wave, start: float, end: float, text: str, speaker: str = "") -> NewClip:
    samples = wave[round(start * SAMPLE_RATE) : round(end * SAMPLE_RATE)]
    return NewClip(
        round(start, 3), round(end, 3), text, len(samples) / SAMPLE_RATE, samples, speaker
    )
