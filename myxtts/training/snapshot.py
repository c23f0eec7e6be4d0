"""A run as a checkpoint holds it: every tensor by name, and where the run is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.models.weights import Arrays, check_fit, named_weights
from myxtts.training.step import TrainStep


@dataclass
class RunState:
    """Where a run is. The place is that of the batch it takes next."""

    step: int = 0  # updates, skipped ones included
    epoch: int = 0
    position: int = 0  # batches of this epoch that are done
    seconds: float = 0.0  # of training, over all its parts


def take_snapshot(step: TrainStep) -> dict[str, Arrays]:
    """Every tensor that the run needs to go on exactly, in groups as the checkpoint's files.

    Weights that train come from where they are trained: for a validation, or a sample, the model's
    own variables hold the averaged ones.
    """
    weights, trained = named_weights(step.model), _trainable(step.model)
    latest = _split(np.asarray(step.weights), trained)
    groups: dict[str, Arrays] = {
        "model": {
            name: latest[name].astype(value.dtype) if name in latest else np.asarray(value)
            for name, value in weights.items()
        },
        "optimizer": {name: np.asarray(value) for name, value in step.variables.items()},
    }
    average = groups["optimizer"].pop("average", None)
    if average is not None:
        groups["ema"] = _split(average, trained)
    return groups


def restore_snapshot(step: TrainStep, tensors: Mapping[str, Arrays]) -> None:
    """Put a snapshot back into a step that is built; nothing changes if anything does not fit."""
    weights, others, averaged = named_weights(step.model), step.variables, _trainable(step.model)
    average = others.pop("average", None)
    groups = {"model": weights, "optimizer": others, "ema": {} if average is None else averaged}
    for group, variables in groups.items():
        check_fit(group, variables, tensors.get(group, {}))
    with tf.device(step.device):
        for group in ("model", "optimizer"):
            for name, variable in groups[group].items():
                variable.assign(tensors[group][name])
        step.take_weights()
        if average is not None:
            average.assign(np.concatenate([tensors["ema"][name].ravel() for name in averaged]))


def _split(flat: Any, variables: Mapping[str, Any]) -> Arrays:
    """All of them end to end, as one array each."""
    ends = np.cumsum([np.prod(v.shape, dtype=int) for v in variables.values()])[:-1]
    return {
        name: part.reshape(variable.shape)
        for (name, variable), part in zip(variables.items(), np.split(flat, ends), strict=True)
    }


def _trainable(model: Any) -> dict[str, Any]:
    """Those of the named variables that training changes, in the order of the average."""
    names = {id(variable): name for name, variable in named_weights(model).items()}
    return {names[id(variable)]: variable for variable in model.trainable_variables}
