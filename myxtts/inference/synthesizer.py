"""Speaks: load a voice model once, clone a voice from recordings, say any number of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from typing_extensions import Self

from myxtts.corpora.base_texts import sentences_of
from myxtts.data.waves import decode
from myxtts.errors import ConfigError, DataError
from myxtts.features import mels
from myxtts.features.audio import REFERENCE_SAMPLES, num_frames
from myxtts.inference.references import Recording, read_references
from myxtts.inference.script import Delivery, Line, write_script, write_utterance
from myxtts.inference.timbre import correction, speech_spectrum
from myxtts.inference.traced_voice import TracedVoice
from myxtts.inference.vocoder import GriffinLim, Vocoder
from myxtts.inference.voice_files import EXPORT_AGAIN, VoiceFiles, load_voice
from myxtts.models.reference import Voice
from myxtts.models.weights import assign_weights
from myxtts.models.xtts import XTTS
from myxtts.text.languages import LANGUAGE_IDS

PROBES = 4  # sentences of ours from which a voice's own average spectrum is heard
MOST_SPECTRA = 16  # voices and languages that are remembered
FADE_S = 0.005  # at both ends of a line, so that nothing clicks where lines are joined

Floats = npt.NDArray[np.float32]
Recordings = Recording | Sequence[Recording]


@dataclass(frozen=True)
class Speech:
    """One text, spoken: audio, and what it was made from."""

    wave: Floats
    mel: Floats  # [F, M], natural log
    alignment: Floats  # [T, F]
    symbols: tuple[str, ...]
    pitch: Floats  # [F] in Hz, 0 where unvoiced


class Synthesizer:
    """A loaded voice model. It clones whoever it is given to listen to.

    Whatever it says is made line by line, so a text sounds the same to the last bit alone, among
    others and as a stream, from a run folder and from its export. Mono, float32, about ±1: loud
    voices may pass it, and whoever writes a file clips.
    """

    def __init__(
        self,
        files: VoiceFiles,
        *,
        vocoder: Vocoder | None = None,
        device: str = "/CPU:0",
        timbre: float | None = None,
    ) -> None:
        self.files = files
        # How far speech is moved to the reference's average spectrum: the base voice needs it.
        self.timbre = (1.0 if files.is_base else 0.0) if timbre is None else timbre
        self._own_spectra: dict[tuple[bytes, str], Floats] = {}
        self.vocoder = vocoder or GriffinLim(device=device)
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

    @property
    def sample_rate(self) -> int:
        """Samples a second of what it speaks."""
        return self.vocoder.sample_rate

    def listen(self, references: Recordings) -> Voice:
        """The voice of one speaker, averaged over all recordings by their length.

        A recording is a path, or samples with their rate: `(samples, 16000)`. Together they last
        2 seconds or more; the language does not matter.
        """
        return self.listen_to_pieces(read_references(references))

    def listen_to_pieces(self, pieces: Sequence[npt.NDArray[np.int16]]) -> Voice:
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
        return Voice(
            tf.constant(vector, tf.float32),
            tf.constant(log_pitch, tf.float32),
            speech_spectrum(mels_heard),
        )

    def say(self, text: str, **arguments: Any) -> Floats:
        """The audio of one text of any length; arguments as for `stream`."""
        return np.concatenate(list(self.stream(text, **arguments)))

    def speak(
        self,
        texts: str | Sequence[str],
        *,
        references: Recordings = (),
        voice: Voice | None = None,
        **arguments: Any,
    ) -> list[Floats]:
        """The audio of each text, all in one voice; arguments as for `stream`."""
        texts = [texts] if isinstance(texts, str) else texts
        if not texts:
            return []
        voice = voice or self.listen(references)
        # Every text is checked before the first is spoken.
        streams = [self.stream(text, voice=voice, **arguments) for text in texts]
        return [np.concatenate(list(chunks)) for chunks in streams]

    def stream(
        self,
        text: str,
        *,
        references: Recordings = (),
        voice: Voice | None = None,
        language: str | None = None,
        speed: float = 1.0,
        pitch_shift: float = 0.0,
        seed: int = 0,
        force_language: bool = False,
    ) -> Iterator[Floats]:
        """The audio of a text sentence by sentence, as soon as each is made.

        In the voice of the references, or one listened to before; `pitch_shift` is in semitones,
        and the seed matters to models with the flow head. A chunk holds the pause behind its
        sentence; joined, the chunks are what `say` returns. A language that the model never heard
        is refused unless forced.
        """
        how = {"speed": speed, "pitch_shift": pitch_shift, "seed": seed}
        delivery = self._delivery(language, force_language=force_language, **how)
        script = write_script(text, **self._reading(delivery))
        return self.read(script, voice=voice or self.listen(references), delivery=delivery)

    def read(self, script: Iterable[Line], *, voice: Voice, delivery: Delivery) -> Iterator[Floats]:
        """The audio of the lines of a script, one by one, each with the pause behind it."""
        for line in script:
            speech = self._say(line, voice, delivery)
            pause = round(line.pause / delivery.speed * self.sample_rate)
            yield np.pad(_fade_ends(speech.wave, self.sample_rate), [0, pause])

    def perform(
        self,
        texts: Sequence[str],
        *,
        references: Recordings = (),
        voice: Voice | None = None,
        language: str | None = None,
        **how: Any,
    ) -> list[Speech]:
        """Speak each text in one go, and show what its audio was made from; for looking closer.

        Arguments as for `stream`.
        """
        delivery = self._delivery(language, **how)
        if not texts:
            return []
        lines = [write_utterance(text, **self._reading(delivery)) for text in texts]
        voice = voice or self.listen(references)
        return [self._say(line, voice, delivery) for line in lines]

    def mel_of(self, path: str | Path) -> Floats:
        """The log-mel [F, M] of a recording, to compare with what the model makes of it."""
        wave = decode(Path(path)).astype(np.float32) / 32768.0
        with tf.device("/CPU:0"):
            mel: Floats = mels.log_mel(wave[None], tf.constant([len(wave)]))[0].numpy()
        return mel

    def _delivery(
        self, language: str | None, *, force_language: bool = False, **how: Any
    ) -> Delivery:
        return Delivery(self.files.language_for(language, force=force_language), **how)

    def _reading(self, delivery: Delivery) -> dict[str, Any]:
        """How a text in this language is read by this voice."""
        return {
            "tokenizer": self.files.tokenizer,
            "language": delivery.language,
            "max_text_length": self.files.max_text_length,
        }

    def _say(self, line: Line, voice: Voice, delivery: Delivery) -> Speech:
        said = self._mel_of_line(line, voice, delivery)
        mel, pitch = said["mels"][0].numpy(), said["pitch"][0].numpy()
        if self.timbre and voice.spectrum is not None:
            own = self._own_spectrum(voice, delivery.language)
            mel = mel + self.timbre * correction(voice.spectrum, mel, usual=own)
        (wave,) = self.vocoder([mel], [pitch])
        return Speech(
            wave=wave,
            mel=mel,
            alignment=said["alignment"][0].numpy(),
            symbols=tuple(self.files.tokenizer.symbols[i] for i in line.ids),
            pitch=pitch,
        )

    def _mel_of_line(self, line: Line, voice: Voice, delivery: Delivery) -> dict[str, tf.Tensor]:
        with tf.device(self._device):
            said: dict[str, tf.Tensor] = self._traced.speak(
                np.array([line.ids], np.int32),
                np.array([LANGUAGE_IDS[delivery.language]], np.int32),
                voice.vector,
                voice.log_pitch,
                np.float32(delivery.speed),
                np.float32(delivery.pitch_shift),
                np.array([delivery.seed % 2**31, 0], np.int32),
            )
        return said

    def _own_spectrum(self, voice: Voice, language: str) -> Floats:
        """The average spectrum of what the model says in this voice, from sentences of ours."""
        key = (np.asarray(voice.vector).tobytes(), language)
        if key not in self._own_spectra:
            delivery = Delivery(language)
            lines = [
                write_utterance(text, **self._reading(delivery))
                for text in sentences_of(language)[:PROBES]
            ]
            spoken = [self._mel_of_line(line, voice, delivery)["mels"][0].numpy() for line in lines]
            if len(self._own_spectra) >= MOST_SPECTRA:
                self._own_spectra.clear()
            self._own_spectra[key] = speech_spectrum(spoken)
        return self._own_spectra[key]


def _fade_ends(wave: Floats, sample_rate: int) -> Floats:
    count = min(round(FADE_S * sample_rate), len(wave) // 2)
    ramp = (0.5 - 0.5 * np.cos(np.pi * (np.arange(count) + 0.5) / max(1, count))).astype(np.float32)
    faded: Floats = wave.copy()
    faded[:count] *= ramp
    faded[len(wave) - count :] *= ramp[::-1]
    return faded
