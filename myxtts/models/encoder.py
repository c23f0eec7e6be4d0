"""What is said: symbols and language become one hidden vector and one mean spectrum per token.

Shapes: B batch, T text, C channels.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.layers import Composite, Drop, FilmBlock, Lookup, SelfAttention


class TextEncoder(Composite):
    """Embeds symbols and language; convolutions with one attention layer in their middle."""

    def __init__(
        self, width: int, *, blocks: int, symbols: int, languages: int, **layer: Any
    ) -> None:
        super().__init__(**layer)
        self.symbols = Lookup(symbols, width, name="symbols")
        self.languages = Lookup(languages, width, name="languages")
        layers = [FilmBlock(width, name=f"block{i}") for i in range(blocks)]
        self.first, self.second = layers[: blocks // 2], layers[blocks // 2 :]
        self.attention = SelfAttention(width, name="attention")
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5, name="norm")

    def call(
        self,
        tokens: tf.Tensor,
        languages: tf.Tensor,
        voice: tf.Tensor,
        mask: tf.Tensor,
        drop: Drop = None,
    ) -> tf.Tensor:
        """Symbol ids [B, T] and language ids [B] to [B, T, C]."""
        x = self.symbols(tokens) + self.languages(languages)[:, None, :]
        for block in self.first:
            x = block(x, voice, mask, drop=drop)
        x = self.attention(x, mask)
        for block in self.second:
            x = block(x, voice, mask, drop=drop)
        return self.norm(x) * tf.cast(mask, x.dtype)
