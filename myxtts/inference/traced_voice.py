"""What a voice model does when it speaks, traced once for every length."""

from __future__ import annotations

import tensorflow as tf

from myxtts.features import mels
from myxtts.features.audio import REFERENCE_SAMPLES
from myxtts.features.pitch import Heard, pitches
from myxtts.models.reference import Voice
from myxtts.models.xtts import XTTS


class TracedVoice:
    """`speak` and `listen` of a model, as functions to call under its device.

    One trace serves every length: the first words do not wait longer than the others.
    """

    def __init__(self, model: XTTS, *, on_gpu: bool) -> None:
        self._model, self._on_gpu = model, on_gpu
        of_each_token = tf.TensorSpec([1, None], tf.float32)
        self.speak = tf.function(
            self._utter,
            input_signature=(
                tf.TensorSpec([1, None], tf.int32),
                tf.TensorSpec([1], tf.int32),
                tf.TensorSpec([1, model.config.voice_dim], tf.float32),
                tf.TensorSpec([1], tf.float32),
                of_each_token,
                of_each_token,
                tf.TensorSpec([2], tf.int32),
            ),
            autograph=False,
        )
        self.listen = tf.function(
            self._hear,
            input_signature=(
                tf.TensorSpec([1, REFERENCE_SAMPLES], tf.int16),
                tf.TensorSpec([1], tf.int32),
            ),
            autograph=False,
        )

    def _utter(
        self,
        tokens: tf.Tensor,
        languages: tf.Tensor,
        vector: tf.Tensor,
        log_pitch: tf.Tensor,
        speed: tf.Tensor,
        pitch_shift: tf.Tensor,
        seed: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        return self._model.speak(
            tokens,
            tf.reduce_sum(tf.ones(tf.shape(tokens)), axis=1),  # all of them
            languages,
            Voice(vector, log_pitch),
            speed=speed,
            pitch_shift=pitch_shift,
            seed=seed,
        )

    def _hear(self, wave: tf.Tensor, length: tf.Tensor) -> tuple[Voice, tf.Tensor]:
        floats = tf.cast(wave, tf.float32) / 32768.0
        # In training no product is rounded to TF32, so none may be here.
        form = {"by_row": not self._on_gpu, "exact": self._on_gpu}
        ((pitch, _),) = pitches([Heard(floats, length)], **form)
        heard = mels.log_mel(floats, length, **form)
        real = tf.cast(mels.frame_mask(floats, length), tf.float32)
        return self._model.listen(heard, tf.reduce_sum(real, axis=1), pitch), heard
