"""How it sounds: frames of hidden text, pitch and place become a mel spectrogram.

Shapes: B batch, F frames, M mels, C channels, D voice. One backbone serves both heads: `regression`
predicts the mel, `flow` the velocity from noise to the mel (conditional flow matching).
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from myxtts.features.audio import NUM_MELS
from myxtts.models.layers import Composite, Dense, Drop, FilmBlock

DILATIONS = (1, 2, 4)


class Decoder(Composite):
    """Residual convolutions over frames, modulated by the voice in every block."""

    def __init__(self, width: int, *, blocks: int, voice: int, flow: bool, **layer: Any) -> None:
        super().__init__(autocast=False, **layer)  # `out` keeps its float32
        self.project = Dense(width, name="project")
        if flow:
            self.time = Dense(voice, activation="silu", name="time")
        self.blocks = [
            FilmBlock(width, dilation=DILATIONS[i % len(DILATIONS)], name=f"block{i}")
            for i in range(blocks)
        ]
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5, name="norm")
        self.out = Dense(NUM_MELS, dtype="float32", kernel_initializer="zeros", name="out")

    def call(
        self,
        frames: tf.Tensor,
        voice: tf.Tensor,
        mask: tf.Tensor,
        time: tf.Tensor | None = None,
        drop: Drop = None,
    ) -> tf.Tensor:
        """[B, F, C] to [B, F, M]; `time` [B] is the flow's, from 0 (noise) to 1 (mel)."""
        if time is not None:
            voice = voice + tf.cast(self.time(_time_features(time)), voice.dtype)
        x = self.project(frames)
        for block in self.blocks:
            x = block(x, voice, mask, drop=drop)
        return self.out(self.norm(x)) * mask


def _time_features(time: tf.Tensor) -> tf.Tensor:
    """Sines and cosines of the flow's time, [B, 16]."""
    angles = time[:, None] * (np.pi * 2.0 ** np.arange(8, dtype=np.float32) / 4.0)
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)
