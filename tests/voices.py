"""Very small voice models and made-up clips, for tests of the model and of its training."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tests.support import simulated_plan

PLAN = simulated_plan()  # before TensorFlow makes its first tensor

import keras
import numpy as np
import tensorflow as tf

from myxtts.config.config import ModelConfig
from myxtts.features.audio import NUM_MELS
from myxtts.models.xtts import XTTS

WIDTHS = {
    "size": "tiny",
    "encoder_dim": 16,
    "decoder_dim": 16,
    "voice_dim": 8,
    "encoder_blocks": 2,
    "decoder_blocks": 3,
    "vocab_size": 30,
}
ONE_BLOCK = {"encoder_blocks": 1, "decoder_blocks": 1}  # half as long to trace or compile
HEADS = ("regression", "flow")
SHARP = "with a critic"  # in place of a head: the regression, trained as few recordings are

Arrays = dict[str, np.ndarray]


def make_voice(head: str = "regression", **changes: Any) -> XTTS:
    """A new model on the model device, without the zeros at its start, behind which bugs hide."""
    training = {"sharpness": 0.5, "dropout": 0.2} if head == SHARP else {}
    head = "regression" if head == SHARP else head
    with tf.device(PLAN.model_device):
        model = XTTS(ModelConfig(**{**WIDTHS, "decoder_head": head, **changes}), **training)
        random = np.random.default_rng(0)
        for variable in model.variables:
            size = variable.shape
            value = random.normal(scale=0.1 if len(size) == 1 else np.prod(size[:-1]) ** -0.5)
            drawn = random.normal(size=size, scale=abs(value) + 0.05).astype(np.float32)
            variable.assign(drawn + (1.0 if variable.path.endswith("gamma") else 0.0))
    return model


@lru_cache(maxsize=3)
def _shared(head: str) -> tuple[XTTS, list[np.ndarray]]:
    model = make_voice(head)
    return model, [variable.numpy() for variable in model.variables]


def shared_voice(head: str = "regression") -> XTTS:
    """The one model of a head, with its first weights again: making models takes seconds."""
    model, weights = _shared(head)
    with tf.device(PLAN.model_device):
        for variable, value in zip(model.variables, weights, strict=True):
            variable.assign(value)
    return model


def make_clip(tokens: int, frames: int, reference: int, seed: int) -> Arrays:
    """A clip by itself, without a batch and without padding."""
    random = np.random.default_rng(seed)
    voiced = random.random(frames) < 0.7
    heard = random.random(reference) < 0.7
    shape = random.normal(size=[tokens, NUM_MELS]).repeat(-(-frames // tokens), axis=0)[:frames]
    return {
        "tokens": random.integers(4, 30, tokens).astype(np.int32),
        "mels": (-5.5 + 2.0 * shape + 0.3 * random.normal(size=shape.shape)).astype(np.float32),
        "pitch": np.where(voiced, random.uniform(90, 240, frames), 0).astype(np.float32),
        "voiced": voiced,
        "reference_mels": random.normal(-5.5, 2.2, [reference, NUM_MELS]).astype(np.float32),
        "reference_pitch": np.where(heard, random.uniform(90, 240, reference), 0).astype("float32"),
        "languages": np.int32(seed % 3),
    }


CLIPS = [make_clip(5, 17, 9, 0), make_clip(3, 12, 14, 1), make_clip(7, 19, 11, 2)]
CLIPS.append(make_clip(4, 9, 6, 3))

_PADDED = {
    "tokens": "tokens",
    "mels": "frames",
    "pitch": "frames",
    "voiced": "frames",
    "reference_mels": "reference",
    "reference_pitch": "reference",
}


def make_batch(
    clips: list[Arrays],
    *,
    tokens: int | None = None,
    frames: int | None = None,
    reference: int | None = None,
    masked_rows: int = 0,
    rubbish: float = 0.0,
    seed: tuple[int, int] = (3, 4),
) -> dict[str, tf.Tensor]:
    """Clips padded to sizes (the longest's by default); `rubbish` is what the padding holds."""
    sizes = {
        "tokens": tokens or max(len(clip["tokens"]) for clip in clips),
        "frames": frames or max(len(clip["mels"]) for clip in clips),
        "reference": reference or max(len(clip["reference_mels"]) for clip in clips),
    }
    rows = len(clips) + masked_rows
    batch: Arrays = {"languages": np.zeros([rows], np.int32), "seed": np.array(seed, np.int32)}
    for name in ("token_lengths", "mel_lengths", "reference_lengths"):
        batch[name] = np.zeros([rows], np.int32)
    for name, size in _PADDED.items():
        like = clips[0][name]
        batch[name] = np.full([rows, sizes[size], *like.shape[1:]], rubbish).astype(like.dtype)
    for row, clip in enumerate(clips):
        batch["languages"][row] = clip["languages"]
        batch["token_lengths"][row] = len(clip["tokens"])
        batch["mel_lengths"][row] = len(clip["mels"])
        batch["reference_lengths"][row] = len(clip["reference_mels"])
        for name in _PADDED:
            batch[name][row, : len(clip[name])] = clip[name]
    with tf.device(PLAN.model_device):
        return {name: tf.constant(value) for name, value in batch.items()}


def losses_of(model: Any, batch: Any, *, step: int = 100, training: bool = False) -> dict:
    with tf.device(PLAN.model_device):
        losses = model.compute_losses(batch, step=tf.constant(step), training=training)
    return {name: float(value) for name, value in losses.items()}


def gradients_of(model: Any, batch: Any, *, step: int = 100) -> tuple[dict, list[np.ndarray]]:
    with tf.device(PLAN.model_device), tf.GradientTape() as tape:
        losses = model.compute_losses(batch, step=tf.constant(step), training=True)
    variables = model.trainable_variables
    gradients = tape.gradient(losses["loss"], variables, unconnected_gradients="zero")
    dense = [np.array(tf.convert_to_tensor(gradient)) for gradient in gradients]
    return {name: float(value) for name, value in losses.items()}, dense


def policy(name: str) -> Any:
    """Within, Keras makes layers of this precision."""
    return _Policy(name)


class _Policy:
    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(self._name)

    def __exit__(self, *_: object) -> None:
        keras.config.set_dtype_policy(self._before)
