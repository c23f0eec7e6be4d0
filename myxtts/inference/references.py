"""Recordings of a speaker as the model listens to them: a batch of pieces of a few seconds each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from myxtts.data.audio import SAMPLE_RATE
from myxtts.data.loader import REFERENCE_SECONDS
from myxtts.data.store import decode
from myxtts.errors import DataError

LEAST_SECONDS = 1.0  # of all recordings together
SILENCE = 0.001  # of full scale, root mean square

Waves = npt.NDArray[np.int16]


def read_references(paths: Sequence[str | Path]) -> tuple[Waves, npt.NDArray[np.int32]]:
    """Recordings of any format and rate, cut into pieces as long as training's: waves, lengths."""
    if not paths:
        raise DataError("There is no reference recording.", "--reference FILE.wav")
    longest = int(REFERENCE_SECONDS * SAMPLE_RATE)
    pieces: list[Waves] = []
    for path in paths:
        wave = _read(Path(path))
        count = max(1, -(-len(wave) // longest))
        pieces += np.array_split(wave, count)
    seconds = sum(map(len, pieces)) / SAMPLE_RATE
    if seconds < LEAST_SECONDS:
        raise DataError(
            f"The reference lasts {seconds:.1f} s.",
            f"at least {LEAST_SECONDS:.0f} s of speech; 3 s and more is better",
        )
    waves = np.zeros([len(pieces), longest], np.int16)
    for row, piece in enumerate(pieces):
        waves[row, : len(piece)] = piece
    return waves, np.array([len(piece) for piece in pieces], np.int32)


def _read(path: Path) -> Waves:
    try:
        wave = decode(path.expanduser())
    except (OSError, soundfile.SoundFileError) as error:
        raise DataError(
            f"The reference {path} cannot be read: {error}", "a WAV, FLAC, OGG or MP3 file"
        ) from error
    level = np.sqrt(np.mean(np.square(wave / 32768.0))) if len(wave) else 0.0
    if level < SILENCE:
        raise DataError(f"The reference {path} is silent.", "a recording of the speaker's voice")
    return wave
