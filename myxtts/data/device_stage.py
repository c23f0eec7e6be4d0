"""What the data device makes of a host batch: mels, pitch, energy, a reference, augmentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.data import features

# What the model's own step needs of a host batch as it is.
PASSED_ON = ("tokens", "token_lengths", "speakers", "languages", "clips", "seed", "place")


@dataclass(frozen=True)
class Augmentation:
    """How training clips are varied; nothing by default."""

    gain_db: float = 0.0  # each clip louder or softer by at most this
    noise_db: float | None = None  # white noise at least this far below the clip
    time_masks: int = 0  # SpecAugment: stretches of frames blanked out
    time_mask_frames: int = 20
    band_masks: int = 0  # SpecAugment: ranges of mel bands blanked out
    band_mask_bands: int = 8


def make_device_stage(
    augmentation: Augmentation | None = None, *, jit_compile: bool = False, on_cpu: bool = False
) -> Any:
    """A `tf.function` from host batches to model batches; run it under the data device.

    Pitch is taken from the clip before noise. Random numbers come from the batch's own seed, so a
    batch is the same however often and wherever it is made. `on_cpu` keeps it to one thread, which
    leaves the other cores to the model's step.
    """
    varied = augmentation or Augmentation()

    def stage(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        lengths = batch["wave_lengths"]
        waves = _to_float(batch["waves"])
        mask = features.frame_mask(waves, lengths)
        pitch, voiced = features.pitch(waves, lengths)
        mels = features.log_mel(_vary_waves(waves, batch["seed"], varied), lengths)
        references = _to_float(batch["references"])
        reference_mask = features.frame_mask(references, batch["reference_lengths"])
        # Only statistics are taken of it: each value is heard in one frame and stands for two.
        heard, _ = features.pitch(references, batch["reference_lengths"], every=2)
        reference_pitch = tf.repeat(heard, 2, axis=1)[:, : reference_mask.shape[1]]
        return {
            "mels": _blank_out(mels, mask, batch["seed"], varied),
            "mel_lengths": tf.reduce_sum(tf.cast(mask, tf.int32), axis=1),
            "pitch": pitch,
            "voiced": voiced,
            "energy": features.energy(mels, mask),
            "reference_mels": features.log_mel(
                references, batch["reference_lengths"], precise=False
            ),
            "reference_pitch": reference_pitch,
            "reference_lengths": tf.reduce_sum(tf.cast(reference_mask, tf.int32), axis=1),
            **{name: batch[name] for name in PASSED_ON},
        }

    function = tf.function(stage, jit_compile=jit_compile)
    return _OneThread(function) if on_cpu and not jit_compile else function


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

    def get_concrete_function(self, spec: Any) -> Any:
        """What a batch like `spec` becomes, traced and not run."""
        with tf.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR"):
            return self._function.get_concrete_function(spec)


def _to_float(waves: tf.Tensor) -> tf.Tensor:
    return tf.cast(waves, tf.float32) / 32768.0


def _salted(seed: tf.Tensor, salt: int) -> tf.Tensor:
    """Another seed for each use, so that no two draws are the same numbers."""
    return seed + tf.constant([0, salt])


def _vary_waves(waves: tf.Tensor, seed: tf.Tensor, varied: Augmentation) -> tf.Tensor:
    rows = waves.shape[0]
    if varied.gain_db:
        decibels = tf.random.stateless_uniform(
            [rows, 1], _salted(seed, 1), -varied.gain_db, varied.gain_db
        )
        waves = waves * tf.pow(10.0, decibels / 20.0)
    if varied.noise_db is not None:
        level = tf.sqrt(tf.reduce_mean(tf.square(waves), axis=1, keepdims=True))
        softness = tf.random.stateless_uniform([rows, 1], _salted(seed, 2), 0.0, 20.0)
        amplitude = level * tf.pow(10.0, -(varied.noise_db + softness) / 20.0)
        waves = waves + amplitude * tf.random.stateless_normal(waves.shape, _salted(seed, 3))
    return waves


def _blank_out(
    mels: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor, varied: Augmentation
) -> tf.Tensor:
    """SpecAugment: set random stretches of frames and bands to the floor, never the padding."""
    rows, frames, bands = mels.shape
    plans = (
        (varied.time_masks, varied.time_mask_frames, frames, 10),
        (varied.band_masks, varied.band_mask_bands, bands, 20),
    )
    for axis, (count, longest, size, salt) in enumerate(plans):
        for number in range(count):
            draws = tf.random.stateless_uniform([2, rows, 1], _salted(seed, salt + number))
            width = draws[0] * longest
            start = draws[1] * (size - width)
            place = tf.range(size, dtype=tf.float32)[None, :]
            blank = (place >= start) & (place < start + width)
            blank = blank[:, :, None] if axis == 0 else blank[:, None, :]
            blank = blank & mask[..., None]
            mels = tf.where(blank, np.float32(np.log(features.LOG_FLOOR)), mels)
    return mels
