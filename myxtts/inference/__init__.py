"""From a trained model to speech: synthesis, vocoder, exports, and how the result is judged."""

from __future__ import annotations

from myxtts import load_when_used

_HOMES = {
    "SmallVoice": "small.voice",
    "Synthesizer": "synthesizer",
    "export_onnx": "onnx_export",
    "export_voice": "export",
    "load_voice": "voice_files",
    "open_voice": "opening",
}
__all__ = list(_HOMES)

__getattr__ = load_when_used(__name__, _HOMES)
