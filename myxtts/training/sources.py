"""Another program's data set as a source: once an epoch, and exactly resumed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from myxtts.config.config import TrainingConfig
from myxtts.data.loader import BatchIterator, LoaderState
from myxtts.data.training_data import TrainingData
from myxtts.errors import DataError
from myxtts.pipeline.iterators import iterate


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
    training: TrainingConfig, data: TrainingData | None, dataset: Iterable[Any] | None
) -> int | None:
    """Updates of the whole run; None where the data does not tell how much it is."""
    if training.max_steps is not None:
        return training.max_steps
    batches = _length(dataset) if data is None or dataset is not None else len(data.plan)
    return None if batches is None else -(-training.epochs * batches // training.grad_accum)


def _length(dataset: Iterable[Any] | None) -> int | None:
    try:
        return len(dataset)  # type: ignore[arg-type]
    except TypeError:  # a generator, or a tf.data.Dataset of unknown or endless length
        return None
