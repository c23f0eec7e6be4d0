"""Run folders of very small voices that were never trained: enough to load, export and speak."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference import export_voice
from myxtts.models.weights import weight_names
from myxtts.runs.checkpoints import CheckpointStore
from myxtts.text.tokenizers import CharacterTokenizer, Tokenizer
from tests.voices import ONE_BLOCK, make_voice


def save_run(
    folder: Path,
    *,
    tokenizer: Tokenizer | None = None,
    head: str = "regression",
    max_text_length: int = 60,
    state: dict[str, Any] | None = None,
    tune: Callable[[Any], None] | None = None,
    widths: Mapping[str, Any] = ONE_BLOCK,
) -> Path:
    """A run folder with one checkpoint, whose averaged weights differ from the others."""
    tokenizer = tokenizer or CharacterTokenizer()
    model = make_voice(head, vocab_size=tokenizer.vocab_size, **widths)
    if tune is not None:
        tune(model)
    weights = {
        name: np.asarray(variable)
        for name, variable in zip(weight_names(model.variables), model.variables, strict=True)
    }
    data = {"language": "en", "max_text_length": max_text_length}
    CheckpointStore(folder / "checkpoints").save(
        step=7,
        tensors={"model": {name: value + 1.0 for name, value in weights.items()}, "ema": weights},
        state={
            "config": {"model": model.config.model_dump(mode="json"), "data": data},
            "tokenizer": tokenizer.to_dict(),
            "speakers": ["anna", "ben"],
            **(state or {}),
        },
    )
    return folder


def save_voice(folder: Path) -> Path:
    """A folder with a run, its export `voice`, and the recording `reference.wav`."""
    save_run(folder / "run")
    export_voice(folder / "run", folder / "voice")
    soundfile.write(folder / "reference.wav", hum(), SAMPLE_RATE)
    return folder


def hum(seconds: float = 2.5, *, pitch: float = 140.0, rate: int = SAMPLE_RATE) -> np.ndarray:
    """A voice of a kind: a tone with a few harmonics."""
    t = np.arange(round(seconds * rate)) / rate
    return 0.2 * sum(np.sin(2 * np.pi * k * pitch * t) / k for k in range(1, 5))
