"""Speaks: load a voice model once, clone a voice from recordings, say any number of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from typing_extensions import Self

from myxtts.data import features
from myxtts.data.store import decode
from myxtts.data.table import LANGUAGE_IDS
from myxtts.data.text import check_language
from myxtts.data.tokenizers import PAD_ID
from myxtts.errors import ConfigError, DataError
from myxtts.inference.references import read_references
from myxtts.inference.vocoder import GriffinLim, Vocoder
from myxtts.inference.voice_files import VoiceFiles, load_voice
from myxtts.models.reference import Voice
from myxtts.models.xtts import XTTS
from myxtts.training.snapshot import assign_weights

SPEEDS = (0.25, 4.0)

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Speech:
    """One text, spoken: audio, and what it was made from."""

    wave: Floats
    mel: Floats  # [F, M], natural log
    alignment: Floats  # [T, F]
    symbols: tuple[str, ...]
    pitch: Floats  # [F] in Hz, 0 where unvoiced


class Synthesizer:
    """A loaded voice model. It clones whoever it is given to listen to."""

    def __init__(
        self, files: VoiceFiles, *, vocoder: Vocoder | None = None, device: str = "/CPU:0"
    ) -> None:
        self.files = files
        self.vocoder = vocoder or GriffinLim(device=device)
        self._device = device
        with tf.device(device):
            self.model = XTTS(files.model)
            assign_weights(self.model, files.weights)
        self._speak = tf.function(self.model.speak, reduce_retracing=True)
        self._listen = tf.function(self._hear)

    @classmethod
    def load(cls, path: str | Path, **arguments: Any) -> Self:
        """A voice model from a run folder or an export."""
        return cls(load_voice(path), **arguments)

    @property
    def sample_rate(self) -> int:
        """Samples a second of what it speaks."""
        return self.vocoder.sample_rate

    def listen(self, references: Sequence[str | Path]) -> Voice:
        """The voice of one speaker, averaged over all recordings by their length."""
        waves, lengths = read_references(references)
        with tf.device(self._device):
            return Voice(*self._listen(tf.constant(waves), tf.constant(lengths)))

    def mel_of(self, path: str | Path) -> Floats:
        """The log-mel [F, M] of a recording, to compare with what the model makes of it."""
        wave = decode(Path(path)).astype(np.float32) / 32768.0
        with tf.device(self._device):
            mel: Floats = features.log_mel(wave[None], tf.constant([len(wave)]))[0].numpy()
        return mel

    def speak(self, texts: Sequence[str], **arguments: Any) -> list[Floats]:
        """The audio of each text; see `perform`."""
        return [speech.wave for speech in self.perform(texts, **arguments)]

    def perform(
        self,
        texts: Sequence[str],
        *,
        references: Sequence[str | Path] = (),
        voice: Voice | None = None,
        language: str | None = None,
        speed: float = 1.0,
        pitch_shift: float = 0.0,
        seed: int = 0,
    ) -> list[Speech]:
        """Speak texts in the voice of the references, or one listened to before.

        `pitch_shift` is in semitones. The seed matters to models with the flow head.
        """
        if not SPEEDS[0] <= speed <= SPEEDS[1]:
            raise ConfigError(
                f"The speed is {speed}.", f"from {SPEEDS[0]} (slow) to {SPEEDS[1]} (fast)"
            )
        if not texts:
            return []
        language = check_language(language or self.files.language)
        tokens = [self._encode(text, language) for text in texts]
        voice = voice or self.listen(references)
        rows = len(tokens)
        padded = np.full([rows, max(map(len, tokens))], PAD_ID, np.int32)
        for row, ids in enumerate(tokens):
            padded[row, : len(ids)] = ids
        with tf.device(self._device):
            said = self._speak(
                tf.constant(padded),
                tf.constant([len(ids) for ids in tokens]),
                tf.fill([rows], LANGUAGE_IDS[language]),
                Voice(*(tf.repeat(part, rows, axis=0) for part in voice)),
                speed=tf.constant(speed, tf.float32),
                pitch_shift=tf.constant(pitch_shift, tf.float32),
                seed=tf.constant([seed % 2**31, 0], tf.int32),
            )
        out = {name: value.numpy() for name, value in said.items()}
        mels = [mel[:length] for mel, length in zip(out["mels"], out["mel_lengths"], strict=True)]
        symbols = self.files.tokenizer.symbols
        return [
            Speech(
                wave=wave,
                mel=mels[row],
                alignment=out["alignment"][row, : len(tokens[row]), : len(mels[row])],
                symbols=tuple(symbols[i] for i in tokens[row]),
                pitch=out["pitch"][row, : len(mels[row])],
            )
            for row, wave in enumerate(self.vocoder(mels))
        ]

    def _encode(self, text: str, language: str) -> list[int]:
        ids = self.files.tokenizer.encode(text, language)
        if len(ids) <= 2:  # begin and end alone
            raise DataError(f"The text {text!r} has nothing to say.", "some words")
        return ids

    def _hear(self, waves: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        floats = tf.cast(waves, tf.float32) / 32768.0
        mask = features.frame_mask(floats, lengths)
        pitch, _ = features.pitch(floats, lengths)
        mels = features.log_mel(floats, lengths)
        frames = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
        heard = self.model.listen(mels, frames, pitch)
        share = tf.cast(lengths, tf.float32) / tf.reduce_sum(tf.cast(lengths, tf.float32))
        vector = tf.reduce_sum(tf.cast(heard.vector, tf.float32) * share[:, None], 0)
        return vector[None], tf.reduce_sum(heard.log_pitch * share)[None]
