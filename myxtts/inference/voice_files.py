"""What a trained voice consists of, from a run folder or an export; nothing is unpickled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.config.config import ModelConfig, TokenizerKind
from myxtts.data.tokenizers import Tokenizer, tokenizer_from_dict
from myxtts.errors import DataError
from myxtts.training.checkpoints import CheckpointStore, load_checkpoint


@dataclass(frozen=True)
class VoiceFiles:
    """A voice model on disk: its shape, its weights by name, how it reads text."""

    folder: Path
    step: int
    model: ModelConfig
    tokenizer: Tokenizer
    speakers: tuple[str, ...]
    language: str
    weights: dict[str, np.ndarray[Any, Any]]

    @property
    def kind(self) -> TokenizerKind:
        """How it reads text."""
        return "characters" if self.tokenizer.kind == "characters" else "phonemes"


def load_voice(path: str | Path) -> VoiceFiles:
    """Read a run folder (its newest whole checkpoint), one checkpoint, or an export."""
    folder = Path(path).expanduser().resolve()
    if (folder / "checkpoints").is_dir():
        checkpoint = CheckpointStore(folder / "checkpoints").latest()
        if checkpoint is None:
            raise DataError(
                f"The run {folder} has no checkpoint yet.", "train for longer, or another run"
            )
    elif (folder / "state.json").is_file():
        checkpoint = load_checkpoint(folder)
    else:
        raise DataError(
            f"{folder} is neither a run folder nor an exported voice.",
            "the folder given with --checkpoint-dir when the voice was trained",
        )
    state = checkpoint.state
    weights = {**checkpoint.tensors["model"], **checkpoint.tensors.get("ema", {})}
    return _assemble(folder, checkpoint.step, state, weights)


def _assemble(folder: Path, step: int, state: dict[str, Any], weights: Any) -> VoiceFiles:
    try:
        return VoiceFiles(
            folder=folder,
            step=step,
            model=ModelConfig(**state["config"]["model"]),
            tokenizer=tokenizer_from_dict(state["tokenizer"]),
            speakers=tuple(state["speakers"]),
            language=state["config"]["data"]["language"],
            weights=weights,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"The checkpoint in {folder} is not of a voice model: {error!r} is missing.",
            "a run trained by `myxtts train`",
        ) from error
