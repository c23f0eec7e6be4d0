"""Where batches come from, each with the place that a resumed run goes on behind."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from myxtts.config.config import TrainingConfig
from myxtts.data.training_data import TrainingData
from myxtts.errors import DataError
from myxtts.training.snapshot import RunState


class Place(NamedTuple):
    """A batch's place: its epoch, and its position in it."""

    epoch: int
    position: int


def own_batches(
    data: TrainingData, state: RunState, training: TrainingConfig
) -> Iterator[tuple[Place, Any]]:
    """Our data from where the run is, to the end of the last epoch, or for ever with max_steps."""
    for batch in data.batches(epoch=state.epoch, position=state.position):
        place = Place(*map(int, batch["place"]))
        if training.max_steps is None and place.epoch >= training.epochs:
            return
        yield place, batch


def foreign_batches(
    dataset: Iterable[Any], state: RunState, training: TrainingConfig
) -> Iterator[tuple[Place, Any]]:
    """Any iterable, once an epoch; what a resumed run has seen of its epoch is passed over.

    That is done here and now, before the pipeline takes a long search for a stalled stage.
    """
    batches = _read_foreign(dataset, state, training)
    if not state.position:
        return batches
    first = list(itertools.islice(batches, 1))
    return itertools.chain(first, batches)


def _read_foreign(
    dataset: Iterable[Any], state: RunState, training: TrainingConfig
) -> Iterator[tuple[Place, Any]]:
    forever = training.max_steps is not None
    epochs = itertools.count(state.epoch) if forever else range(state.epoch, training.epochs)
    for epoch in epochs:
        seen = state.position if epoch == state.epoch else 0
        skip = getattr(dataset, "skip", None)  # a tf.data.Dataset can do it without reading
        position = seen if skip is not None else 0
        empty = True
        for batch in dataset if skip is None or not seen else skip(seen):
            empty = False
            if position >= seen:
                yield Place(epoch, position), batch
            position += 1
        if empty and not seen:
            raise DataError(
                f"The training data gave no batch in epoch {epoch + 1}.",
                "give a data set that can be read once an epoch (a generator is spent after one)"
                if epoch
                else "check the data set: it holds no batch",
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
