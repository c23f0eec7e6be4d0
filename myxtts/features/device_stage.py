"""What the data device makes of a host batch: mels, pitch, a reference, augmentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.features import mels
from myxtts.features.audio import NUM_MELS, num_frames
from myxtts.features.filters import LOG_FLOOR
from myxtts.features.pitch import Heard, pitches
from myxtts.features.playing import play

# What the model's own step needs of a host batch as it is.
PASSED_ON = ("tokens", "token_lengths", "languages", "seed")
DECIBELS = 20.0 / np.log(10.0)  # of one unit of a log-mel
NUM_WAVES = 8  # of a colour: half a wave to four over all bands
RUMBLE, RUMBLE_BANDS = 4.0, 2.0  # rooms differ that much more there, in about as many bands


@dataclass(frozen=True)
class Augmentation:
    """How training batches are varied; not at all by default.

    The level of clip and reference changes, each by itself, and the reference gets noise: a voice
    is then cloned from recordings worse than those it was trained on. What it says stays clean.
    Their colour changes together, as with another microphone: what a voice says then follows its
    reference's spectrum, whatever the words.
    """

    gain_db: float = 0.0  # louder or softer by at most this
    noise_db: float | None = None  # white noise in the reference, at least this far below it
    colour_db: float = 0.0  # how far a smooth curve over the bands goes, typically


def make_device_stage(
    augmentation: Augmentation | None = None,
    *,
    jit_compile: bool = False,
    on_gpu: bool = False,
    exact: bool = False,
) -> Any:
    """A `tf.function` from host batches to model batches; run it under the data device.

    Random numbers come from the batch's own seed, so a batch is the same however often and
    wherever it is made. On a CPU it keeps to one thread, which leaves the other cores to the step.
    `exact` computes products in float64, for a GPU that would round float32 ones (TF32).
    """
    varied = augmentation or Augmentation()

    def stage(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        lengths, reference_lengths = batch["wave_lengths"], batch["reference_lengths"]
        waves, references = _to_float(batch["waves"]), _to_float(batch["references"])
        if "speeds" in batch:
            waves = play(waves, lengths, batch["speeds"])
            references = play(references, reference_lengths, batch["speeds"])
        if varied.gain_db:
            waves = _change_level(waves, _salted(batch["seed"], 1), varied.gain_db)
            references = _change_level(references, _salted(batch["seed"], 2), varied.gain_db)
        # Of the reference only statistics are taken: each value is heard in one frame and stands
        # for two.
        asked = [Heard(waves, lengths), Heard(references, reference_lengths, every=2)]
        (pitch, voiced), (heard, _) = pitches(asked, by_row=not on_gpu, exact=exact)
        if varied.noise_db is not None:  # behind the pitch, which stays that of the voice
            references = _add_noise(references, batch["seed"], varied.noise_db)
        made = mels.log_mel(waves, lengths, by_row=not on_gpu, exact=exact)
        heard_mels = mels.log_mel(
            references, reference_lengths, precise=False, by_row=not on_gpu, exact=exact
        )
        if varied.colour_db:
            curves = _draw_colours(made.shape[0], _salted(batch["seed"], 5), varied.colour_db)
            made = _colour(made, curves, mels.frame_mask(waves, lengths))
            heard_mels = _colour(heard_mels, curves, mels.frame_mask(references, reference_lengths))
        return {
            "mels": made,
            "mel_lengths": mels.real_frames(lengths),
            "pitch": pitch,
            "voiced": voiced,
            "reference_mels": heard_mels,
            "reference_pitch": tf.repeat(heard, 2, axis=1)[:, : num_frames(references.shape[1])],
            "reference_lengths": mels.real_frames(reference_lengths),
            **{name: batch[name] for name in PASSED_ON},
        }

    function = tf.function(stage, jit_compile=jit_compile)
    return function if on_gpu or jit_compile else _OneThread(function)


class _OneThread:
    """Calls a `tf.function` whose operations follow each other instead of filling all cores.

    Left to itself TensorFlow runs mels and pitch at once, and on two cores the step that trains at
    the same time loses more than they win (10 % of its rate, measured). For a CPU only: between
    devices such an executor would wait for what it has not yet sent.
    """

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, batch: dict[str, tf.Tensor]) -> Any:
        with tf.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR"):
            return self._function(batch)

    def experimental_get_tracing_count(self) -> int:
        """How often it was traced."""
        return int(self._function.experimental_get_tracing_count())

    def get_concrete_function(self, spec: Any) -> Any:
        """What a batch like `spec` becomes, traced and not run."""
        with tf.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR"):
            return self._function.get_concrete_function(spec)


def _to_float(waves: tf.Tensor) -> tf.Tensor:
    return tf.cast(waves, tf.float32) / 32768.0


def _salted(seed: tf.Tensor, salt: int) -> tf.Tensor:
    """Another seed for each use, so that no two draws are the same numbers."""
    return seed + tf.constant([0, salt])


def _change_level(waves: tf.Tensor, seed: tf.Tensor, gain_db: float) -> tf.Tensor:
    decibels = tf.random.stateless_uniform([waves.shape[0], 1], seed, -gain_db, gain_db)
    return waves * tf.pow(10.0, decibels / 20.0)


def _add_noise(waves: tf.Tensor, seed: tf.Tensor, noise_db: float) -> tf.Tensor:
    level = tf.sqrt(tf.reduce_mean(tf.square(waves), axis=1, keepdims=True))
    softer_db = tf.random.stateless_uniform([waves.shape[0], 1], _salted(seed, 3), 0.0, 20.0)
    amplitude = level * tf.pow(10.0, -(noise_db + softer_db) / 20.0)
    return waves + amplitude * tf.random.stateless_normal(waves.shape, _salted(seed, 4))


def _draw_colours(rows: int, seed: tf.Tensor, colour_db: float) -> tf.Tensor:
    """Smooth curves [B, 1, M] to add to log-mels; the lowest bands, of rumble, differ the most."""
    coefficients = tf.random.stateless_normal(
        [rows, len(_COLOURS)], seed, 0.0, colour_db / DECIBELS
    )
    return tf.matmul(coefficients, tf.constant(_COLOURS))[:, None, :]


def _colour(log_mels: tf.Tensor, curves: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
    """Coloured log-mels [B, F, M]; padding stays at the floor."""
    floor = np.float32(np.log(LOG_FLOOR))
    return tf.where(real[..., None], tf.maximum(log_mels + curves, floor), floor)


def _colour_shapes() -> np.ndarray:
    """Slow waves over the bands, together of a deviation of 1, and the rumble below a voice."""
    bands = (np.arange(NUM_MELS) + 0.5) / NUM_MELS
    waves = np.cos(np.pi * np.arange(1, NUM_WAVES + 1)[:, None] * bands) * np.sqrt(2.0 / NUM_WAVES)
    rumble = RUMBLE * np.exp(-np.arange(NUM_MELS) / RUMBLE_BANDS)
    return np.concatenate([waves, rumble[None]]).astype(np.float32)


_COLOURS = _colour_shapes()
