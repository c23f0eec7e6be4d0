"""What an ONNX export consists of: graphs, and JSON that says how to use them. No code in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.documents import read_bounded, read_json
from myxtts.errors import DataError
from myxtts.features.audio import NUM_MELS
from myxtts.inference.speaker import HeardVoice
from myxtts.inference.voice_facts import VoiceFacts, config_checksum
from myxtts.text.languages import LANGUAGES, check_language
from myxtts.text.tokenizers import tokenizer_from_dict

CONFIG_FILE = "config.json"
ONNX_FORMAT = "myxtts-onnx"
ONNX_FORMAT_NUMBER = 1  # raised when older versions could not read the files any more
FLOW_GRAPH = "flow.onnx"
GRAPHS = ("read.onnx", "utter.onnx", "listen.onnx", FLOW_GRAPH)
EXPORT_AGAIN = "copy it again, or make it anew with `myxtts export RUN_DIR OUT --format onnx`"
LARGEST_CONFIG, LARGEST_GRAPH = 1 << 24, 1 << 31  # bytes


@dataclass(frozen=True, kw_only=True)
class SmallFiles(VoiceFacts):
    """An ONNX export, read and checked."""

    model_size: str
    head: str
    voice_dim: int
    opset: int
    graphs: Mapping[str, bytes]
    voices: Mapping[str, HeardVoice] = field(default_factory=dict)  # listened to beforehand

    @property
    def size(self) -> str:
        """The name of the model's size."""
        return self.model_size


def graph_names(head: str) -> tuple[str, ...]:
    """The graphs that a voice with such a head has."""
    return GRAPHS if head == "flow" else GRAPHS[:-1]


def is_onnx_export(folder: Path) -> bool:
    """Whether a folder is (or means to be) an ONNX export; nothing of it is checked."""
    try:
        start = read_bounded(folder / CONFIG_FILE, max_bytes=LARGEST_CONFIG)[:4096]
    except (OSError, ValueError):
        return False
    return b'"' + ONNX_FORMAT.encode() + b'"' in start


def load_small(path: str | Path) -> SmallFiles:
    """Read an ONNX export; what was changed or cut off is refused."""
    folder = Path(path).expanduser().resolve()
    config = read_config(folder)
    try:
        graphs = {
            name: _read_graph(folder / name, config["files"][name])
            for name in graph_names(str(config["head"]))
        }
        return SmallFiles(
            folder=folder,
            step=int(config["step"]),
            tokenizer=tokenizer_from_dict(config["tokenizer"]),
            speakers=tuple(config["speakers"]),
            language=check_language(config["language"]),
            languages=tuple(check_language(tag) for tag in config["languages"]),
            max_text_length=int(config["max_text_length"]),
            is_base=config.get("base") is True,
            model_size=str(config["size"]),
            head=str(config["head"]),
            voice_dim=int(config["voice_dim"]),
            opset=int(config["opset"]),
            graphs=graphs,
            voices={name: _read_voice(saved) for name, saved in config["voices"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise _refusal(folder, f"{type(error).__name__}, {error}") from error


def read_config(folder: Path) -> dict[str, Any]:
    """The settings of an ONNX export, checked to be ours and whole."""
    file = folder / CONFIG_FILE
    try:
        config = read_json(file, max_bytes=LARGEST_CONFIG)
    except FileNotFoundError:
        raise DataError(
            f"{folder} is no ONNX export: it has no {CONFIG_FILE}.", EXPORT_AGAIN
        ) from None
    except (OSError, ValueError) as error:
        raise _refusal(file, f"it is cut off or damaged ({error})") from error
    if not isinstance(config, dict) or config.get("format") != ONNX_FORMAT:
        raise DataError(
            f"{file} was not written by `myxtts export --format onnx`.", "an ONNX export"
        )
    if config.get("format_number") != ONNX_FORMAT_NUMBER:
        raise DataError(
            f"{file} has format {config.get('format_number')}, this version reads "
            f"{ONNX_FORMAT_NUMBER}.",
            "the version of MyXTTS that wrote it, or export the run with this one",
        )
    if config.get("languages_known") != list(LANGUAGES)[: len(config.get("languages_known", ()))]:
        raise _refusal(file, "it numbers the languages otherwise")
    if config.get("checksum") != config_checksum(config):
        raise _refusal(file, "its checksum does not match: it was changed")
    return config


def save_voice(voice: HeardVoice) -> dict[str, Any]:
    """A voice that was listened to, as JSON holds it."""
    assert voice.sounds is not None
    return {
        "vector": np.asarray(voice.vector)[0].tolist(),
        "log_pitch": float(np.asarray(voice.log_pitch)[0]),
        "sounds": voice.sounds.astype(np.float64).round(2).tolist(),
    }


def _read_voice(saved: Mapping[str, Any]) -> HeardVoice:
    voice = HeardVoice(
        np.array([saved["vector"]], np.float32),
        np.array([saved["log_pitch"]], np.float32),
        # Exports of earlier versions have none.
        np.array(saved["sounds"], np.float32).reshape(-1, NUM_MELS) if "sounds" in saved else None,
    )
    if not all(np.isfinite(part).all() for part in voice if part is not None):
        raise ValueError("a voice in it is not finite")
    return voice


def _read_graph(file: Path, facts: Mapping[str, Any]) -> bytes:
    raw = read_bounded(file, max_bytes=LARGEST_GRAPH)
    if len(raw) != facts["size"]:
        raise ValueError(f"{file.name} is {len(raw)} bytes long instead of {facts['size']}")
    if hashlib.sha256(raw).hexdigest() != facts["sha256"]:
        raise ValueError(f"the checksum of {file.name} does not match")
    return raw


def _refusal(file: Path, reason: object) -> DataError:
    return DataError(f"{file} cannot be used: {reason}.", EXPORT_AGAIN)
