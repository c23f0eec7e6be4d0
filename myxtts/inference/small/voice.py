"""Speaks from an ONNX export: onnxruntime draws the mels, NumPy hears and makes the sound."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from myxtts.errors import DataError
from myxtts.features.audio import MEL_DEVIATION, MEL_MEAN, REFERENCE_SAMPLES, num_frames
from myxtts.features.flow import follow_flow
from myxtts.inference.script import Delivery, Line
from myxtts.inference.small.features import log_mel, pitch
from myxtts.inference.small.files import EXPORT_AGAIN, FLOW_GRAPH, SmallFiles, load_small
from myxtts.inference.small.griffin_lim import SmallGriffinLim
from myxtts.inference.small.noise import flow_noise
from myxtts.inference.speaker import Drawn, HeardVoice, Speaker, Vocoder, each_symbol
from myxtts.inference.timbre import speech_sounds
from myxtts.text.languages import LANGUAGE_IDS

INSTALL_REMEDY = "pip install onnxruntime"

Floats = npt.NDArray[np.float32]


class SmallVoice(Speaker):
    """A voice model from an ONNX export. It may be shared by threads."""

    files: SmallFiles

    def __init__(
        self,
        files: SmallFiles,
        *,
        vocoder: Vocoder | None = None,
        timbre: float | None = None,
        threads: int = 1,
    ) -> None:
        super().__init__(files, vocoder or SmallGriffinLim(), timbre)
        self._read, self._utter, self._listen = (
            _session(files, name, threads) for name in ("read.onnx", "utter.onnx", "listen.onnx")
        )
        has_flow = files.head == "flow"
        self._flow = _session(files, FLOW_GRAPH, threads) if has_flow else None

    @classmethod
    def load(cls, path: str | Path, **arguments: Any) -> Self:
        """A voice model from an ONNX export."""
        return cls(load_small(path), **arguments)

    def listen_to_pieces(self, pieces: Sequence[npt.NDArray[np.int16]]) -> HeardVoice:
        """The voice of recordings that `read_references` has read."""
        vector, log_pitch = np.zeros([1, self.files.voice_dim]), np.zeros([1])
        samples, heard = sum(map(len, pieces)), []
        for piece in pieces:
            wave = piece.astype(np.float32) / np.float32(32768.0)
            mel, count = log_mel(wave), num_frames(len(piece))
            contour = pitch(np.pad(wave, [0, REFERENCE_SAMPLES - len(wave)]), len(wave))[:count]
            inputs = {
                "mels": mel[None],
                "lengths": np.array([count], np.float32),
                "pitch": contour[None],
            }
            found_vector, found_pitch = self._listen.run(["vector", "log_pitch"], inputs)
            heard.append(mel)
            vector += found_vector * (len(piece) / samples)
            log_pitch += found_pitch * (len(piece) / samples)
        return HeardVoice(
            vector.astype(np.float32), log_pitch.astype(np.float32), speech_sounds(heard)
        )

    def _draw(self, line: Line, voice: HeardVoice, delivery: Delivery) -> Drawn:
        speeds, shifts = each_symbol(line, delivery)
        inputs = {
            "tokens": np.array([line.ids], np.int32),
            "languages": np.array([LANGUAGE_IDS[delivery.language]], np.int32),
            "vector": np.asarray(voice.vector, np.float32),
            "speeds": speeds,
        }
        hidden, means, durations = self._read.run(["hidden", "means", "durations"], inputs)
        further = {
            "hidden": hidden,
            "means": means,
            "durations": durations,
            "vector": inputs["vector"],
            "log_pitch": np.asarray(voice.log_pitch, np.float32),
            "shifts": shifts,
        }
        if self._flow is None:
            mels, contour = self._utter.run(["mels", "pitch"], further)
        else:
            frames, contour = self._utter.run(["frames", "pitch"], further)
            noise = flow_noise(delivery.seed, frames.shape[1])
            mels = _follow(self._flow, frames, inputs["vector"], noise)
        return Drawn(mels[0], contour[0], durations[0].astype(np.int32))


def _follow(flow: Any, frames: Floats, vector: Any, noise: Floats) -> Floats:
    """The log-mel that the flow leads to from noise."""

    def velocity(mels: Floats, time: float) -> Any:
        at = {"frames": frames, "vector": vector, "time": np.array([time], np.float32)}
        return flow.run(["velocity"], {**at, "mels": mels})[0]

    mels: Floats = follow_flow(velocity, noise) * np.float32(MEL_DEVIATION) + np.float32(MEL_MEAN)
    return mels


def _session(files: SmallFiles, name: str, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise DataError("This voice needs onnxruntime to speak.", INSTALL_REMEDY) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or os.cpu_count() or 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            files.graphs[name], options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime has a dozen of its own
        raise DataError(
            f"{files.folder / name} cannot be run: {error}".split("\n")[0], EXPORT_AGAIN
        ) from error
