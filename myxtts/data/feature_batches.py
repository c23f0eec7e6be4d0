"""Data sets that bring their own features: `(text, mels, text lengths, mel lengths)` as a batch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from myxtts.errors import DataError
from myxtts.features.audio import NUM_MELS, REFERENCE_FRAMES


def batch_from_features(batch: Any, *, vocab_size: int) -> dict[str, tf.Tensor]:
    """What the model reads, made of a tuple of features.

    Such a data set tells neither pitch nor speaker: each clip is its own reference, and the model
    learns without a pitch contour.
    """
    if not isinstance(batch, (tuple, list)) or len(batch) != 4:
        raise DataError(
            f"The data set gives {_describe(batch)}, not the four parts of features.",
            "give (text_sequences, mel_spectrograms, text_lengths, mel_lengths), or let MyXTTS "
            "read the recordings: data.train_data",
        )
    tokens, mels, token_lengths, mel_lengths = (tf.convert_to_tensor(part) for part in batch)
    if mels.shape.rank != 3 or mels.shape[2] != NUM_MELS:
        raise DataError(
            f"The mels of the data set have the shape {mels.shape.as_list()}.",
            f"give [batch, frames, {NUM_MELS}]: natural-log mels as myxtts.features.mels.log_mel",
        )
    if tokens.shape.rank != 2:
        raise DataError(
            f"The text of the data set has the shape {tokens.shape.as_list()}.",
            "give [batch, tokens]: symbol ids, padded with 0",
        )
    rows = [part.shape[0] for part in (tokens, mels, token_lengths, mel_lengths)]
    if len(set(rows) - {None}) > 1:
        raise DataError(
            "A batch of the data set has {} texts, {} mels, lengths of {} and {}.".format(*rows),
            "give the same clips in all four parts",
        )
    if tf.executing_eagerly() and (largest := int(tf.reduce_max(tokens))) >= vocab_size:
        raise DataError(
            f"The text of the data set holds the symbol {largest}; the model knows {vocab_size}.",
            f"set model.vocab_size to {largest + 1} or more",
        )
    rows = tf.shape(tokens)[0]
    lengths = tf.cast(mel_lengths, tf.int32)
    references = tf.cast(mels, tf.float32)[:, :REFERENCE_FRAMES]
    silent = tf.zeros(tf.shape(mels)[:2])
    return {
        "tokens": tf.cast(tokens, tf.int32),
        "token_lengths": tf.cast(token_lengths, tf.int32),
        "languages": tf.zeros([rows], tf.int32),
        "mels": tf.cast(mels, tf.float32),
        "mel_lengths": lengths,
        "pitch": silent,
        "voiced": tf.zeros(tf.shape(mels)[:2], tf.bool),
        "reference_mels": references,
        "reference_lengths": tf.minimum(lengths, REFERENCE_FRAMES),
        "reference_pitch": silent[:, :REFERENCE_FRAMES],
        # Of the batch's own content, so that a resumed run draws the same.
        "seed": tf.stack([tf.reduce_sum(tf.cast(tokens, tf.int32)), tf.reduce_sum(lengths)]),
    }


def holds_waves(batch: Any) -> bool:
    """Whether a batch is one of ours, whose features are still to be made."""
    return isinstance(batch, dict) and "waves" in batch


def _describe(batch: Any) -> str:
    return f"{len(batch)} parts" if isinstance(batch, (tuple, list)) else type(batch).__name__
