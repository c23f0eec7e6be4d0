"""Recordings of a speaker as the model listens to them: pieces of a few seconds each.

Needs no TensorFlow, so that a bad recording is refused before anything heavy starts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from myxtts.data.mono import channels_cancel, to_mono
from myxtts.errors import DataError
from myxtts.features.audio import REFERENCE_SAMPLES, SAMPLE_RATE

log = logging.getLogger(__name__)

LEAST_SECONDS = 2.0  # of all recordings together
SILENCE = 0.001  # of full scale, root mean square
LOUDEST = 2.0  # of full scale: beyond it floats are surely integers that nobody scaled

Recording = str | Path | tuple[npt.ArrayLike, int]  # a file, or samples with their rate
Waves = npt.NDArray[np.int16]


def read_references(recordings: Recording | Sequence[Recording]) -> list[Waves]:
    """Recordings of any format, rate and length, cut into pieces as long as training's.

    Samples are [S] or [S, channels]: floats within ±1, or integers of any width.
    """
    given = _as_list(recordings)
    if not given:
        raise DataError("There is no reference recording.", "--reference FILE.wav")
    pieces: list[Waves] = []
    for number, recording in enumerate(given, start=1):
        wave, name = _read(recording, number)
        if _level(wave) < SILENCE:
            raise DataError(
                f"The reference {name} is silent.", "a recording of the speaker's voice"
            )
        parts = np.array_split(wave, max(1, -(-len(wave) // REFERENCE_SAMPLES)))
        pieces += [part for part in parts if _level(part) >= SILENCE]  # a long pause is no voice
    seconds = sum(map(len, pieces)) / SAMPLE_RATE
    if seconds < LEAST_SECONDS:
        whole = "The references together hold" if len(given) > 1 else "The reference holds"
        raise DataError(
            f"{whole} {seconds:.2f} s of sound, and {LEAST_SECONDS:.0f} s are needed.",
            "a longer recording, or several; 6 s and more are better",
        )
    return pieces


def _as_list(recordings: Recording | Sequence[Recording]) -> list[Recording]:
    if isinstance(recordings, str | Path) or (
        isinstance(recordings, tuple)
        and len(recordings) == 2
        and isinstance(recordings[1], int | np.integer)
    ):
        return [recordings]  # a pair whose second is a rate
    return list(recordings)


def _read(recording: Recording, number: int) -> tuple[Waves, str]:
    if isinstance(recording, str | Path):
        return _read_file(Path(recording).expanduser()), str(recording)
    try:
        samples, rate = recording
    except (TypeError, ValueError) as error:
        raise DataError(
            f"Reference {number} is neither a file nor samples with their rate.",
            "a path, or a pair such as (samples, 22050)",
        ) from error
    name = f"number {number}"
    return _convert(np.asarray(samples), rate, name), name


def _read_file(path: Path) -> Waves:
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "does not exist"
        raise DataError(f"The reference {path} {found}.", "the path of a recording")
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.SoundFileError) as error:
        raise DataError(
            f"The reference {path} cannot be read: {error}", "a WAV, FLAC, OGG or MP3 file"
        ) from error
    return _convert(samples, rate, str(path))


def _convert(samples: npt.NDArray[Any], rate: int, name: str) -> Waves:
    """Samples of any kind as mono 16-bit ones at our rate."""
    if samples.ndim not in (1, 2) or samples.dtype.kind not in "fiu" or rate < 1:
        raise DataError(
            f"The reference {name} has the shape {list(samples.shape)}, the type {samples.dtype} "
            f"and the rate {rate}.",
            "samples [S] or [S, channels], floats within ±1 or integers, and samples a second",
        )
    if samples.ndim == 2:
        samples = samples.T if samples.shape[0] < samples.shape[1] else samples
    if samples.dtype.kind in "iu":
        limits = np.iinfo(samples.dtype)
        middle = 0.0 if samples.dtype.kind == "i" else (limits.max + 1) / 2
        wave = (samples.astype(np.float64) - middle) / ((limits.max + 1) - middle)
    else:
        wave = samples.astype(np.float64)
    if not np.isfinite(wave).all() or (wave.size and np.abs(wave).max() > LOUDEST):
        raise DataError(
            f"The reference {name} holds samples that are not finite, or far beyond ±1.",
            "float samples within ±1, or integers as recorded",
        )
    if wave.ndim == 2 and channels_cancel(wave):
        log.warning("The channels of reference %s cancel each other out; one of them is used", name)
    mono = (to_mono(wave) if wave.ndim == 2 else wave).astype(np.float32)
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE)
    converted: Waves = np.clip(np.rint(mono * 32768.0), -32768, 32767).astype(np.int16)
    return converted


def _level(wave: Waves) -> float:
    return float(np.sqrt(np.mean(np.square(wave / 32768.0)))) if len(wave) else 0.0
