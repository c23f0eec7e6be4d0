"""The trainer: takes batches from the pipeline and updates the model, top to bottom."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import Self

from myxtts.config.config import XTTSConfig
from myxtts.data.feature_batches import batch_from_features, holds_waves
from myxtts.data.loader import BatchIterator, LoaderState
from myxtts.errors import MemoryBudgetError
from myxtts.models.xtts import XTTS
from myxtts.pipeline.devices import DevicePlan, configure_devices
from myxtts.pipeline.engine import ProducerConsumerPipeline
from myxtts.pipeline.leaks import LeakWatch
from myxtts.pipeline.process import prepare_process
from myxtts.pipeline.transfer import copy_to_model_device, put_on_device
from myxtts.replicas.cluster import Cluster
from myxtts.replicas.exchange import StoppedTogetherError
from myxtts.runs.sinks import import_wandb
from myxtts.training import setup, sources
from myxtts.training.capacity import warn_of_misfits
from myxtts.training.checkpoint_manager import CheckpointManager
from myxtts.training.micro_batches import work_on_less
from myxtts.training.progress import TrainingProgress
from myxtts.training.replicated import join
from myxtts.training.reporting import LossReport, PipelineReport, warn_of_uneven_steps
from myxtts.training.snapshot import restore_snapshot
from myxtts.training.step import Losses, last_made
from myxtts.training.stopping import StopRequest
from myxtts.training.tracing import TraceWatch, planned_shapes
from myxtts.training.validation import Validator
from myxtts.utils.commons import warn_if_unheard

log = logging.getLogger(__name__)

SKIP_CHECK_STEPS = 10
UNKNOWN_LENGTH = 10**9  # steps of a run whose data does not tell: the rate then stays at its peak

OnStep = Callable[[int, Losses], None]


class XTTSTrainer:
    """Trains a voice in a run folder, and goes on exactly where it was stopped.

    `model` is None for our own, a Keras model with `compute_losses(batch, step=, training=)`, or
    better a function that makes one, so that it is created on the model device. The run folder is
    locked until `close()`: use the trainer in a `with` block, or let the process end. The config
    stays the caller's; of the process it decides the devices, and what `prepare_process` names.
    """

    def __init__(
        self,
        config: XTTSConfig,
        model: keras.Model | Callable[[], keras.Model] | None = None,
        resume_checkpoint: str | Path | None = None,
        model_device: str | None = None,
        *,
        progress: TrainingProgress | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        warn_if_unheard()
        if config.training.wandb:
            import_wandb()
        self.config = config = config.model_copy(deep=True)  # the run settles some of them
        self.progress = progress or TrainingProgress(total_steps=None)
        self.plan = self._configure_devices()
        self.model_device = self.device = self.plan.model_device
        self.replicas = join(cluster, self.plan, config)  # before TensorFlow makes a tensor
        self.logger, self.strategy = log, self.replicas.strategy
        setup.check_model_device(model_device, self.plan)
        warn_of_misfits(config, self.plan, estimable=model is None)
        self.run, self._saved = self.replicas.open_run(config.training, resume_checkpoint)
        try:
            self._set_up(model or (lambda: XTTS(config.model, **config.training.of_the_model)))
        except BaseException:
            self.close()
            raise

    def _set_up(self, make_model: keras.Model | Callable[[], keras.Model]) -> None:
        """Everything before the first step: data, model, weights, and who looks after them."""
        config, training, saved = self.config, self.config.training, self._saved
        source = setup.fine_tuning_source(config, saved)
        self.state, self.stopping = setup.run_state(training, saved)
        with self.replicas.turn():
            self.data = setup.prepare(config, saved=saved, source=source, progress=self.progress)
        self.replicas.check_data(self.data)
        speakers = setup.all_speakers(self.data, saved=saved, source=source)
        languages = setup.all_languages(self.data, saved=saved, source=source)
        if self.data is not None:
            self.data.write_dropped(self.run.dropped_file)
            setup.find_place(self.state, saved, self.data)
        prepare_process(self.plan, seed=training.seed, tf32=training.tf32)
        self.model, self.schedule, self.step = setup.make_model(make_model, config, self.plan)
        if self.model.built:
            self._build_step()
        if source is not None:
            tokenizer = None if self.data is None else self.data.tokenizer
            setup.start_from(source, self.step, tokenizer, speakers=speakers, languages=languages)
        self._checkpoints = CheckpointManager(
            self.run.checkpoints,
            config=config,
            step=self.step,
            state=self.state,
            stopping=self.stopping,
            data=self.data,
            speakers=speakers,
            languages=languages,
            resumed=saved is not None,
            writes=self.replicas.is_first,
        )
        self._losses = LossReport(self.step, batches_a_step=self.replicas.world)
        self._pipeline_report = PipelineReport(self.plan, self.progress)
        self._traces = TraceWatch(planned_shapes(self.data))
        self._leaks = LeakWatch(self.plan)
        self._stage, self._plain_stage = setup.device_stages(config, self.plan)
        self._validator = Validator(
            self.step,
            device=self.model_device,
            prepare=self._prepare,
            data=self.data,
            state=self.state,
            stopping=self.stopping,
            samples_dir=self.run.samples_dir,
            training=training,
        )
        self._was_a_voice = source is not None
        setup.write_config(config, self.run.config_file)

    def train(
        self,
        train_dataset: Iterable[Any] | None = None,
        val_dataset: Iterable[Any] | None = None,
        epochs: int | None = None,
        *,
        on_step: OnStep | None = None,
    ) -> dict[str, Any]:
        """Run the epochs (or `max_steps`) from where the run is; returns what came of it.

        A data set is ours (from `config.data.train_data`), or any iterable of batches, for example
        a `tf.data.Dataset` of `(text_sequences, mel_spectrograms, text_lengths, mel_lengths)`.
        """
        sources.refuse_one_shot(val_dataset)
        training = self.config.training
        training.epochs = epochs or training.epochs
        world = self.replicas.world
        steps = sources.planned_steps(training, self.data, train_dataset, replicas=world)
        self.stop_after(steps or UNKNOWN_LENGTH)
        self._stop = StopRequest(meanwhile=self._checkpoints.save_meanwhile)
        self.step.drop_gradients()
        self._first_step = self.state.step
        self._began = time.monotonic() - self.state.seconds
        losses: Losses = {}
        run, report = self.run.path, self._pipeline_report
        with self.progress, setup.open_log(self) as self.log, self._stop:
            if self._was_a_voice and self.state.step == 0:
                self._validator.sample(self.log)  # so that progress can be heard
            try:
                with (
                    self._pipeline(train_dataset) as batches,
                    report.final(batches, run, self.state, self.log),
                    self._checkpoints.kept(self.log),  # before anything that may hang is closed
                ):
                    try:
                        losses = self._train_on(batches, val_dataset, on_step)
                        self.replicas.leave(self._stop)
                    except StoppedTogetherError as together:
                        self.replicas.heard(together, self._stop)
                        self.step.drop_gradients()
                    if self._stop:
                        name = self._stop.signal_name
                        log.info("Stopped by %s at step %d", name, self.steps_done)
                first = self.replicas.is_first
                if self.step.at_update and first:
                    self._report()
                if first and not self._stop and self.state.step > self._first_step:
                    with self._checkpoints.kept(self.log):
                        self._finish(val_dataset)
            except tf.errors.ResourceExhaustedError as error:
                raise MemoryBudgetError(
                    f"A device ran out of memory outside the training step: {error.message}",
                    "a smaller --batch-size or --prefetch-buffer-size, or more --data-gpu-memory "
                    "(--model-gpu-memory if it was while validating)",
                ) from error
        self._checkpoints.raise_if_unsaved()
        stats = batches.stats()
        if first:
            warn_of_uneven_steps(stats, self.config, self.plan)
        return {
            "steps": self.state.step,
            "losses": {name: float(value) for name, value in losses.items()},
            "stats": stats,
            "stopped_by": self._stop.signal_number,
            "best_loss": self.stopping.best,
        }

    def stop_after(self, steps: int) -> None:
        """Let the run end at this step, and the learning rate fall until then."""
        self._last_step = steps
        self.schedule.total_steps.assign(steps)
        self.progress.total_steps = None if steps == UNKNOWN_LENGTH else steps

    @property
    def steps_done(self) -> int:
        """Updates so far, those before a resume included."""
        return self.state.step

    def close(self) -> None:
        """Let go of the run folder."""
        self.run.__exit__(None, None, None)
        self.replicas.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the phases, named; the pipeline calls the first on a thread of its own --

    def _preprocess_on_data_gpu(self, batch: Any) -> Any:
        """Work on the data device: features from waveforms, where a batch holds any."""
        if holds_waves(batch):
            return self._stage(batch)
        if isinstance(self.model, XTTS):
            return batch_from_features(batch, vocab_size=self.config.model.vocab_size)
        return batch

    def _transfer_to_model_gpu(self, batch: Any) -> Any:
        """Copy a processed batch to the model device, as the pipeline does."""
        return copy_to_model_device(batch, self.plan)

    def _train_step_impl(self, batch: Any) -> Losses:
        """Update the model on the model device; where memory runs out, in micro-batches."""
        if not self.step.built:
            self._build_step(batch)
        while True:
            try:
                losses = self.step(batch)
            except tf.errors.ResourceExhaustedError as error:
                self._make_room(batch, error)
            else:
                self._traces.check(self.step.traces, batch)
                return losses

    def _train_on(
        self,
        batches: ProducerConsumerPipeline,
        val_dataset: Iterable[Any] | None,
        on_step: OnStep | None,
    ) -> Losses:
        """Update after update, until there is a reason to end; the last batch's losses."""
        losses: Losses = {}
        for batch in batches:
            self._traces.announce(batches.shape, batch)
            losses = self._train_step_impl(batch)
            batches.finish_with(last_made(losses))
            if self.replicas.hear_all(at_update=self.step.at_update):
                self._losses.add(losses, batches.state)
            if self.step.at_update:
                self._count_update(batches.state, losses, on_step)
                self._do_what_is_due(val_dataset, batches)
            if self._stop or self._is_done:
                return losses
        # The last epoch's last few batches; a run asked to stop does them again.
        if not self._stop and self.step.apply_what_is_left():
            self._count_update(batches.state, losses, on_step)
        return losses

    # -- between two steps --

    def _count_update(self, state: LoaderState, losses: Losses, on_step: OnStep | None) -> None:
        """An update is done, and the run goes on from this state of its data."""
        self.state.step += 1
        self.state.epoch, self.state.position = state
        self.state.seconds = time.monotonic() - self._began
        self._checkpoints.count_update()
        self._after_step()
        if on_step is not None:
            on_step(self.state.step, losses)

    def _after_step(self) -> None:
        """Watch memory; the memory-isolated trainer looks at its limits here too."""
        for leak in self._leaks.check(self.state.step - self._first_step):
            log.warning("%s", leak)
            self.log.event("leak", step=self.state.step, warning=str(leak))

    def _do_what_is_due(
        self, val_dataset: Iterable[Any] | None, batches: ProducerConsumerPipeline
    ) -> None:
        training, step = self.config.training, self.state.step
        first = self.replicas.is_first
        if first and (step % training.log_steps == 0 or step == 1 or self._is_done):
            self._report()
            self._pipeline_report.write(step, batches, self.log)
            self.replicas.tell_pace(step, self.log)
        else:
            self.progress.update(step)
        if step % SKIP_CHECK_STEPS == 0:
            self._losses.refuse_endless_skipping(self.data, self._checkpoints.describe())
        if not first:
            return  # and wait, in the next sum, until the first has done the rest
        validates, samples = self._validator.due(self._last_step)
        if validates or samples or self._checkpoints.is_due:
            with batches.paused():
                best = validates and self._validate(val_dataset)
                if samples and not self._stop:
                    self._validator.sample(self.log)
                if best or self._checkpoints.is_due:
                    self._checkpoints.save(self.log, best=best)

    @property
    def _is_done(self) -> bool:
        return self.state.step >= self._last_step or self.stopping.should_stop

    def _finish(self, val_dataset: Iterable[Any] | None) -> None:
        """The run is through: measure, listen, and keep the result."""
        if self.stopping.should_stop:
            log.info(
                "Stopping early: no better validation loss than %.4f since step %s",
                self.stopping.best,
                self.stopping.best_step,
            )
        if self.data is not None and self.data.num_lost:
            log.warning("%d clips could no longer be read", self.data.num_lost)
        if not self._validator.is_up_to_date and self._validate(val_dataset):
            self._checkpoints.save(self.log, best=True)
        if not self._stop:
            self._validator.sample(self.log)

    def _validate(self, val_dataset: Iterable[Any] | None) -> bool:
        return self._validator.validate(val_dataset, self.log, stop_when=lambda: bool(self._stop))

    def _report(self) -> None:
        with tf.device(self.model_device):
            rate = float(self.schedule(self.step.optimizer.iterations))
        self._losses.write(
            self.state.step, self.log, self.progress, learning_rate=rate, epoch=self.state.epoch
        )

    def _prepare(self, host_batch: Any) -> Any:
        """All phases before the step at once, for the few batches of a validation; never varied."""
        batch, _ = put_on_device(host_batch, self.plan.data_device)
        varied = self._stage is not self._plain_stage and holds_waves(batch)
        with tf.device(self.plan.data_device):
            batch = self._plain_stage(batch) if varied else self._preprocess_on_data_gpu(batch)
        return self._transfer_to_model_gpu(batch)

    def _make_room(self, batch: Any, error: Exception) -> None:
        """Memory ran out: go on in micro-batches if that was asked for."""
        at = self.state.step + 1
        rows = work_on_less(self.step, batch, self.config, self.plan, at=at, error=error)
        self._traces.expect_more()
        self.log.event("out_of_memory", step=self.state.step, micro_batch=rows)

    # -- set-up --

    def _configure_devices(self) -> DevicePlan:
        return configure_devices(**asdict(self.config.data.device_request()))

    def _build_step(self, batch: Any = None) -> None:
        """Make every variable, and fill them from the checkpoint the run goes on from."""
        self.step.build(batch)
        if self._saved is not None:
            if self.replicas.is_first:
                restore_snapshot(self.step, self._saved.tensors)
            self._saved = None  # as large as the model and its optimiser together
        self.replicas.attach(self.step, compiled=self.config.training.xla)

    def _pipeline(self, dataset: Iterable[Any] | None) -> ProducerConsumerPipeline:
        """The batches still to come, on their way to the model device."""
        training, share = self.config.training, self.replicas.share
        start = LoaderState(self.state.epoch, self.state.position)
        epochs = training.epochs if training.max_steps is None else None
        source, spec = BatchIterator(iter(()), start), None
        if self._is_done:
            log.warning(
                "This run is finished, at step %d; to go on give it more --epochs or --max-steps%s",
                self.state.step,
                ", or more patience" if self.stopping.should_stop else "",
            )
        else:
            source, spec = sources.batches_to_come(
                dataset, self.data, start, epochs=epochs, share=share
            )
        return sources.open_pipeline(
            source,
            self.config.data,
            self.plan,
            process=self._preprocess_on_data_gpu,
            batch_spec=spec,
            stop_when=lambda: bool(self._stop),
        )
