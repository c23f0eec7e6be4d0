"""What a trained voice consists of, from a run folder or an export; nothing is unpickled."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from myxtts.base import BASE, base_folder
from myxtts.config.config import ModelConfig
from myxtts.documents import read_json
from myxtts.errors import DataError, MyXTTSError
from myxtts.inference.voice_facts import VoiceFacts, config_checksum
from myxtts.models.weights import Arrays, is_for_training
from myxtts.runs.checkpoints import Checkpoint, CheckpointStore, load_checkpoint
from myxtts.text.languages import check_language
from myxtts.text.tokenizers import tokenizer_from_dict

__all__ = ["VoiceFiles", "config_checksum", "load_voice", "read_export_config"]

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
FORMAT = "myxtts-voice"
FORMAT_NUMBER = 1  # raised when older versions could not read the files any more
SPEAKING = ("model", "ema")  # the files of a checkpoint that hold weights
EXPORT_AGAIN = "copy it again, or make it anew with `myxtts export RUN_DIR OUT`"


@dataclass(frozen=True, kw_only=True)
class VoiceFiles(VoiceFacts):
    """A voice model on disk: its shape, its weights by name, how it reads text."""

    model: ModelConfig
    weights: Arrays

    @property
    def size(self) -> str:
        """The name of the model's size."""
        return self.model.size


def load_voice(path: str | Path) -> VoiceFiles:
    """Read a run folder, one checkpoint, or an export; `base` is the voice that comes with us.

    Of a run it is the newest whole checkpoint, or the best of one that may stop early.
    """
    folder = base_folder() if str(path) == BASE else Path(path).expanduser().resolve()
    if (folder / "checkpoints").is_dir():
        store = CheckpointStore(folder / "checkpoints")
        checkpoint = store.latest(SPEAKING)
        if checkpoint is None:
            raise DataError(
                f"The run {folder} has no whole checkpoint yet.", "train for longer, or another run"
            )
        training = checkpoint.state.get("config", {}).get("training", {})
        if training.get("early_stopping_patience") is not None:
            checkpoint = store.best(SPEAKING) or checkpoint
    elif (folder / "state.json").is_file():
        checkpoint = load_checkpoint(folder, SPEAKING)
    elif (folder / CONFIG_FILE).is_file() or (folder / WEIGHTS_FILE).is_file():
        return _load_export(folder)
    else:
        found = "is neither a run folder nor an exported voice" if folder.exists() else "is missing"
        raise DataError(
            f"{folder} {found}.",
            f"`{BASE}` for the voice that comes with MyXTTS, or the folder given with "
            "--checkpoint-dir when one was trained, or to `myxtts export`",
        )
    kept = {**checkpoint.tensors.get("model", {}), **checkpoint.tensors.get("ema", {})}
    weights = {name: array for name, array in kept.items() if not is_for_training(name)}
    return _assemble(folder, _facts_of(checkpoint, folder), weights)


def _facts_of(checkpoint: Checkpoint, folder: Path) -> dict[str, Any]:
    """What an export says of itself, from a checkpoint's state."""
    state, config = checkpoint.state, checkpoint.state.get("config", {})
    if "tokenizer" in state and state["tokenizer"] is None:
        raise DataError(
            f"The run {folder} was trained on features, so nobody knows how it reads text.",
            "a run trained on texts and recordings",
        )
    data = config.get("data", {})
    return {
        "step": checkpoint.step,
        "model": config.get("model"),
        "tokenizer": state.get("tokenizer"),
        "speakers": state.get("speakers"),
        "language": data.get("language"),
        "languages": state.get("languages", ()),
        "max_text_length": data.get("max_text_length"),
    }


def read_export_config(folder: Path) -> dict[str, Any]:
    """The settings of an export, checked to be ours and whole."""
    file = folder / CONFIG_FILE
    try:
        config = read_json(file)
    except FileNotFoundError:
        raise _refusal(file, "it is missing", EXPORT_AGAIN) from None
    except (OSError, ValueError) as error:  # bytes that are no UTF-8 are a ValueError too
        raise _refusal(file, f"it is cut off or damaged ({error})", EXPORT_AGAIN) from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise _refusal(file, "it was not written by `myxtts export`", "an exported voice")
    if config.get("format_number") != FORMAT_NUMBER:
        raise _refusal(
            file,
            f"it has format {config.get('format_number')}, this version reads {FORMAT_NUMBER}",
            "the version of MyXTTS that wrote it, or export the run with this one",
        )
    if config.get("checksum") != config_checksum(config):
        raise _refusal(file, "its checksum does not match: it was changed", EXPORT_AGAIN)
    return config


def _load_export(folder: Path) -> VoiceFiles:
    config = read_export_config(folder)
    file = folder / WEIGHTS_FILE
    try:
        raw = file.read_bytes()
        size, digest = config["weights"]["size"], config["weights"]["sha256"]
        if len(raw) != size:
            raise ValueError(f"{len(raw)} bytes long instead of {size}")
        if hashlib.sha256(raw).hexdigest() != digest:
            raise ValueError("its checksum does not match")
        return _assemble(folder, config, load(raw))
    except FileNotFoundError as error:
        raise _refusal(file, "it is missing", EXPORT_AGAIN) from error
    except MyXTTSError:
        raise
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise _refusal(file, error, EXPORT_AGAIN) from error


def _assemble(folder: Path, facts: Mapping[str, Any], weights: Arrays) -> VoiceFiles:
    try:
        voice = VoiceFiles(
            folder=folder,
            step=facts["step"],
            model=ModelConfig(**facts["model"]),
            tokenizer=tokenizer_from_dict(facts["tokenizer"]),
            speakers=tuple(facts["speakers"]),
            language=check_language(facts["language"]),
            # Those of the base voice are kept in half precision, and nothing computes in it.
            weights={
                name: array.astype(np.float32) if array.dtype == np.float16 else array
                for name, array in weights.items()
            },
            languages=tuple(check_language(tag) for tag in facts.get("languages", ())),
            max_text_length=int(facts["max_text_length"]),
            is_base=facts.get("base") is True,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"What is in {folder} is not a voice model's: {type(error).__name__}, {error}.",
            "a run trained by `myxtts train`, or its export",
        ) from error
    symbols, known = voice.tokenizer.vocab_size, voice.model.vocab_size
    if symbols > known:
        raise DataError(
            f"The voice in {folder} reads {symbols} symbols, but its model knows {known}.",
            EXPORT_AGAIN,
        )
    return voice


def _refusal(file: Path, reason: object, remedy: str) -> DataError:
    return DataError(f"{file} cannot be used: {reason}.", remedy)
