"""What is heard in clips when one listens to them: does the text fit, who speaks, how it echoes.

Loads the base voice. Shapes: F frames, M mels, S states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from myxtts.data.waves import UNREADABLE, decode
from myxtts.features.audio import HOP, REFERENCE_SAMPLES, SAMPLE_RATE, num_frames
from myxtts.recordings.aligner import Piece, make_states, sounding
from myxtts.recordings.audio import LEVEL_S, levels
from myxtts.recordings.best_path import best_path
from myxtts.recordings.listener import LONGEST, Floats, Listener, Wave, base_listener

SPEECH_DB = 30.0  # below the loudest: still speech
DECAY_DB = 25.0  # how far sound must fall for its speed to be told
FINGERPRINT = 12  # moments of a clip that are compared
LEAST_SPREAD = 0.2
OTHERS = 3  # texts of clips as long as one, to compare its own with
PITCH_WEIGHT = 2.0  # against the shape of the spectrum, for telling people apart
_NO_WAY = -1e3


@dataclass(frozen=True)
class HeardClip:
    """One clip, listened to."""

    number: int  # of the clips given
    # How much better its text fits than other clips', per frame and band; None without others.
    fit: float | None
    voice: Floats  # who speaks: a vector, comparable with those of other clips
    echo: float | None  # seconds until sound has died away by 60 dB; None where it never fell
    fingerprint: Floats


@dataclass
class _Clip:
    number: int
    mels: Floats
    quiet: npt.NDArray[np.bool_]
    ids: list[int]
    voice: Floats
    echo: float | None


class ClipListener:
    """Listens to the clips of one speaker at a time."""

    def __init__(self, listener: Listener | None = None) -> None:
        self._listener = listener or base_listener()

    def hear(
        self,
        paths: Sequence[Path],
        texts: Sequence[str],
        language: str,
        *,
        on_clip: Callable[[], None] = lambda: None,
    ) -> list[HeardClip]:
        """Clips of one speaker and language; those that cannot be read are left out."""
        pieces: list[Wave] = []
        clips: list[_Clip] = []
        for number, (path, text) in enumerate(zip(paths, texts, strict=True)):
            try:
                wave = decode(path)
            except UNREADABLE:
                continue
            clip = self._listen(number, wave, self._listener.tokenizer.encode(text, language))
            clips.append(clip)
            pieces.append(_loudest_part(wave))
            on_clip()
        if not clips:
            return []
        fits = self._fits(clips, language, pieces)
        return [
            HeardClip(clip.number, fit, clip.voice, clip.echo, _fingerprint(clip.mels))
            for clip, fit in zip(clips, fits, strict=True)
        ]

    def _listen(self, number: int, wave: Wave, ids: list[int]) -> _Clip:
        mels = self._listener.hear(wave)
        level = levels(wave)
        places = np.minimum(
            (np.arange(num_frames(len(wave))) * HOP / SAMPLE_RATE / LEVEL_S).astype(int),
            len(level) - 1,
        )
        quiet = level[places] < level.max() - SPEECH_DB
        part = _loudest_part(wave)
        voice = self._listener.voice_of([part])
        timbre = mels[~quiet].mean(0)
        pitch = float(np.asarray(voice.log_pitch)[0])
        vector = np.concatenate([_cepstrum(timbre), [PITCH_WEIGHT * pitch]]).astype(np.float32)
        return _Clip(number, mels, quiet, ids[:LONGEST], vector, decay_time(level))

    def _fits(self, clips: list[_Clip], language: str, pieces: list[Wave]) -> list[float | None]:
        """How much better each clip's own text fits than the best of those of clips as long."""
        is_sound = sounding(self._listener.tokenizer.symbols)
        means = self._listener.expect(
            [clip.ids for clip in clips], language, self._listener.voice_of(pieces)
        )
        states = [
            make_states([Piece(clip.ids, [0] * len(clip.ids))], [mean], is_sound)[:2]
            for clip, mean in zip(clips, means, strict=True)
        ]
        silences = [
            clip.mels[clip.quiet].mean(0) if clip.quiet.any() else clip.mels.min(0)
            for clip in clips
        ]
        residuals = []
        for clip, (mean, optional), silence in zip(clips, states, silences, strict=True):
            found = best_path(clip.mels, mean, optional, silence)
            if found is not None:
                said = ~optional[found[0]]
                residuals.append(clip.mels[said] - mean[found[0][said]])
        fits: list[float | None] = [None] * len(clips)
        if not residuals:
            return fits
        off = np.concatenate(residuals)
        shift, spread = off.mean(0), np.maximum(off.std(0), LEAST_SPREAD)
        order = sorted(range(len(clips)), key=lambda i: len(clips[i].mels))
        for place, i in enumerate(order):
            near = order[max(0, place - 2 * OTHERS) : place + 2 * OTHERS + 1]
            near = [j for j in near if clips[j].ids != clips[i].ids]  # the same words say nothing
            far = [abs(len(clips[j].mels) - len(clips[i].mels)) for j in near]
            others = [near[k] for k in np.argsort(far, kind="stable")[:OTHERS]]
            mels, silence = (clips[i].mels - shift) / spread, (silences[i] - shift) / spread
            own, *foreign = (_score(mels, states[j], spread, silence) for j in (i, *others))
            if foreign:
                fits[i] = (own - max(foreign)) / mels.shape[1]
        return fits


