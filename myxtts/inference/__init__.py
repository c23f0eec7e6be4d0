"""From a trained model to speech: synthesis, vocoder, exports, and how the result is judged."""

from __future__ import annotations

from myxtts import load_when_used

_HOMES = {
    "Synthesizer": "synthesizer",
    "export_voice": "export",
    "load_voice": "voice_files",
}
__all__ = list(_HOMES)

__getattr__ = load_when_used(__name__, _HOMES)
