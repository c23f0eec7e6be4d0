"""One optimiser update, compiled once per batch shape, wholly on the model device."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.errors import DeviceError
from myxtts.pipeline.transfer import is_on, wait_for_gpu


class TrainStep:
    """Owns the optimiser; call it with a batch that lives on the model device.

    The model's contract is one method: `compute_losses(batch)` returns a dict of scalars in which
    `loss` is the one to minimise.
    """

    def __init__(
        self,
        model: keras.Model,
        *,
        device: str,
        learning_rate: float,
        weight_decay: float = 0.0,
        gradient_clip: float = 1.0,
        jit_compile: bool = False,
    ) -> None:
        self.model = model
        self.device = device
        self.traces = 0
        self._gradient_clip = gradient_clip
        # Made outside this scope, the optimiser would keep its counters on the default device.
        with tf.device(device):
            self.optimizer = keras.optimizers.AdamW(
                learning_rate, beta_2=0.98, weight_decay=weight_decay
            )
        self._compiled = tf.function(self._update, jit_compile=jit_compile)

    def __call__(self, batch: Any) -> dict[str, tf.Tensor]:
        """Update the weights once; returns the losses, still on the device."""
        with tf.device(self.device):  # around the call: XLA ignores a scope inside the function
            if not self.optimizer.built:
                self._build(batch)
            losses: dict[str, tf.Tensor] = self._compiled(batch)
            # Without this a GPU step would end when it is queued, and its time be charged to the
            # transfer behind it.
            wait_for_gpu([losses["loss"]], self.device)
        return losses

    def _build(self, batch: Any) -> None:
        """Create every variable now, eagerly, and prove that it lives on the model device."""
        self.model.compute_losses(batch)
        self.optimizer.build(self.model.trainable_variables)
        check_placement([*self.model.variables, *self.optimizer.variables], self.device)

    def _update(self, batch: Any) -> dict[str, tf.Tensor]:
        self.traces += 1  # runs only while TensorFlow traces
        with tf.GradientTape() as tape:
            losses = self.model.compute_losses(batch)
        weights = self.model.trainable_variables
        gradients, norm = tf.clip_by_global_norm(
            tape.gradient(losses["loss"], weights), self._gradient_clip
        )
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {**losses, "gradient_norm": norm}


def check_placement(variables: list[Any], device: str) -> None:
    """Refuse to go on if a variable landed on another device than it should."""
    strays = []
    for variable in variables:
        value = variable.value if isinstance(variable, keras.Variable) else variable
        if not is_on(value, device):
            strays.append(f"{variable.name} on {value.device}")
    if strays:
        raise DeviceError(
            f"{len(strays)} of {len(variables)} variables are not on {device}: {strays[0]}.",
            "create the model under the model device: give the trainer a function that makes it",
        )
