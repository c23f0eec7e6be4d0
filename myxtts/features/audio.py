"""The one definition of our audio: its rate, its frames and its mel bands. Loads no TensorFlow."""

from __future__ import annotations

from typing import Any

SAMPLE_RATE = 22_050
NUM_MELS = 80
FFT = 1024
HOP = 256
# Of log-mels, over LJ Speech and the built-in corpus. Fixed, so that a model fits any data later.
MEL_MEAN, MEL_DEVIATION = -5.5, 2.2
REFERENCE_SECONDS = 3.0  # of another clip, from which a voice is heard in training
REFERENCE_SAMPLES = int(REFERENCE_SECONDS * SAMPLE_RATE)
REFERENCE_FRAMES = 1 + REFERENCE_SAMPLES // HOP


def num_frames(samples: Any) -> Any:
    """Frames of a clip of so many samples, centred as librosa centres them."""
    return 1 + samples // HOP


def bucket_samples(frames: int) -> int:
    """The samples of the longest clip that has so many frames."""
    return frames * HOP - 1
