"""Writes audio as it is made, chunk by chunk: a file is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import soundfile

from myxtts.errors import MyXTTSError

FORMATS = {".wav": "WAV", ".flac": "FLAC"}


def write_audio(
    path: Path, chunks: Iterable[npt.NDArray[np.float32]], *, sample_rate: int
) -> float:
    """Write chunks as 16-bit WAV or FLAC, by the name's ending; returns the seconds written."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with partial.open("wb+") as file:
            seconds = write_stream(
                file, chunks, sample_rate=sample_rate, kind=FORMATS[path.suffix.lower()]
            )
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except (OSError, soundfile.SoundFileError) as error:
        raise MyXTTSError(
            f"{path} cannot be written: {error}", "free some space, or another --output"
        ) from error
    finally:
        partial.unlink(missing_ok=True)  # renamed by now, unless something failed
    return seconds


def write_stream(
    file: BinaryIO,
    chunks: Iterable[npt.NDArray[np.float32]],
    *,
    sample_rate: int,
    kind: str = "WAV",
) -> float:
    """Write chunks into an open file that can be sought in; returns the seconds written."""
    samples = 0
    with soundfile.SoundFile(
        file, "w", samplerate=sample_rate, channels=1, format=kind, subtype="PCM_16"
    ) as sound:
        for chunk in chunks:
            # Rounded here: libsndfile rounds for WAV and cuts off for FLAC.
            sound.write(np.rint(chunk.clip(-1.0, 1.0) * 32767.0).astype(np.int16))
            samples += len(chunk)
    return samples / sample_rate
