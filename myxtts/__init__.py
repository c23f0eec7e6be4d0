"""MyXTTS trains an XTTS-style voice on one or two GPUs and keeps the training GPU busy."""

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"  # Keras reads it on import; another one cannot serve

__version__ = "0.1.0"


def load_when_used(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__` for names by their modules, many of which import TensorFlow."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return load
