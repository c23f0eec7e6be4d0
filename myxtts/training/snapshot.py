"""A run as a checkpoint holds it: every tensor by name, and where the run is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.errors import ConfigError
from myxtts.training.step import TrainStep

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass
class RunState:
    """Where a run is. The place is that of the batch it takes next."""

    step: int = 0  # updates, skipped ones included
    epoch: int = 0
    position: int = 0  # batches of this epoch that are done
    seconds: float = 0.0  # of training, over all its parts

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def weight_names(variables: Sequence[Any]) -> list[str]:
    """A name for each variable that is the same in every process.

    Keras numbers layers that were given no name over the whole process (`dense_7`), so such numbers
    are left out and equal names counted instead.
    """
    seen: Counter[str] = Counter()
    names = []
    for variable in variables:
        name = "/".join(re.sub(r"_\d+$", "", part) for part in variable.path.split("/"))
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}.{seen[name] - 1}")
    return names


def take_snapshot(step: TrainStep) -> dict[str, Arrays]:
    """Every tensor that the run needs to go on exactly, in groups as the checkpoint's files."""
    groups = {
        "model": {name: np.asarray(value) for name, value in _named(step.model).items()},
        "optimizer": {name: np.asarray(value) for name, value in step.variables.items()},
    }
    average = groups["optimizer"].pop("average", None)
    if average is not None:
        averaged = _trainable(step.model)
        ends = np.cumsum([np.prod(v.shape, dtype=int) for v in averaged.values()])[:-1]
        groups["ema"] = {
            name: part.reshape(variable.shape)
            for (name, variable), part in zip(
                averaged.items(), np.split(average, ends), strict=True
            )
        }
    return groups


def restore_snapshot(step: TrainStep, tensors: Mapping[str, Arrays]) -> None:
    """Put a snapshot back into a step that is built; nothing changes if anything does not fit."""
    weights, others, averaged = _named(step.model), step.variables, _trainable(step.model)
    average = others.pop("average", None)
    groups = {"model": weights, "optimizer": others, "ema": {} if average is None else averaged}
    for group, variables in groups.items():
        _check_fit(group, variables, tensors.get(group, {}))
    with tf.device(step.device):
        for group in ("model", "optimizer"):
            for name, variable in groups[group].items():
                variable.assign(tensors[group][name])
        step.take_weights()
        if average is not None:
            average.assign(np.concatenate([tensors["ema"][name].ravel() for name in averaged]))


def assign_weights(model: Any, weights: Arrays) -> None:
    """Give a model all of its weights by name; nothing changes if anything does not fit."""
    named = _named(model)
    _check_fit("model", named, weights)
    for name, variable in named.items():
        variable.assign(weights[name])


def _named(model: Any) -> dict[str, Any]:
    return dict(zip(weight_names(model.variables), model.variables, strict=True))


def _trainable(model: Any) -> dict[str, Any]:
    """Those of the named variables that training changes, in the order of the average."""
    names = {id(variable): name for name, variable in _named(model).items()}
    return {names[id(variable)]: variable for variable in model.trainable_variables}


def _check_fit(group: str, variables: Mapping[str, Any], arrays: Arrays) -> None:
    for name in sorted(set(variables) ^ set(arrays)):
        place = "checkpoint" if name in arrays else "model"
        raise ConfigError(
            f"The checkpoint is of another model: only the {place} has {group} tensor {name}.",
            "use the settings the run began with (its config.yaml), or start anew with "
            "--reset-training",
        )
    for name, variable in variables.items():
        if tuple(variable.shape) != arrays[name].shape:
            raise ConfigError(
                f"The checkpoint is of another model: {name} has the shape "
                f"{list(arrays[name].shape)} there and {list(variable.shape)} here.",
                "use the --model-size and --freeze the run began with (its config.yaml), or start "
                "anew with --reset-training",
            )
