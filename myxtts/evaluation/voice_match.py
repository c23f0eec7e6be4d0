"""Whose voice is it? Voices compared by pitch and average spectrum, ranked nearest first.

Nothing here has been trained, so a model cannot have learned to please it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.evaluation.pitch import Sound, median_log_pitch

QUIET = 4.6  # frames this far (in natural-log amplitude: 40 dB) below the loudest are pauses
UNVOICED_LOG_PITCH = float(np.log(60.0))  # of a wave without any pitch: below every voice


class VoiceProfile(NamedTuple):
    """What tells voices apart without knowing the words."""

    median_log_pitch: float  # natural log of Hz
    spectrum: npt.NDArray[np.float32]  # [M], average log-mel of speech frames, level taken out


def profile_of(sound: Sound) -> VoiceProfile:
    """The profile of a wave that was analysed."""
    loudness = np.logaddexp.reduce(sound.mel, axis=1)
    spoken = sound.mel[loudness > loudness.max() - QUIET]
    spectrum = np.maximum(spoken, spoken.max() - 2 * QUIET).mean(axis=0)
    log_pitch = median_log_pitch(sound.pitch)
    return VoiceProfile(
        UNVOICED_LOG_PITCH if np.isnan(log_pitch) else log_pitch,
        (spectrum - spectrum.mean()).astype(np.float32),
    )


def average_profile(profiles: Sequence[VoiceProfile]) -> VoiceProfile:
    """The profile of several waves of one voice."""
    return VoiceProfile(
        float(np.mean([profile.median_log_pitch for profile in profiles])),
        np.mean([profile.spectrum for profile in profiles], axis=0),
    )


def distances(profile: VoiceProfile, candidates: Mapping[str, VoiceProfile]) -> dict[str, float]:
    """How far each candidate is; pitch and spectrum count the same, in units of their spread."""
    pitches = np.array([candidate.median_log_pitch for candidate in candidates.values()])
    spectra = np.array([candidate.spectrum for candidate in candidates.values()])
    off_pitch = (pitches - profile.median_log_pitch) / max(pitches.std(), 1e-3)
    off_spectrum = np.mean((spectra - profile.spectrum) ** 2, axis=1)
    far = np.sqrt(off_pitch**2 + off_spectrum / max(spectra.var(axis=0).mean(), 1e-3))
    return dict(zip(candidates, far.tolist(), strict=True))


def rank(profile: VoiceProfile, candidates: Mapping[str, VoiceProfile]) -> list[str]:
    """The candidates' names, nearest first."""
    far = distances(profile, candidates)
    return sorted(far, key=far.__getitem__)
