"""Writes down what is said, with a Whisper model that the user has; nothing is downloaded."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import soxr

from myxtts.errors import DataError
from myxtts.features.audio import SAMPLE_RATE

WHISPER_RATE = 16_000
NEEDED = ("model.bin", "config.json", "tokenizer.json")
PACKAGE_REMEDY = "pip install faster-whisper (it comes with the extra `transcribe`)"
MODEL_REMEDY = (
    "fetch the files model.bin, config.json, tokenizer.json and vocabulary.txt of "
    "https://huggingface.co/Systran/faster-whisper-small (484 MB, or another size) on any computer "
    "with a connection, put them into one folder here, and name it: --transcribe FOLDER"
)
_WHISPER_TAGS = {"zh-cn": "zh"}


class Transcript(NamedTuple):
    """What was understood, and how sure the model is, from 0 to 1."""

    text: str
    confidence: float


class Transcriber:
    """A loaded model; `make` stands for faster-whisper's class and is only for tests."""

    def __init__(self, folder: Path, *, make: Callable[..., Any] | None = None) -> None:
        missing = [name for name in NEEDED if not (folder / name).is_file()]
        if missing:
            raise DataError(
                f"{folder} holds no Whisper model: {', '.join(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing.",
                MODEL_REMEDY,
            )
        if make is None:
            make = _faster_whisper()
        try:
            self._model = make(str(folder), device="auto", local_files_only=True)
        except (RuntimeError, ValueError, OSError) as error:
            raise DataError(
                f"The Whisper model in {folder} cannot be loaded: {error}", MODEL_REMEDY
            ) from error

    def write_down(self, wave: npt.NDArray[np.int16], language: str) -> Transcript:
        """What is said in a clip of our rate; nothing where nobody speaks."""
        heard = soxr.resample(wave.astype(np.float32) / 32768.0, SAMPLE_RATE, WHISPER_RATE)
        segments, _ = self._model.transcribe(
            heard,
            language=_WHISPER_TAGS.get(language, language),
            beam_size=5,
            condition_on_previous_text=False,  # a clip by itself: no error is handed on
        )
        parts = list(segments)  # they are made while they are asked for
        text = " ".join(" ".join(part.text.split()) for part in parts).strip()
        if not text:
            return Transcript("", 0.0)
        weights = np.array([max(part.end - part.start, 1e-3) for part in parts])
        sure = np.array([part.avg_logprob for part in parts])
        heard_speech = np.array([1.0 - part.no_speech_prob for part in parts])
        mean = float(np.average(sure, weights=weights))
        confidence = math.exp(min(mean, 0.0)) * float(np.average(heard_speech, weights=weights))
        return Transcript(text, round(confidence, 3))


def _faster_whisper() -> Callable[..., Any]:
    try:
        from faster_whisper import WhisperModel
    except ImportError as error:
        raise DataError("Transcribing needs faster-whisper.", PACKAGE_REMEDY) from error
    make: Callable[..., Any] = WhisperModel
    return make
