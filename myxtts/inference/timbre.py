"""The colour of a voice as its average spectrum, and what is missing of it in what a model says.

A model clones people it never heard only roughly. What it says is therefore moved, band by band, to
the average spectrum of the reference. Tried on six people never heard, with an early base voice: of
18 sayings of digits 0.22 were nearest to their own speaker, of 54, without it and 0.67 with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

QUIET = 4.6  # frames this far (in natural-log amplitude: 40 dB) below the loudest are pauses
USUAL_FRAMES = 40  # half a second
SMOOTHED = 9  # bands: narrower differences are of the words, not of the voice

Floats = npt.NDArray[np.float32]


def speech_spectrum(mels: Sequence[Floats]) -> Floats:
    """The average [M] of log-mels [F, M] over the frames that are speech."""
    mean: Floats = np.concatenate([_speech(mel) for mel in mels]).mean(axis=0)
    return mean


def correction(wanted: Floats, mel: Floats, *, usual: Floats) -> Floats:
    """What to add [M] to a log-mel [F, M] for another average spectrum; loudness stays.

    `usual` is the spectrum of other things said in the same voice: a short line, whose few sounds
    say little of the voice, counts less than those.
    """
    frames = _speech(mel)
    spoken = (frames.sum(axis=0) + USUAL_FRAMES * usual) / (len(frames) + USUAL_FRAMES)
    window = np.hanning(SMOOTHED + 2)[1:-1]
    padded = np.pad(wanted - spoken, SMOOTHED // 2, mode="edge")
    smooth = np.convolve(padded, window / window.sum(), "valid")
    added: Floats = (smooth - smooth.mean()).astype(np.float32)
    return added


def _speech(mel: Floats) -> Floats:
    """The frames that are not pauses, without what is too soft to be heard."""
    loudness = np.logaddexp.reduce(mel, axis=1)
    heard = mel[loudness > loudness.max() - QUIET]
    audible: Floats = np.maximum(heard, heard.max() - 2 * QUIET)
    return audible
