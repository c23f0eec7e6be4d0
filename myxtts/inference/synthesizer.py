"""Speaks with TensorFlow: load a voice model once, clone a voice, say any number of texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from typing_extensions import Self

from myxtts.data.waves import decode
from myxtts.errors import ConfigError, DataError
from myxtts.features import mels
from myxtts.features.audio import REFERENCE_SAMPLES, num_frames
from myxtts.inference.script import Delivery, Line
from myxtts.inference.speaker import (
    FADE_S,
    Drawn,
    Floats,
    HeardVoice,
    Speaker,
    Speech,
    Vocoder,
    each_symbol,
)
from myxtts.inference.timbre import speech_sounds
from myxtts.inference.traced_voice import TracedVoice
from myxtts.inference.vocoder import GriffinLim
from myxtts.inference.voice_files import EXPORT_AGAIN, VoiceFiles, load_voice
from myxtts.models.weights import assign_weights
from myxtts.models.xtts import XTTS
from myxtts.text.languages import LANGUAGE_IDS

__all__ = ["FADE_S", "Speech", "Synthesizer"]


class Synthesizer(Speaker):
    """A voice model in TensorFlow, from a run folder or its export; both sound the same."""

    files: VoiceFiles

    def __init__(
        self,
        files: VoiceFiles,
        *,
        vocoder: Vocoder | None = None,
        device: str = "/CPU:0",
        timbre: float | None = None,
    ) -> None:
        super().__init__(files, vocoder or GriffinLim(device=device), timbre)
        self._device = device
        with tf.device(device):
            self.model = XTTS(files.model)
            try:
                assign_weights(self.model, files.weights)
            except ConfigError as error:
                raise DataError(
                    f"The weights in {files.folder} do not fit their settings: {error.problem}",
                    EXPORT_AGAIN,
                ) from error
        self._traced = TracedVoice(self.model, on_gpu=device.startswith("/GPU"))

    @classmethod
    def load(cls, path: str | Path, **arguments: Any) -> Self:
        """A voice model from a run folder, one of its checkpoints, or an export."""
        return cls(load_voice(path), **arguments)

    def listen_to_pieces(self, pieces: Sequence[npt.NDArray[np.int16]]) -> HeardVoice:
        """The voice of recordings that `read_references` has read."""
        vector, log_pitch = np.zeros([1, self.files.model.voice_dim]), np.zeros([1])
        samples, mels_heard = sum(map(len, pieces)), []
        for piece in pieces:
            padded = np.pad(piece, [0, REFERENCE_SAMPLES - len(piece)])[None]
            with tf.device(self._device):
                heard, mel = self._traced.listen(padded, np.array([len(piece)], np.int32))
            mels_heard.append(mel.numpy()[0, : num_frames(len(piece))])
            vector += heard.vector.numpy() * (len(piece) / samples)
            log_pitch += heard.log_pitch.numpy() * (len(piece) / samples)
        return HeardVoice(
            vector.astype(np.float32), log_pitch.astype(np.float32), speech_sounds(mels_heard)
        )

    def mel_of(self, path: str | Path) -> Floats:
        """The log-mel [F, M] of a recording, to compare with what the model makes of it."""
        wave = decode(Path(path)).astype(np.float32) / 32768.0
        with tf.device("/CPU:0"):
            mel: Floats = mels.log_mel(wave[None], tf.constant([len(wave)]))[0].numpy()
        return mel

    def _draw(self, line: Line, voice: HeardVoice, delivery: Delivery) -> Drawn:
        speeds, shifts = each_symbol(line, delivery)
        with tf.device(self._device):
            said = self._traced.speak(
                np.array([line.ids], np.int32),
                np.array([LANGUAGE_IDS[delivery.language]], np.int32),
                voice.vector,
                voice.log_pitch,
                speeds,
                shifts,
                np.array([delivery.seed % 2**31, 0], np.int32),
            )
        return Drawn(*(said[name][0].numpy() for name in ("mels", "pitch", "durations")))
