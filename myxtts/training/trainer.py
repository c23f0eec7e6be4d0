"""The trainer: takes batches from the pipeline and updates the model, top to bottom."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

import keras
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.errors import ConfigError, DataError, DeviceError
from myxtts.pipeline.devices import DevicePlan, Mode, configure_devices
from myxtts.pipeline.engine import ProducerConsumerPipeline
from myxtts.pipeline.transfer import copy_to_model_device
from myxtts.training.step import TrainStep

log = logging.getLogger(__name__)

OnStep = Callable[[int, dict[str, tf.Tensor]], None]


class XTTSTrainer:
    """Trains a model on the devices the config names.

    `model` is a Keras model with `compute_losses(batch)`, or better a function that makes one, so
    that it is created on the model device. A data set is any iterable of batches, for example a
    `tf.data.Dataset` of `(text_sequences, mel_spectrograms, text_lengths, mel_lengths)`.
    """

    def __init__(
        self,
        config: XTTSConfig,
        model: keras.Model | Callable[[], keras.Model] | None = None,
        resume_checkpoint: str | None = None,
        model_device: str | None = None,
    ) -> None:
        if model is None:
            raise ConfigError(
                "This version has no built-in voice model yet.",
                "give the trainer a Keras model with a compute_losses(batch) method",
            )
        if resume_checkpoint is not None:
            raise ConfigError(
                "This version cannot resume from a checkpoint yet.", "leave out resume_checkpoint"
            )
        _refuse_unsupported(config)
        self.config = config
        self.plan = self._configure_devices()
        self.model_device = self.plan.model_device
        if model_device is not None and not _same_device(model_device, self.model_device):
            raise DeviceError(
                f"model_device is {model_device}, but the device plan trains on "
                f"{self.model_device}.",
                "leave out model_device, or choose the devices with data_gpu and model_gpu",
            )
        keras.utils.set_random_seed(config.training.seed)
        if self.plan.mode is Mode.MULTI:
            name, note = self.plan.logical_name("model"), self.plan.role_note("model")
            log.info("Multi-GPU Mode: Model will be placed on %s%s", name, note)
            log.info(
                "   (Original GPU %s is now mapped to %s)%s", self.plan.model_gpu, name[1:], note
            )
        log.info(
            "Creating model on device: %s%s",
            self.plan.logical_name("model"),
            self.plan.role_note("model"),
        )
        with tf.device(self.model_device):
            self.model = model if isinstance(model, keras.Model) else model()
        training = config.training
        self.step = TrainStep(
            self.model,
            device=self.model_device,
            learning_rate=training.learning_rate,
            weight_decay=training.weight_decay,
            gradient_clip=training.gradient_clip,
            jit_compile=training.xla,
        )
        self.steps_done = 0

    def train(
        self,
        train_dataset: Iterable[Any] | None = None,
        val_dataset: Iterable[Any] | None = None,
        epochs: int | None = None,
        *,
        on_step: OnStep | None = None,
    ) -> dict[str, Any]:
        """Run the epochs (or `max_steps`); returns the step count, last losses and statistics."""
        if train_dataset is None:
            raise ConfigError(
                "There is no training data.", "give train() a data set of batches to iterate over"
            )
        if val_dataset is not None:
            raise ConfigError("This version does not validate yet.", "leave out val_dataset")
        losses: dict[str, tf.Tensor] = {}
        if epochs is None:
            epochs = self.config.training.epochs
        batches_left = _epochs(train_dataset, epochs)
        with self._pipeline(
            itertools.islice(batches_left, self.config.training.max_steps),
            batch_spec=getattr(train_dataset, "element_spec", None),
        ) as batches:
            for batch in batches:
                losses = self._train_step_impl(batch)
                self.steps_done += 1
                self._after_step()
                if on_step is not None:
                    on_step(self.steps_done, losses)
        stats = batches.stats()
        reason = stats.explain_variation()
        if reason is not None:
            log.warning(reason)
        return {
            "steps": self.steps_done,
            "losses": {name: float(value) for name, value in losses.items()},
            "stats": stats,
            "telemetry": batches.telemetry,
        }

    # -- the phases, named; the pipeline calls the first two on threads of their own --

    def _preprocess_on_data_gpu(self, batch: Any) -> Any:
        """Work on the data device. A data set that comes with its features needs none."""
        return batch

    def _transfer_to_model_gpu(self, batch: Any) -> Any:
        """Copy a processed batch to the model device."""
        return copy_to_model_device(batch, self.plan)

    def _train_step_impl(self, batch: Any) -> dict[str, tf.Tensor]:
        """Update the model on the model device."""
        return self.step(batch)

    def _preprocesses(self) -> bool:
        return type(self)._preprocess_on_data_gpu is not XTTSTrainer._preprocess_on_data_gpu

    def _after_step(self) -> None:
        """Called after every step; the memory-isolated trainer watches memory here."""

    # -- set-up --

    def _configure_devices(self) -> DevicePlan:
        return configure_devices(**asdict(self.config.data.device_request()))

    def _pipeline(self, source: Iterable[Any], *, batch_spec: Any) -> ProducerConsumerPipeline:
        data = self.config.data
        log.info("Buffer Size: %d%s", data.pipeline_buffer_size, self.plan.note)
        return ProducerConsumerPipeline(
            source,
            plan=self.plan,
            process=self._preprocess_on_data_gpu if self._preprocesses() else None,
            transfer=self._transfer_to_model_gpu,
            depth=data.pipeline_depth,
            prefetch_buffer_size=data.prefetch_buffer_size,
            buffer_size=data.host_buffer_size(two_devices=self.plan.mode is Mode.MULTI),
            model_start_delay=data.model_start_delay,
            stall_timeout=data.stall_timeout,
            batch_spec=batch_spec,
        )


def _epochs(dataset: Iterable[Any], epochs: int) -> Iterator[Any]:
    for epoch in range(epochs):
        empty = True
        for batch in dataset:
            empty = False
            yield batch
        if empty:
            raise DataError(
                f"The training data gave no batch in epoch {epoch + 1}.",
                "give a data set that can be read once an epoch (a generator is spent after one)"
                if epoch
                else "check the data set: it holds no batch",
            )


def _same_device(one: str, other: str) -> bool:
    def canonical(name: str) -> tuple[str | None, int | None]:
        spec = tf.DeviceSpec.from_string(name)
        return spec.device_type, spec.device_index or 0

    return canonical(one) == canonical(other)


def _refuse_unsupported(config: XTTSConfig) -> None:
    """A setting this version does not act on is refused, not ignored."""
    training = config.training
    asked = {
        "training.grad_accum": training.grad_accum > 1,
        "training.init_from": training.init_from is not None,
        "training.resume": training.resume != "auto",
        "training.auto_batch": training.auto_batch,
        "training.xla_process": training.xla_process,
        "training.tensorboard_log_dir": training.tensorboard_log_dir is not None,
        "training.wandb": training.wandb,
    }
    names = [name for name, given in asked.items() if given]
    if names:
        raise ConfigError(
            f"This version does not support {', '.join(names)} yet.", "leave them at their default"
        )
    if training.mixed_precision:
        log.info("This version trains in float32, also where mixed precision is asked for")
