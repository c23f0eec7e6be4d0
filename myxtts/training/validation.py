"""Measures the averaged weights on clips the run does not train on, and lets them speak."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.data.training_data import TrainingData
from myxtts.errors import ConfigError, MyXTTSError
from myxtts.messages import harmless
from myxtts.models.xtts import XTTS
from myxtts.pipeline.iterators import iterate
from myxtts.runs.events import RunLog
from myxtts.text.languages import LANGUAGE_IDS, LANGUAGES
from myxtts.text.scripts import fits_script
from myxtts.text.tokenizers import says_something
from myxtts.training.occasions import Occasions
from myxtts.training.samples import OwnText, Sampler
from myxtts.training.snapshot import RunState
from myxtts.training.step import TrainStep, weighted_mean
from myxtts.training.stopping import EarlyStopping

log = logging.getLogger(__name__)


class Validator:
    """Looks at a run from outside, now and then and at its end.

    `prepare` makes of a host batch what the model takes, on the model device.
    """

    def __init__(
        self,
        step: TrainStep,
        *,
        device: str,
        prepare: Callable[[Any], Any],
        data: TrainingData | None,
        state: RunState,
        stopping: EarlyStopping,
        samples_dir: Path,
        training: TrainingConfig,
    ) -> None:
        self._step, self._device, self._prepare = step, device, prepare
        self._data, self._state, self._stopping = data, state, stopping
        self._samples_dir = samples_dir
        self._own_text = None if data is None else _read_own_text(training.sample_text, data)
        alike_everywhere = training.early_stopping_patience is not None
        self._validations = Occasions(training.validation_steps, by_time=not alike_everywhere)
        self._samples = Occasions(training.sample_steps)
        self._sampler: Sampler | None = None
        self.evaluate = tf.function(step.model.compute_losses, reduce_retracing=True)
        self._validated_step = self._sampled_step = -1
        self._warned = False

    def due(self, total: int) -> tuple[bool, bool]:
        """Whether it is time, behind this step of so many, to validate, and to listen."""
        step = self._state.step
        return self._validations.is_due(step, total=total), self._samples.is_due(step, total=total)

    @property
    def is_up_to_date(self) -> bool:
        """Whether the weights as they are have been measured."""
        return self._validated_step == self._state.step

    def validate(
        self,
        dataset: Iterable[Any] | None,
        run_log: RunLog,
        *,
        stop_when: Callable[[], bool],
    ) -> bool:
        """Measure on the data set, or on our own clips; True if it is the best result yet.

        A loss of no clip is no number, and one of fewer clips than before cannot be compared: they
        are neither the best nor a validation without gain.
        """
        measured = []
        with self._step.averaged_weights(), tf.device(self._device):
            for batch in self._batches(dataset):
                if stop_when():  # a long validation must not outlive the patience of who asked
                    return False
                for micro_batch in self._step.micro_batches(batch):
                    iterations = self._step.optimizer.iterations
                    measured.append(self.evaluate(micro_batch, step=iterations, training=False))
            means = weighted_mean(measured) if measured else {}
        self._validated_step = self._state.step
        losses = {name: float(value) for name, value in means.items()}
        clips = losses.setdefault("weight", 1.0) if measured else 0.0
        if not clips or not self._stopping.is_comparable(clips):
            self._tell_incomplete(dataset, clips, run_log)
            return False
        best = self._stopping.update(losses["loss"], step=self._state.step, clips=clips)
        run_log.scalars(
            self._state.step, {f"validation/{n}": v for n, v in losses.items() if n != "weight"}
        )
        log.info(
            "Validation at step %d: loss %.4f%s",
            self._state.step,
            losses["loss"],
            ", the best so far" if best else "",
        )
        return best

    def sample(self, run_log: RunLog) -> None:
        """Speak a few sentences, always the same, to listen to and look at."""
        model, step = self._step.model, self._state.step
        if not isinstance(model, XTTS) or self._sampled_step == step:
            return
        data = self._data
        batch = None if data is None else next(self._on_device(data.heard_batches()), None)
        if data is None or batch is None:
            return
        self._sampled_step = step
        if self._sampler is None:
            self._sampler = Sampler(model, device=self._device, tokenizer=data.tokenizer)
        folder = self._samples_dir / f"step_{step:08d}"
        try:
            with self._step.averaged_weights():
                self._sampler.write(
                    batch,
                    folder,
                    step=step,
                    log=run_log,
                    texts=["" if row is None else row.text for row in data.heard],
                    own_text=self._own_text,
                )
        except (OSError, MyXTTSError, tf.errors.ResourceExhaustedError) as error:
            # A full disk, say: no reason to stop training.
            log.warning("No samples at step %d: %s", step, error)
        else:
            log.info("Samples of step %d: %s", step, folder)

    def _batches(self, dataset: Iterable[Any] | None) -> Iterator[Any]:
        """Validation batches on the model device, one after another: they are few, and seldom."""
        own = () if self._data is None else self._data.validation_batches()
        return self._on_device(own if dataset is None else dataset)

    def _on_device(self, batches: Iterable[Any]) -> Iterator[Any]:
        return map(self._prepare, iterate(batches))

    def _tell_incomplete(
        self, dataset: Iterable[Any] | None, clips: float, run_log: RunLog
    ) -> None:
        """Say what came of a validation that counts for nothing."""
        wanted, step = self._stopping.clips, self._state.step
        if wanted is None and dataset is None and (self._data is None or not self._data.validation):
            if self._stopping.patience is not None and not self._warned:
                self._warned = True
                log.warning("There is no validation batch: early stopping has nothing to go by")
            return
        run_log.event("incomplete_validation", step=step, clips=clips, wanted=wanted)
        found = f"only {clips:g} of {wanted:g} clips" if clips and wanted else "not a single clip"
        log.warning(
            "Validation at step %d found %s: it is not counted. %s",
            step,
            found,
            "Bring the validation data back"
            if dataset is None
            else "Give val_dataset a data set that can be read again and again, such as a list or "
            "a tf.data.Dataset",
        )


def _read_own_text(text: str | None, data: TrainingData) -> OwnText | None:
    """The user's sentence, in the language of the clip in whose voice it is said, if that fits."""
    if text is None:
        return None
    heard = dict.fromkeys(row.language for row in reversed(data.heard) if row is not None)
    language = next((tag for tag in heard if fits_script(text, tag)), None)
    if language is None:  # its letters would be spelled out all the run long
        spoken = " or ".join(LANGUAGES[tag] for tag in heard)
        raise ConfigError(
            f"--sample-text is said in {spoken}, as in the recordings, and is not written in it: "
            f"{harmless(text)}",
            "another --sample-text",
        )
    ids = data.tokenizer.encode(text, language)
    if not says_something(ids, data.tokenizer):
        raise ConfigError(f"There is nothing to say in {text!r}.", "another --sample-text")
    return OwnText(text, ids, LANGUAGE_IDS[language])
