"""A model's weights by name: names that are the same in every process, and arrays that must fit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from myxtts.errors import ConfigError

Arrays = dict[str, np.ndarray[Any, Any]]


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


def is_for_training(name: str) -> bool:
    """Whether a voice speaks without this weight."""
    return "critic" in name.split("/")


def named_weights(model: Any) -> dict[str, Any]:
    """The model's variables by name."""
    return dict(zip(weight_names(model.variables), model.variables, strict=True))


def assign_weights(model: Any, weights: Arrays) -> None:
    """Give a model all of its weights by name; nothing changes if anything does not fit."""
    named = named_weights(model)
    check_fit("model", named, weights)
    for name, variable in named.items():
        variable.assign(weights[name])


def check_fit(group: str, variables: Mapping[str, Any], arrays: Arrays) -> None:
    """Refuse arrays that are another model's, by name or by shape."""
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
