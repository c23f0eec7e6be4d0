"""A small speech-like workload that the validators and the demo run through the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from myxtts.features import mels
from myxtts.features.audio import NUM_MELS, SAMPLE_RATE


def synthetic_waveforms(num_batches: int, *, batch_size: int, seed: int = 0) -> Iterator[Any]:
    """Batches of one-second hums of random pitch, as 16-bit audio: what a host stage would send."""
    random = np.random.default_rng(seed)
    for _ in range(num_batches):
        pitches = random.uniform(80, 300, size=batch_size)
        yield {"waveforms": hums(pitches, SAMPLE_RATE, random, noise=0.05)}


def hums(pitches: Any, samples: int, random: np.random.Generator, *, noise: float) -> Any:
    """A hum of each pitch, in noise, as 16-bit audio."""
    turns = np.arange(samples) / SAMPLE_RATE * np.asarray(pitches)[:, None]
    waves = sum(np.sin(2 * np.pi * k * turns) / k for k in (1, 2, 3))
    noisy = waves / 2.5 + random.normal(0, noise, size=turns.shape)
    return (noisy * 16_000).clip(-32768, 32767).astype(np.int16)


@tf.function  # type: ignore[untyped-decorator]
def log_mels(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The data device's work: 16-bit waveforms to log-mel frames."""
    waveforms = tf.cast(batch["waveforms"], tf.float32) / 32768.0
    rows, samples = waveforms.shape
    return {"mels": mels.log_mel(waveforms, tf.fill([rows], samples))}


class ProbeModel(keras.Model):
    """Predicts each log-mel frame from the ones before it: small, real, and it learns."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.layers_in_order = [
            keras.layers.Conv1D(width, 5, padding="causal", activation="silu"),
            keras.layers.Conv1D(width, 5, padding="causal", activation="silu"),
            keras.layers.Conv1D(NUM_MELS, 5, padding="causal"),
        ]

    def call(self, mels: tf.Tensor) -> tf.Tensor:
        """Predict the next frame at every position."""
        for layer in self.layers_in_order:
            mels = layer(mels)
        return mels

    def compute_losses(
        self, batch: dict[str, tf.Tensor], *, step: tf.Tensor, training: bool
    ) -> dict[str, tf.Tensor]:
        """Mean absolute error of the next frame."""
        mels = batch["mels"]
        return {"loss": tf.reduce_mean(tf.abs(self(mels[:, :-1]) - mels[:, 1:]))}
