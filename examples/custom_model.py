#!/usr/bin/env python3
"""The engine with any Keras model: one device augments images, the other learns to tell them apart.

python examples/custom_model.py                             # one GPU, or the CPU
python examples/custom_model.py --simulate                  # two CPU devices stand in for two GPUs
python examples/custom_model.py --data-gpu 0 --model-gpu 1
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run from a fresh clone

import numpy as np

from myxtts.errors import MyXTTSError
from myxtts.pipeline import ProducerConsumerPipeline, configure_devices
from myxtts.utils.commons import setup_logging

SIDE = 32  # pixels
NAMES = ("horizontal stripes", "vertical stripes")


def images(num_batches: int, *, batch_size: int, seed: int = 0) -> Iterator[dict[str, np.ndarray]]:
    """What your own reader would give: stripes of random width and phase, in noise."""
    random = np.random.default_rng(seed)
    place = np.arange(SIDE)
    for _ in range(num_batches):
        labels = random.integers(0, 2, size=batch_size)
        phases = random.uniform(0, 2 * np.pi, size=(batch_size, 1))
        waves = np.sin(random.uniform(0.5, 1.5, size=(batch_size, 1)) * place + phases)
        stripes = np.repeat(waves[:, :, None], SIDE, axis=2)
        stripes = np.where(labels[:, None, None] == 0, stripes, stripes.transpose(0, 2, 1))
        noisy = 128 + 60 * stripes + random.normal(0, 40, size=stripes.shape)
        yield {
            "images": noisy.clip(0, 255).astype(np.uint8)[..., None],
            "labels": labels.astype(np.int32),
        }


def make_augment() -> Callable[[Any], Any]:
    """The data device's work: bytes to numbers, random brightness and mirroring."""
    import tensorflow as tf

    @tf.function
    def augment(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        pixels = tf.cast(batch["images"], tf.float32) / 255.0
        pixels = tf.image.random_flip_left_right(pixels) + tf.random.uniform([], -0.2, 0.2)
        return {"images": pixels, "labels": batch["labels"]}

    return augment


def make_model_and_step(device: str) -> tuple[Any, Callable[[Any], Any]]:
    """Your model and your training step; both made, and called, on the model device."""
    import keras
    import tensorflow as tf

    with tf.device(device):
        model = keras.Sequential(
            [
                keras.layers.Input([SIDE, SIDE, 1]),
                keras.layers.Conv2D(8, 5, strides=2, activation="relu"),
                keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
                keras.layers.GlobalAveragePooling2D(),
                keras.layers.Dense(len(NAMES)),
            ]
        )
        optimizer = keras.optimizers.Adam(5e-3)
        optimizer.build(model.trainable_variables)

    @tf.function
    def step(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(batch["images"], training=True)
            losses = keras.losses.sparse_categorical_crossentropy(
                batch["labels"], logits, from_logits=True
            )
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return tf.reduce_mean(
            tf.cast(tf.argmax(logits, 1, tf.int32) == batch["labels"], tf.float32)
        )

    return model, step


def main(arguments: Sequence[str] | None = None) -> None:
    """Train for some steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-gpu", type=int, help="augments")
    parser.add_argument("--model-gpu", type=int, help="trains")
    parser.add_argument("--simulate", action="store_true", help="two CPU devices instead of GPUs")
    parser.add_argument("--steps", type=int, default=150)
    asked = parser.parse_args(arguments)
    setup_logging()

    plan = configure_devices(asked.data_gpu, asked.model_gpu, simulate=asked.simulate)
    model, step = make_model_and_step(plan.model_device)
    print(f"{model.count_params()} parameters on {plan.model_device}{plan.note}")

    import tensorflow as tf

    source = images(asked.steps, batch_size=64)
    shares = []
    with ProducerConsumerPipeline(source, plan=plan, process=make_augment()) as batches:
        for number, batch in enumerate(batches, start=1):  # `batch` lives on the model device
            with tf.device(plan.model_device):
                shares.append(float(step(batch)))
            if number % 25 == 0:
                print(f"step {number}: {np.mean(shares[-25:]):.0%} told apart")
        print(f"slowest stage: {batches.stats().bottleneck}")


if __name__ == "__main__":
    try:
        main()
    except MyXTTSError as error:
        sys.exit(f"error: {error}")
