"""From a trained model to speech: synthesis, vocoder, exports, and how the result is judged."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "SmallVoice": "small.voice",
    "Synthesizer": "synthesizer",
    "export_onnx": "onnx_export",
    "export_voice": "export",
    "load_voice": "voice_files",
    "open_voice": "opening",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is first used: speaking imports TensorFlow."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
