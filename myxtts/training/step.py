"""One optimiser update, compiled once per batch shape, wholly on the model device."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from myxtts.errors import DeviceError, MemoryBudgetError
from myxtts.pipeline.transfer import is_on

if TYPE_CHECKING:
    from myxtts.replicas.exchange import Exchange

FIRST_LOSS_SCALE = 2.0**12
LOSS_SCALE_GROWTH_STEPS = 1000

Losses = dict[str, tf.Tensor]


class TrainStep:
    """Owns the optimiser and the averaged weights; call it with batches on the model device.

    The model's contract is one method: `compute_losses(batch, step=, training=)` returns a dict of
    scalars in which `loss` is the one to minimise; `weight`, where given, is how much the batch
    counts when gradients of several are added up (the number of its clips). An update whose loss or
    gradient is not finite, or that counts for nothing, is skipped inside the graph: nothing of it
    reaches the weights.
    """

    def __init__(
        self,
        model: keras.Model,
        *,
        device: str,
        learning_rate: Any,
        weight_decay: float = 0.0,
        gradient_clip: float = 1.0,
        ema_decay: float | None = None,
        grad_accum: int = 1,
        scale_loss: bool = False,
        jit_compile: bool = False,
    ) -> None:
        self.model = model
        self.device = device
        self.grad_accum = grad_accum
        self.traces = 0
        self.updates_begun = 0  # who reads the weights from another thread looks at it
        self._gradient_clip = gradient_clip
        self._ema_decay = ema_decay
        self._scales = scale_loss
        self.micro_rows: int | None = None  # fewer than a batch has, once memory ran out
        self._batches_added = 0
        self._rows_done = 0  # of a batch that ran out of memory
        self._losses: Losses = {}
        self._gradient_sum: tf.Tensor | None = None
        self._weight_sum: tf.Tensor | None = None
        self._average: tf.Variable | None = None
        self.exchange: Exchange | None = None  # adds up gradients with other replicas, where set
        self._exchanged = False
        self.built = False
        # Made outside this scope, the optimiser would keep its counters on the default device.
        with tf.device(device):
            self.optimizer = keras.optimizers.AdamW(
                learning_rate, beta_2=0.98, weight_decay=weight_decay
            )
            self.skipped = tf.Variable(0, dtype=tf.int64, trainable=False, name="skipped")
            self.skipped_in_a_row = tf.Variable(0, dtype=tf.int64, trainable=False, name="in_a_row")
            scale = FIRST_LOSS_SCALE if scale_loss else 1.0
            self.loss_scale = tf.Variable(scale, trainable=False, name="loss_scale")
            self._good_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="good_steps")
        # The update does not depend on the batch's shape, so it is compiled apart from the
        # gradients, once, on all weights end to end: a handful of kernels, not a thousand.
        self._gradients = tf.function(self._compute_gradients, jit_compile=jit_compile)
        self._update = tf.function(self._apply_gradients, jit_compile=jit_compile)
        self._updates_whole = jit_compile  # compiled, it gets all of its memory before it begins

    # -- calling it --

    def __call__(self, batch: Any) -> Losses:
        """Work on one batch; the weights change when `grad_accum` of them have been seen."""
        with tf.device(self.device):  # around the call: XLA ignores a scope inside the function
            if not self.built:
                self.build(batch)
            if self._batches_added < self.grad_accum:  # else the update itself ran out of memory
                self._losses = self._add_gradients(batch)
                self._batches_added += 1
            losses = dict(self._losses)
            if self._batches_added == self.grad_accum:
                norm = self._finish_update()
                losses = {**self._losses, "gradient_norm": norm}
        return losses

    def apply_what_is_left(self) -> bool:
        """Update with the gradients of fewer batches than usual, at a run's very end."""
        if not self._batches_added:
            return False
        with tf.device(self.device):
            self._finish_update()
        return True

    def drop_gradients(self) -> None:
        """Begin an update anew."""
        self._gradient_sum = self._weight_sum = None
        self._batches_added = self._rows_done = 0
        self._exchanged = False

    @property
    def at_update(self) -> bool:
        """Whether the last batch completed an update, so that a checkpoint may be made."""
        return self._batches_added == 0

    @property
    def updates(self) -> int:
        """Updates that changed the weights."""
        return int(self.optimizer.iterations.numpy())

    def halve_micro_batch(self, rows: int) -> int | None:
        """Work on half as many rows at a time from now on; None if there is nothing to halve."""
        size = self.micro_rows or rows
        smaller = next((n for n in range(size // 2, 0, -1) if size % n == 0), None)
        if smaller is not None:
            self.micro_rows = smaller
        return smaller

    def micro_batches(self, batch: Any) -> Iterator[Any]:
        """A batch as it is worked on: whole, or in micro-batches once memory ran out."""
        rows = num_rows(batch)
        size = min(self.micro_rows or rows, rows)
        return (_slice(batch, at, at + size) for at in range(0, rows, size))

    def _add_gradients(self, batch: Any) -> Losses:
        rows = num_rows(batch)
        size = min(self.micro_rows or rows, rows)
        done = []
        while self._rows_done < rows:  # where memory ran out, the next call goes on from here
            micro_batch = _slice(batch, self._rows_done, self._rows_done + size)
            losses, gradients = self._gradients(micro_batch)
            first = self._gradient_sum is None
            weight = losses["weight"]
            self._gradient_sum = gradients if first else self._gradient_sum + gradients
            self._weight_sum = weight if first else self._weight_sum + weight
            self._rows_done += size
            done.append(losses)
        self._rows_done = 0
        return weighted_mean(done)

    def _finish_update(self) -> tf.Tensor:
        if self.exchange is not None and not self._exchanged:  # once, also if memory then runs out
            self._gradient_sum, self._weight_sum, self._losses = self.exchange(
                self._gradient_sum, self._weight_sum, self._losses
            )
            self._exchanged = True
        self.updates_begun += 1
        try:
            norm = self._update(self._gradient_sum, self._weight_sum)
        except tf.errors.ResourceExhaustedError as error:
            if not self._updates_whole:
                raise MemoryBudgetError(
                    "The model device ran out of memory in the middle of an update: some weights "
                    "may have changed and others not. This state is not saved.",
                    "go on from the last checkpoint with a smaller --batch-size, or with XLA "
                    "(--optimization-level enhanced), where an update happens wholly or not at all",
                ) from error
            self.updates_begun -= 1  # nothing of it happened
            raise
        self.drop_gradients()
        return norm

    # -- the weights --

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Within, the model has its averaged weights, for validation and samples."""
        if self._average is None:
            yield
            return
        with tf.device(self.device):
            self._assign_weights(self._average)
        try:
            yield
        finally:
            with tf.device(self.device):
                self._assign_weights(self.weights)

    def take_weights(self) -> None:
        """Go on from the weights the model has now; its average starts from them too."""
        with tf.device(self.device):
            flat = _flatten(self.model.trainable_variables)
            self.weights.assign(flat)
            if self._average is not None:
                self._average.assign(flat)

    def build(self, batch: Any = None) -> None:
        """Create every variable, and prove where it lives; a batch builds a model that is not."""
        with tf.device(self.device):
            if not self.model.built:
                self.model.compute_losses(batch, step=tf.constant(0), training=False)
            flat = _flatten(self.model.trainable_variables)
            # The model's own variables follow this one, update by update.
            self.weights = keras.Variable(flat, name="weights")
            self._average = None if self._ema_decay is None else tf.Variable(flat, trainable=False)
            self.optimizer.build([self.weights])
        self.built = True
        check_placement([*self.model.variables, *self.variables.values()], self.device)

    @property
    def variables(self) -> dict[str, Any]:
        """All that must be kept besides the model's weights, to go on exactly from here."""
        kept = {
            "skipped": self.skipped,
            "skipped_in_a_row": self.skipped_in_a_row,
            "loss_scale": self.loss_scale,
            "good_steps": self._good_steps,
        }
        for variable in self.optimizer.variables:
            kept[variable.path.split("/")[-1]] = variable
        if self._average is not None:
            kept["average"] = self._average
        return kept

    # -- inside the graph --

    def _compute_gradients(self, batch: Any) -> tuple[Losses, tf.Tensor]:
        """The losses, and the gradient of all weights end to end, times the batch's weight."""
        self.traces += 1  # runs only while TensorFlow traces
        weights = self.model.trainable_variables
        with tf.GradientTape() as tape:
            losses = self.model.compute_losses(batch, step=self.optimizer.iterations, training=True)
            scaled = losses["loss"] * self.loss_scale
        losses = {"weight": tf.constant(1.0), **losses}
        flat = _flatten(tape.gradient(scaled, weights, unconnected_gradients="zero"))
        # A loss that is not finite must show even where its gradient happens to be.
        unscale = losses["weight"] / self.loss_scale + 0.0 * losses["loss"]
        return losses, flat * unscale

    def _apply_gradients(self, gradients: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        gradients /= tf.maximum(weight, 1e-6)
        norm = tf.norm(gradients)
        clipped = gradients * tf.minimum(1.0, self._gradient_clip / tf.maximum(norm, 1e-12))
        good = tf.math.is_finite(norm) & (weight > 0.0)
        # Each number is chosen on the device: a branch would wait until the host knows the norm.
        changing = [self.weights, *self.optimizer.variables]
        changing += [] if self._average is None else [self._average]
        before = [tf.convert_to_tensor(variable) for variable in changing]
        self._change_weights(clipped)
        for variable, value in zip(changing, before, strict=True):
            variable.assign(tf.where(good, variable, value))
        self._assign_weights(self.weights)
        self._count(good)
        return norm

    def _change_weights(self, gradients: tf.Tensor) -> None:
        self.optimizer.apply([gradients], [self.weights])
        if self._average is not None:
            # Early on the average follows quickly, or it would remember the first, random weights.
            done = tf.cast(self.optimizer.iterations, tf.float32)
            decay = tf.minimum(self._ema_decay, (1.0 + done) / (10.0 + done))
            self._average.assign(self._average * decay + self.weights * (1.0 - decay))

    def _count(self, good: tf.Tensor) -> None:
        self.skipped.assign_add(tf.where(good, tf.constant(0, tf.int64), 1))
        # In half precision a scaled gradient may overflow without anything being wrong.
        skips = self.skipped_in_a_row + tf.cast(self.loss_scale <= 1.0, tf.int64)
        self.skipped_in_a_row.assign(tf.where(good, tf.constant(0, tf.int64), skips))
        if self._scales:
            self._good_steps.assign(tf.where(good, self._good_steps + 1, 0))
            grow = self._good_steps % LOSS_SCALE_GROWTH_STEPS == 0
            more = tf.where(grow, self.loss_scale * 2.0, self.loss_scale)
            less = tf.maximum(1.0, self.loss_scale / 2.0)
            self.loss_scale.assign(tf.where(good, more, less))

    def _assign_weights(self, flat: Any) -> None:
        at = 0
        flat = tf.convert_to_tensor(flat)
        for variable in self.model.trainable_variables:
            size = math.prod(variable.shape)
            part = tf.reshape(flat[at : at + size], variable.shape)
            variable.assign(tf.cast(part, variable.dtype))
            at += size


def _flatten(tensors: Any) -> tf.Tensor:
    return tf.concat([tf.reshape(tf.cast(t, tf.float32), [-1]) for t in tensors], axis=0)


def last_made(losses: Losses) -> tf.Tensor:
    """Of what a step returns, that which is there when all of it is done."""
    return losses.get("gradient_norm", losses["loss"])


def num_rows(batch: Any) -> int:
    """Clips in a batch, masked ones included."""
    return int(tf.nest.flatten(_split(batch)[0])[0].shape[0])


def _slice(batch: Any, start: int, stop: int) -> Any:
    """Some clips of a batch."""
    clips, whole = _split(batch)
    if stop - start >= num_rows(batch):
        return batch
    micro = tf.nest.map_structure(lambda t: t[start:stop], clips)
    return {**micro, **whole} if whole else micro


def _split(batch: Any) -> tuple[Any, dict[str, Any]]:
    """What a batch has for each clip, and what it has once: its seed."""
    if not isinstance(batch, dict):
        return batch, {}
    whole = {name: batch[name] for name in ("seed",) if name in batch}
    return {name: batch[name] for name in batch if name not in whole}, whole


def weighted_mean(losses: list[Losses]) -> Losses:
    """The losses of several batches as if they were one."""
    if len(losses) == 1:
        return dict(losses[0])
    losses = [{"weight": tf.constant(1.0), **each} for each in losses]
    weight = tf.add_n([each["weight"] for each in losses])
    mean = {
        name: tf.add_n([each[name] * each["weight"] for each in losses]) / tf.maximum(weight, 1e-6)
        for name in losses[0]
    }
    return {**mean, "weight": weight}


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
