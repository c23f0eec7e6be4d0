"""XTTS: text, language and a reference become a mel spectrogram, aligned without a teacher.

Shapes: B batch, T text, F frames, R reference frames, M mels, C channels. A batch is what the data
device makes (`features.device_stage`); a clip's loss is the same whatever it is padded to and
whoever it shares a batch with, and every clip counts the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from myxtts.config.config import ModelConfig
from myxtts.data.feature_batches import batch_from_features
from myxtts.errors import ConfigError
from myxtts.features.audio import NUM_MELS
from myxtts.features.flow import FLOW_STEPS, follow_flow
from myxtts.models.alignment import (
    alignment_from_durations,
    diagonal_prior,
    log_likelihood,
    places_in_tokens,
    search_alignment,
    spread,
)
from myxtts.models.critic import Critic, critic_errors
from myxtts.models.decoder import Decoder
from myxtts.models.encoder import TextEncoder
from myxtts.models.harmonics import harmonic_template
from myxtts.models.layers import Dense, Drop, length_mask, size_of
from myxtts.models.mels import denormalize, normalize
from myxtts.models.noise import Dropout, clip_keys, normal, seed_key, uniform
from myxtts.models.predictors import Predictor
from myxtts.models.reference import ReferenceEncoder, Voice
from myxtts.text.languages import LANGUAGES

PRIOR_STRENGTH, PRIOR_STEPS = 2000.0, 200.0  # the diagonal prior fades out over these steps
PITCH_SCALE = 0.2  # natural-log pitch of one unit of the pitch predictor
LOSS_WEIGHTS = {"mel": 1.0, "means": 0.5, "duration": 0.3, "pitch": 0.2, "voicing": 0.2}
LONGEST_TOKEN = 400.0  # frames, about 5 s: a model that learned nothing must not ask for hours

Batch = dict[str, tf.Tensor]


class Text(NamedTuple):
    """An encoded text: hidden states [B, T, C] and mean spectra [B, T, M]."""

    hidden: tf.Tensor
    means: tf.Tensor
    mask: tf.Tensor
    drop: Drop = None  # in training, for every block that works on it


class Layout(NamedTuple):
    """A text laid out in frames: all that is known before the mel is drawn."""

    frames: tf.Tensor  # [B, F, C]
    mask: tf.Tensor  # [B, F, 1]
    alignment: tf.Tensor
    pitch: tf.Tensor  # [B, F] in Hz, 0 where unvoiced


class XTTS(keras.Model):
    """The voice model. Every weight exists when it has been made."""

    def __init__(
        self, config: ModelConfig, *, sharpness: float = 0.0, dropout: float = 0.0, **model: Any
    ) -> None:
        super().__init__(name="xtts", **model)
        self.config, self.dropout = config, dropout
        self.in_blocks: bool | None = None  # how the alignment is searched: as suits its device
        encoder, decoder, voice = config.encoder_dim, config.decoder_dim, config.voice_dim
        self.reference = ReferenceEncoder(voice, name="reference")
        self.encoder = TextEncoder(
            encoder,
            blocks=config.encoder_blocks,
            symbols=config.vocab_size,
            languages=len(LANGUAGES),
            name="encoder",
        )
        self.means = Dense(NUM_MELS, dtype="float32", name="means")
        self.duration = Predictor(encoder * 3 // 4, outputs=1, name="duration")
        self.pitch = Predictor(encoder * 3 // 4, outputs=2, name="pitch")
        self.decoder = Decoder(
            decoder,
            blocks=config.decoder_blocks,
            voice=voice,
            flow=config.decoder_head == "flow",
            name="decoder",
        )
        self.sharpness = sharpness
        if sharpness:
            if config.decoder_head != "regression":
                raise ConfigError(
                    "A critic keeps the regression head's speech sharp; the flow head draws none "
                    "while it is trained.",
                    "--sharpness 0, or --decoder-head regression",
                )
            self.critic = Critic(dtype="float32", name="critic")
        self.compute_losses(_smallest_batch(), step=tf.constant(0), training=bool(sharpness))
        self.built = True

    # -- training --

    def compute_losses(
        self, batch: Batch, *, step: tf.Tensor, training: bool
    ) -> dict[str, tf.Tensor]:
        """The losses of a batch, of which `loss` is to be minimised; `weight` counts its clips."""
        # Evaluating, a clip's noise is always the same; training, another at every step.
        keys = clip_keys(
            batch["seed"], step if training else 0, batch["tokens"], batch["token_lengths"]
        )
        alignment, text, voice, mels, frame_mask = self._align(
            batch, step, keys if training else None
        )
        pitch = tf.where(batch["voiced"], batch["pitch"], 0.0) * frame_mask[..., 0]
        frames = self._frames(text, alignment, pitch)
        if self.config.decoder_head == "flow":
            mel_error = self._flow_error(frames, text, voice, mels, frame_mask, keys)
        else:
            drawn = self._decode(text, alignment, frames, voice, frame_mask)
            off = drawn - mels
            mel_error = tf.abs(off) + 0.5 * tf.square(off)
        durations = tf.reduce_sum(alignment, axis=2)
        duration_error = self._log_durations(text, voice) - tf.math.log(tf.maximum(durations, 1.0))
        pitch_error, voicing_error = self._pitch_errors(text, alignment, voice, pitch, frame_mask)
        means_error = tf.square(spread(text.means, alignment) - mels)
        voiced = tf.cast(pitch > 0, tf.float32)
        errors = {
            "mel": _per_clip(tf.reduce_mean(mel_error, -1), frame_mask[..., 0]),
            "means": _per_clip(tf.reduce_mean(means_error, -1), frame_mask[..., 0]),
            "duration": _per_clip(tf.square(duration_error), text.mask[..., 0]),
            "pitch": _per_clip(pitch_error, voiced),
            "voicing": _per_clip(voicing_error, frame_mask[..., 0]),
        }
        if self.sharpness and training:
            errors |= critic_errors(self.critic, mels, drawn * frame_mask, frame_mask)
        # A masked row, or one with fewer frames than tokens, has no path and no say.
        tokens, spoken = (
            tf.cast(batch[name], tf.float32) for name in ("token_lengths", "mel_lengths")
        )
        usable = tf.cast((tokens > 0.0) & (spoken >= tokens), tf.float32)
        weight = tf.reduce_sum(usable)
        means = {
            name: tf.reduce_sum(error * usable) / tf.maximum(weight, 1.0)
            for name, error in errors.items()
        }
        weights = {**LOSS_WEIGHTS, "critic": 1.0, "realism": self.sharpness}
        loss = tf.add_n([weights[name] * mean for name, mean in means.items()])
        return {"loss": loss, **means, "weight": weight}

    def mean_spectra(
        self, tokens: tf.Tensor, token_lengths: tf.Tensor, languages: tf.Tensor, voice: Voice
    ) -> tf.Tensor:
        """What each token of texts should sound like, said by voices: normalised [B, T, M]."""
        return self._encode(tokens, token_lengths, languages, voice).means

    def _align(self, batch: Batch, step: tf.Tensor, keys: tf.Tensor | None) -> tuple[Any, ...]:
        mel_lengths, token_lengths = batch["mel_lengths"], batch["token_lengths"]
        frame_mask = length_mask(mel_lengths, size_of(batch["mels"], 1))
        mels = normalize(batch["mels"]) * frame_mask
        voice = self.reference(
            normalize(batch["reference_mels"]),
            batch["reference_lengths"],
            batch["reference_pitch"],
            keys,
        )
        drop = Dropout(keys, self.dropout) if keys is not None and self.dropout else None
        text = self._encode(batch["tokens"], token_lengths, batch["languages"], voice, drop)
        prior = diagonal_prior(size_of(mels, 1), size_of(text.means, 1), mel_lengths, token_lengths)
        fading = tf.maximum(0.0, 1.0 - tf.cast(step, tf.float32) / PRIOR_STEPS)
        likelihood = log_likelihood(text.means, mels) + PRIOR_STRENGTH * fading * prior
        in_blocks = self._is_on_gpu if self.in_blocks is None else self.in_blocks
        alignment = search_alignment(
            tf.stop_gradient(likelihood), token_lengths, mel_lengths, in_blocks=in_blocks
        )
        return alignment, text, voice, mels, frame_mask

    def _pitch_errors(
        self, text: Text, alignment: tf.Tensor, voice: Voice, pitch: tf.Tensor, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        relative, voicing = self._predict_pitch(text, alignment, voice, mask)
        logs = tf.math.log(tf.maximum(pitch, 1.0)) - voice.log_pitch[:, None]
        # Beyond an octave from the reference's median it is the tracker's error, not the voice.
        wanted = tf.clip_by_value(logs, -0.7, 0.7) / PITCH_SCALE
        voiced = tf.cast(pitch > 0, tf.float32)
        return (
            tf.abs(relative - wanted),
            tf.nn.sigmoid_cross_entropy_with_logits(labels=voiced, logits=voicing),
        )

    def _flow_error(
        self,
        frames: tf.Tensor,
        text: Text,
        voice: Voice,
        mels: tf.Tensor,
        mask: tf.Tensor,
        keys: tf.Tensor,
    ) -> tf.Tensor:
        """Squared error of the velocity at a random time between noise and mel."""
        time = uniform(keys, 1, salt=3)[:, 0]
        noise = _noise(keys, mask)
        mixed = noise + time[:, None, None] * (mels - noise)
        velocity = self.velocity(frames, voice.vector, mask, mixed, time, text.drop)
        return tf.square(velocity - (mels - noise))

    # -- speaking --

    def listen(self, mels: tf.Tensor, lengths: tf.Tensor, pitch: tf.Tensor) -> Voice:
        """The voice of references: log-mels [B, R, M], their lengths, pitch in Hz [B, R]."""
        voice: Voice = self.reference(normalize(mels), lengths, pitch, None)
        return voice

    def speak(
        self,
        tokens: tf.Tensor,
        token_lengths: tf.Tensor,
        languages: tf.Tensor,
        voice: Voice,
        *,
        speed: tf.Tensor | float = 1.0,
        pitch_shift: tf.Tensor | float = 0.0,
        seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Log-mels of texts, with their lengths, alignment, durations and pitch.

        `speed`, and `pitch_shift` in semitones, are one number or one for each token [B, T]; the
        seed matters to the flow head only.
        """
        text, durations = self.read(tokens, token_lengths, languages, voice, speed=speed)
        seed = tf.constant([0, 0]) if seed is None else seed
        return self.utter(text, durations, voice, pitch_shift=pitch_shift, seed=seed)

    def read(
        self,
        tokens: tf.Tensor,
        token_lengths: tf.Tensor,
        languages: tf.Tensor,
        voice: Voice,
        *,
        speed: tf.Tensor | float = 1.0,
    ) -> tuple[Text, tf.Tensor]:
        """The first half of speaking: texts, encoded, and how many frames [B, T] each token lasts.

        Until here the number of frames is not known.
        """
        text = self._encode(tokens, token_lengths, languages, voice)
        # Rounded up: what is predicted is the mean of logarithms, which is less than the mean.
        lasting = tf.math.ceil(tf.exp(self._log_durations(text, voice)) / speed)
        return text, tf.clip_by_value(lasting, 1.0, LONGEST_TOKEN) * text.mask[..., 0]

    def utter(
        self,
        text: Text,
        durations: tf.Tensor,
        voice: Voice,
        *,
        pitch_shift: tf.Tensor | float = 0.0,
        seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """The second half: log-mels of texts that were read; as for `speak`."""
        frames, mask, alignment, pitch = self.lay_out(
            text, durations, voice, pitch_shift=pitch_shift
        )
        if self.config.decoder_head == "flow":
            # Added, not repeated: no GPU repeats such numbers.
            keys = seed_key(seed) + tf.cast(tf.zeros([size_of(mask, 0)]), tf.uint32)

            def velocity(mels: tf.Tensor, time: float) -> tf.Tensor:
                times = tf.fill([tf.shape(mask)[0]], tf.cast(time, tf.float32))
                return self.velocity(frames, voice.vector, mask, mels, times)

            mels = follow_flow(velocity, _noise(keys, mask), steps=FLOW_STEPS)
        else:
            mels = self._decode(text, alignment, frames, voice, mask)
        return {
            "mels": denormalize(mels),
            "mel_lengths": tf.cast(tf.reduce_sum(durations, axis=1), tf.int32),
            "alignment": alignment,
            "durations": tf.cast(durations, tf.int32),
            "pitch": pitch,
        }

    def lay_out(
        self,
        text: Text,
        durations: tf.Tensor,
        voice: Voice,
        *,
        pitch_shift: tf.Tensor | float = 0.0,
    ) -> Layout:
        """Frames for texts that were read, with the pitch they are said at."""
        mel_lengths = tf.reduce_sum(durations, axis=1)
        # The one number that the host must know before the rest can begin: how long it lasts.
        longest = tf.cast(tf.reduce_max(mel_lengths), tf.int32)
        alignment = alignment_from_durations(durations, longest)
        mask = length_mask(mel_lengths, longest)
        relative, voicing = self._predict_pitch(text, alignment, voice, mask)
        log_pitch = voice.log_pitch[:, None] + relative * PITCH_SCALE
        if not isinstance(pitch_shift, int | float) and len(pitch_shift.shape):
            pitch_shift = spread(pitch_shift[..., None], alignment)[..., 0]
        log_pitch += pitch_shift * np.float32(np.log(2.0) / 12.0)
        pitch = tf.where(voicing > 0, tf.exp(log_pitch), 0.0) * mask[..., 0]
        return Layout(self._frames(text, alignment, pitch), mask, alignment, pitch)

    def velocity(
        self,
        frames: tf.Tensor,
        vector: tf.Tensor,
        mask: tf.Tensor,
        mels: tf.Tensor,
        time: tf.Tensor,
        drop: Drop = None,
    ) -> tf.Tensor:
        """Where the flow goes from mels at a time [B] between noise (0) and speech (1)."""
        return self.decoder(_join(frames, mels), vector, mask, time, drop=drop)

    # -- what both share --

    @property
    def _is_on_gpu(self) -> bool:
        return "GPU" in self.means.kernel.value.device

    def _encode(
        self,
        tokens: tf.Tensor,
        lengths: tf.Tensor,
        languages: tf.Tensor,
        voice: Voice,
        drop: Drop = None,
    ) -> Text:
        mask = length_mask(lengths, size_of(tokens, 1))
        hidden = self.encoder(tokens, languages, voice.vector, mask, drop=drop)
        return Text(hidden, self.means(hidden) * mask, mask, drop)

    def _log_durations(self, text: Text, voice: Voice) -> tf.Tensor:
        # Cut off: durations must not pull the text into saying less than it could.
        hidden, vector = tf.stop_gradient(text.hidden), tf.stop_gradient(voice.vector)
        return self.duration(hidden, vector, text.mask, drop=text.drop)[..., 0]

    def _predict_pitch(
        self, text: Text, alignment: tf.Tensor, voice: Voice, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Pitch relative to the voice's median, in units of PITCH_SCALE, and voicing, as logits."""
        seen = _join(spread(text.hidden, alignment), places_in_tokens(alignment))
        moves = self.pitch(seen, voice.vector, mask, drop=text.drop)
        relative, voicing = tf.unstack(moves, axis=-1)
        return relative, voicing

    def _frames(self, text: Text, alignment: tf.Tensor, pitch: tf.Tensor) -> tf.Tensor:
        """All that is known of each frame before it is decoded."""
        voiced = tf.cast(pitch > 0, tf.float32)[..., None]
        return _join(
            spread(text.hidden, alignment),
            spread(text.means, alignment),
            places_in_tokens(alignment),
            harmonic_template(pitch),
            voiced,
        )

    def _decode(
        self, text: Text, alignment: tf.Tensor, frames: tf.Tensor, voice: Voice, mask: tf.Tensor
    ) -> tf.Tensor:
        drawn = self.decoder(frames, voice.vector, mask, drop=text.drop)
        return spread(text.means, alignment) + drawn


def _join(*parts: tf.Tensor) -> tf.Tensor:
    return tf.concat([tf.cast(part, parts[0].dtype) for part in parts], axis=-1)


def _noise(keys: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """What the flow begins with, [B, F, M]."""
    rows, frames = size_of(mask, 0), size_of(mask, 1)
    drawn = normal(keys, frames * NUM_MELS, salt=4)
    return tf.reshape(drawn, [rows, frames, NUM_MELS]) * mask


def _per_clip(errors: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Mean error of each clip [B] over its real positions; 0 where it has none."""
    return tf.reduce_sum(errors * mask, 1) / tf.maximum(tf.reduce_sum(mask, 1), 1.0)


def _smallest_batch() -> Batch:
    """One clip of two tokens: enough to make every weight."""
    frames, tokens = 4, 2
    features = (tf.zeros([1, tokens]), tf.zeros([1, frames, NUM_MELS]), [tokens], [frames])
    return batch_from_features(features, vocab_size=1)
