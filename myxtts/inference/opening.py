"""Opens a voice with whichever back end it is for: ONNX exports need no TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from myxtts.inference.small.files import is_onnx_export
from myxtts.inference.speaker import Speaker


def open_voice(path: str | Path, *, timbre: float | None = None) -> Speaker:
    """A voice that can speak: a run folder, one of its checkpoints, an export of either kind.

    `base` is the voice that comes with MyXTTS. All but ONNX exports start TensorFlow, on the CPU.
    """
    arguments: dict[str, Any] = {"timbre": timbre}
    if is_onnx_export(Path(path).expanduser()):
        from myxtts.inference.small.voice import SmallVoice

        return SmallVoice.load(path, **arguments)
    from myxtts.inference.synthesizer import Synthesizer

    return Synthesizer.load(path, **arguments)
