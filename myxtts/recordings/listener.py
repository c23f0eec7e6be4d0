"""The base voice as a listener: what a recording sounds like, and what a text should sound like."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.base import base_folder
from myxtts.features import mels
from myxtts.features.audio import HOP, NUM_MELS, REFERENCE_SAMPLES, num_frames
from myxtts.inference.speaker import HeardVoice
from myxtts.inference.synthesizer import Synthesizer
from myxtts.models.mels import normalize
from myxtts.models.reference import Voice
from myxtts.text.languages import LANGUAGE_IDS
from myxtts.text.tokenizers import Tokenizer

Floats = npt.NDArray[np.float32]
Wave = npt.NDArray[np.int16]
CHUNK = 2048  # frames heard at once
MARGIN = 4  # frames at each side that belong to the neighbours
REFERENCES = 8  # pieces of 3 s by which a speaker is known
BATCH = 16  # texts
LONGEST = 256  # tokens of a text


@cache
def base_listener() -> Listener:
    """The one listener of a process: making it takes seconds."""
    return Listener()


class Listener:
    """Holds the base voice, in the size that its thresholds were measured with."""

    def __init__(self) -> None:
        self._synthesizer = Synthesizer.load(base_folder("tiny"))
        model = self._synthesizer.model
        self._expected = tf.function(
            lambda tokens, lengths, languages, vector, log_pitch: model.mean_spectra(
                tokens, lengths, languages, Voice(vector, log_pitch)
            ),
            input_signature=(
                tf.TensorSpec([BATCH, LONGEST], tf.int32),
                tf.TensorSpec([BATCH], tf.int32),
                tf.TensorSpec([BATCH], tf.int32),
                tf.TensorSpec([BATCH, model.config.voice_dim], tf.float32),
                tf.TensorSpec([BATCH], tf.float32),
            ),
        )
        self._heard = tf.function(
            lambda wave, length: mels.log_mel(wave, length, precise=False),
            input_signature=(
                tf.TensorSpec([1, (CHUNK + 2 * MARGIN) * HOP], tf.float32),
                tf.TensorSpec([1], tf.int32),
            ),
        )

    @property
    def tokenizer(self) -> Tokenizer:
        """How it reads text."""
        return self._synthesizer.files.tokenizer

    def hear(self, wave: Wave) -> Floats:
        """The mels [F, M] of a wave of any length, as the model sees them."""
        frames = num_frames(len(wave))
        found = np.empty([frames, NUM_MELS], np.float32)
        for start in range(0, frames, CHUNK):
            first = max(0, start - MARGIN)
            piece = wave[first * HOP : (start + CHUNK + MARGIN) * HOP]
            padded = np.zeros([1, (CHUNK + 2 * MARGIN) * HOP], np.float32)
            padded[0, : len(piece)] = piece / np.float32(32768.0)
            heard = self._heard(padded, np.array([len(piece)], np.int32)).numpy()[0]
            stop = min(start + CHUNK, frames)
            found[start:stop] = heard[start - first : stop - first]
        return np.asarray(normalize(found), np.float32)

    def voice_of(self, pieces: Sequence[Wave]) -> HeardVoice:
        """Who speaks in these pieces of at most 3 s each; some of them, evenly chosen."""
        chosen = np.linspace(0, len(pieces) - 1, min(REFERENCES, len(pieces))).round().astype(int)
        return self._synthesizer.listen_to_pieces([pieces[i][:REFERENCE_SAMPLES] for i in chosen])

    def expect(
        self, texts: Sequence[Sequence[int]], language: str, voice: HeardVoice
    ) -> list[Floats]:
        """The mean spectrum of each token of each text, said by a voice: [T, M] each."""
        expected: list[Floats] = []
        numbers = np.full([BATCH], LANGUAGE_IDS[language], np.int32)
        voices = tf.repeat(voice.vector, BATCH, 0), tf.repeat(voice.log_pitch, BATCH, 0)
        for start in range(0, len(texts), BATCH):
            some = texts[start : start + BATCH]
            tokens = np.zeros([BATCH, LONGEST], np.int32)
            lengths = np.ones([BATCH], np.int32)
            for row, ids in enumerate(some):
                tokens[row, : len(ids)] = ids
                lengths[row] = len(ids)
            means = self._expected(tokens, lengths, numbers, *voices).numpy()
            expected += [means[row, : len(ids)] for row, ids in enumerate(some)]
        return expected