def _score(
    mels: Floats,
    states: tuple[Floats, npt.NDArray[np.bool_]],
    spread: Floats,
    silence: Floats,
) -> float:
    """The mean log-likelihood of a clip's frames, if it said a text; very low if it cannot."""
    means, optional = states
    found = best_path(mels, means / spread, optional, silence)
    return _NO_WAY if found is None else float(found[1].mean())


def decay_time(level: Floats) -> float | None:
    """Seconds in which sound dies away by 60 dB, by how quickly it falls where speech stops.

    The median of the falls of 25 dB: a dry room's are the speaker's own, a hall's are the hall's.
    """
    found: list[float] = []
    top = float(level.max())
    start = 0
    while start < len(level) - 1:
        end = start
        while end + 1 < len(level) and level[end + 1] <= level[end] + 0.5:
            end += 1
        fall = float(level[start] - level[end])
        if fall >= DECAY_DB and level[start] > top - SPEECH_DB:
            inside = level[start : end + 1]
            # Between 5 dB below its beginning and 20: neither the voice's end nor the noise.
            part = np.flatnonzero((inside < inside[0] - 5.0) & (inside > inside[0] - 25.0))
            if len(part) >= 4:
                slope = np.polyfit(part * LEVEL_S, inside[part], 1)[0]
                if slope < 0:
                    found.append(-60.0 / float(slope))
        start = end + 1
    return float(np.median(found)) if found else None


def _loudest_part(wave: Wave) -> Wave:
    """The part of a reference's length that holds most sound."""
    if len(wave) <= REFERENCE_SAMPLES:
        return wave
    steps = np.cumsum(np.square(wave.astype(np.float64)))
    starts = np.arange(0, len(wave) - REFERENCE_SAMPLES, HOP)
    best = int(starts[np.argmax(steps[starts + REFERENCE_SAMPLES] - steps[starts])])
    return wave[best : best + REFERENCE_SAMPLES]


def _cepstrum(spectrum: Floats) -> Floats:
    """A spectrum's shape in few numbers: cosines across its bands, without its level."""
    bands = np.arange(len(spectrum)) + 0.5
    waves = np.cos(np.pi / len(spectrum) * bands[None] * np.arange(1, 17)[:, None])
    return np.asarray(waves @ spectrum / len(spectrum), np.float32)


def _fingerprint(mels: Floats) -> Floats:
    """A clip in few numbers that survive other formats and levels: when which bands sound."""
    parts = np.array_split(mels, FINGERPRINT)
    pooled = np.stack([part.mean(0) if len(part) else mels.mean(0) for part in parts])
    pooled = pooled - pooled.mean(0)
    return np.asarray(pooled / max(float(np.linalg.norm(pooled)), 1e-6), np.float32).ravel()
