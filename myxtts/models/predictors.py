"""How long each token lasts, and how the voice's pitch moves. Shapes: B batch, L length."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.layers import Composite, Dense, Drop, FilmBlock


class Predictor(Composite):
    """A few blocks and a projection: [B, L, C] to [B, L, outputs] in float32."""

    def __init__(self, width: int, *, outputs: int, blocks: int = 2, **layer: Any) -> None:
        super().__init__(autocast=False, **layer)  # `out` keeps its float32
        self.project = Dense(width, name="project")
        self.blocks = [FilmBlock(width, dilation=2**i, name=f"block{i}") for i in range(blocks)]
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5, name="norm")
        self.out = Dense(outputs, dtype="float32", name="out")

    def call(self, x: tf.Tensor, voice: tf.Tensor, mask: tf.Tensor, drop: Drop = None) -> tf.Tensor:
        """Predict from the hidden states and the voice."""
        x = self.project(x)
        for block in self.blocks:
            x = block(x, voice, mask, drop=drop)
        return self.out(self.norm(x))
