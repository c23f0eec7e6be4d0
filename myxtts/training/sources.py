"""Where a run's batches come from, another program's data sets included, and their pipeline."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from myxtts.config.config import DataConfig, TrainingConfig
from myxtts.data.loader import BatchIterator, LoaderState
from myxtts.data.shares import Share
from myxtts.data.training_data import TrainingData
from myxtts.errors import ConfigError, DataError
from myxtts.pipeline.devices import DevicePlan, Mode
from myxtts.pipeline.engine import ProducerConsumerPipeline
from myxtts.pipeline.iterators import iterate

log = logging.getLogger(__name__)


def foreign_batches(
    dataset: Iterable[Any], start: LoaderState, *, epochs: int | None
) -> BatchIterator:
    """Any iterable, once an epoch; what a resumed run has seen of its epoch is passed over.

    That is done here and now, before the pipeline takes a long search for a stalled stage.
    """
    batches = _read_foreign(dataset, start, epochs)
    if start.position:
        batches = _prepend(list(itertools.islice(batches, 1)), batches)
    return BatchIterator(batches, start)


def _prepend(
    first: list[tuple[LoaderState, Any]], rest: Iterator[tuple[LoaderState, Any]]
) -> Iterator[tuple[LoaderState, Any]]:
    yield from first  # not `chain`: closing this one closes what it reads
    yield from rest


def _read_foreign(
    dataset: Iterable[Any], start: LoaderState, epochs: int | None
) -> Iterator[tuple[LoaderState, Any]]:
    for epoch in itertools.count(start.epoch) if epochs is None else range(start.epoch, epochs):
        seen = start.position if epoch == start.epoch else 0
        skip = getattr(dataset, "skip", None)  # a tf.data.Dataset can do it without reading
        position = seen if skip is not None else 0
        empty = True
        for batch in iterate(dataset if skip is None or not seen else skip(seen)):
            empty = False
            position += 1
            if position > seen:
                yield LoaderState(epoch, position), batch
        if empty and not seen:
            raise DataError(
                f"The training data gave no batch in epoch {epoch + 1}.",
                "give a data set that can be read once an epoch (a generator is spent after one)"
                if epoch
                else "check the data set: it holds no batch",
            )


def refuse_one_shot(val_dataset: Iterable[Any] | None) -> None:
    """A generator would be spent after the first validation, and the run never measured again."""
    if isinstance(val_dataset, Iterator):
        raise DataError(
            f"val_dataset is a {type(val_dataset).__name__}, which can be read only once.",
            "give what every validation can read anew: list(val_dataset), or a tf.data.Dataset",
        )


def planned_steps(
    training: TrainingConfig,
    data: TrainingData | None,
    dataset: Iterable[Any] | None,
    *,
    replicas: int = 1,
) -> int | None:
    """Updates of the whole run; None where the data does not tell how much it is."""
    if training.max_steps is not None:
        return training.max_steps
    batches = _length(dataset) if data is None or dataset is not None else len(data.plan)
    an_update = training.grad_accum * replicas
    return None if batches is None else -(-training.epochs * batches // an_update)


def batches_to_come(
    dataset: Iterable[Any] | None,
    data: TrainingData | None,
    start: LoaderState,
    *,
    epochs: int | None,
    share: Share,
) -> tuple[BatchIterator, Any]:
    """From where a run is, with the description of the largest."""
    if dataset is not None and share.world > 1:
        raise ConfigError(
            "A data set given to train() cannot be shared out among replicas.",
            "let MyXTTS read the recordings: data.train_data",
        )
    if dataset is not None:
        spec = getattr(dataset, "element_spec", None)
        return foreign_batches(dataset, start, epochs=epochs), spec
    if data is not None:
        return data.batches(start, epochs=epochs, share=share), data.largest_batch_spec()
    raise ConfigError(
        "There is no training data.",
        "set data.train_data in the config, or give train() a data set of batches",
    )


def open_pipeline(
    source: Iterable[Any],
    data: DataConfig,
    plan: DevicePlan,
    *,
    process: Callable[[Any], Any],
    batch_spec: Any,
    stop_when: Callable[[], bool],
) -> ProducerConsumerPipeline:
    """The pipeline of these settings, said in two lines."""
    prefetch, depth = data.prefetch_buffer_size, data.pipeline_depth
    log.info("Buffer Size: %d%s", data.pipeline_buffer_size, plan.note)
    log.info("Prefetch Buffer Size: %d, Pipeline Depth: %d", prefetch, depth)
    return ProducerConsumerPipeline(
        source,
        plan=plan,
        process=process,
        depth=depth,
        prefetch_buffer_size=prefetch,
        buffer_size=data.host_buffer_size(two_devices=plan.mode is Mode.MULTI),
        model_start_delay=data.model_start_delay,
        stall_timeout=data.stall_timeout,
        batch_spec=batch_spec,
        stop_when=stop_when,
    )


def _length(dataset: Iterable[Any] | None) -> int | None:
    try:
        return len(dataset)  # type: ignore[arg-type]
    except TypeError:  # a generator, or a tf.data.Dataset of unknown or endless length
        return None
