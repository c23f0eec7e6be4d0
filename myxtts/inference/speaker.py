"""Speaking, whatever computes the spectrograms: the face that every back end shows.

Needs no TensorFlow. A back end says how a line becomes a mel and how a voice is heard; texts,
times, loudness, pauses and streams are the same for all, and are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from myxtts.corpora.base_texts import sentences_of
from myxtts.errors import DataError
from myxtts.features.audio import HOP
from myxtts.inference.loudness import Leveller, limit
from myxtts.inference.references import Recording, read_references
from myxtts.inference.script import Delivery, Line, Script, warn_of, write_script, write_utterance
from myxtts.inference.timbre import correction
from myxtts.inference.times import Sentence, time_line
from myxtts.inference.voice_facts import VoiceFacts
from myxtts.text.lexicon import Lexicon

FADE_S = 0.005  # at both ends of a line, so that nothing clicks where lines are joined

Floats = npt.NDArray[np.float32]
Recordings = Recording | Sequence[Recording]


class Vocoder(Protocol):
    """Turns natural-log mels [F, M] into float waves of F * HOP samples, at the mels' own level."""

    sample_rate: int

    def __call__(
        self, log_mels: Sequence[np.ndarray], pitches: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """Speak each mel, with its pitch [F] in Hz (0: unvoiced) where known; the order is kept."""


class HeardVoice(NamedTuple):
    """The voice of someone who was listened to."""

    vector: Any  # [1, D]
    log_pitch: Any  # [1], the median in natural-log Hz
    sounds: Floats | None = None  # [R, M], log-mels of the speech that was heard


class Drawn(NamedTuple):
    """A line as its model draws it."""

    mel: Floats  # [F, M], natural log
    pitch: Floats  # [F] in Hz, 0 where unvoiced
    durations: npt.NDArray[np.int32]  # [T], in frames


@dataclass(frozen=True)
class Speech:
    """One text, spoken: audio, and what it was made from."""

    wave: Floats
    mel: Floats  # [F, M], natural log
    durations: npt.NDArray[np.int32]  # [T], the frames of each symbol
    symbols: tuple[str, ...]
    pitch: Floats  # [F] in Hz, 0 where unvoiced

    @property
    def alignment(self) -> Floats:
        """Which symbol each frame says: zeros and ones [T, F]."""
        owner = np.repeat(np.arange(len(self.durations)), self.durations)
        said: Floats = (np.arange(len(self.durations))[:, None] == owner).astype(np.float32)
        return said


class Chunk(NamedTuple):
    """A line of a text as audio, with the pause behind it, and when it says what."""

    wave: Floats
    sentence: Sentence  # in seconds from the beginning of the text


class Speaker(ABC):
    """A loaded voice model. It clones whoever it is given to listen to.

    Whatever it says is made line by line, so a text sounds the same to the last bit alone, among
    others and as a stream. Mono, float32, within ±1: peaks of loud voices are limited, not clipped.
    """

    files: VoiceFacts
    vocoder: Vocoder

    def __init__(self, files: VoiceFacts, vocoder: Vocoder, timbre: float | None) -> None:
        self.files, self.vocoder = files, vocoder
        # How far speech is moved to the sounds of the reference: the base voice needs it.
        self.timbre = (1.0 if files.is_base else 0.0) if timbre is None else timbre

    # -- what a back end does --

    @abstractmethod
    def listen_to_pieces(self, pieces: Sequence[npt.NDArray[np.int16]]) -> HeardVoice:
        """The voice of recordings that `read_references` has read."""

    @abstractmethod
    def _draw(self, line: Line, voice: HeardVoice, delivery: Delivery) -> Drawn:
        """The mel of a line."""

    # -- what all do --

    @property
    def sample_rate(self) -> int:
        """Samples a second of what it speaks."""
        return self.vocoder.sample_rate

    def listen(self, references: Recordings) -> HeardVoice:
        """The voice of one speaker, averaged over all recordings by their length.

        A recording is a path, or samples with their rate: `(samples, 16000)`. Together they last
        2 seconds or more; the language does not matter.
        """
        return self.listen_to_pieces(read_references(references))

    def say(self, text: str, **arguments: Any) -> Floats:
        """The audio of one text of any length; arguments as for `stream`."""
        return np.concatenate(list(self.stream(text, **arguments)))

    def speak(
        self,
        texts: str | Sequence[str],
        *,
        references: Recordings = (),
        voice: HeardVoice | None = None,
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
        voice: HeardVoice | None = None,
        lexicon: Lexicon | None = None,
        **how: Any,
    ) -> Iterator[Floats]:
        """The audio of a text sentence by sentence, as soon as each is made.

        In the voice of the references, or one listened to before. How it is said: `language`,
        `speed`, `pitch_shift` in semitones, `loudness` in LUFS, `seed` (for models with the flow
        head), and `force_language`, without which a language that the model never heard is refused.
        The text may be SSML or have `{word|pronunciation}` in it; a lexicon says more words. A
        chunk holds the pause behind its sentence; joined, the chunks are what `say` returns.
        """
        script, delivery = self._prepare(text, lexicon=lexicon, with_words=False, **how)
        return self.read(script.lines, voice=voice or self.listen(references), delivery=delivery)

    def stream_timed(
        self,
        text: str,
        *,
        references: Recordings = (),
        voice: HeardVoice | None = None,
        lexicon: Lexicon | None = None,
        **how: Any,
    ) -> Iterator[Chunk]:
        """What `stream` gives, each chunk with the times of its sentence and words."""
        script, delivery = self._prepare(text, lexicon=lexicon, with_words=True, **how)
        voice = voice or self.listen(references)
        return self.read_timed(script.lines, voice=voice, delivery=delivery)

    def read(
        self, script: Iterable[Line], *, voice: HeardVoice, delivery: Delivery
    ) -> Iterator[Floats]:
        """The audio of the lines of a script, one by one, each with the pause behind it."""
        for chunk in self.read_timed(script, voice=voice, delivery=delivery):
            yield chunk.wave

    def read_timed(
        self, script: Iterable[Line], *, voice: HeardVoice, delivery: Delivery
    ) -> Iterator[Chunk]:
        """The same with the times of each line; its words have some if the script has them."""
        rate = self.sample_rate
        level = Leveller(delivery.loudness, rate) if delivery.loudness is not None else None
        samples = 0
        for line in script:
            speech = self._say(line, voice, delivery)
            wave = _fade_ends(speech.wave, rate)
            wave = limit(level(wave) if level else wave, rate)
            pause = round(line.pause / delivery.speed * rate)
            sentence = time_line(line.text, line.words, speech.durations, frame_s=HOP / rate)
            yield Chunk(np.pad(wave, [0, pause]), sentence.later(samples / rate))
            samples += len(wave) + pause

    def perform(
        self,
        texts: Sequence[str],
        *,
        references: Recordings = (),
        voice: HeardVoice | None = None,
        language: str | None = None,
        **how: Any,
    ) -> list[Speech]:
        """Speak each text in one go, and show what its audio was made from; for looking closer.

        Arguments as for `stream`.
        """
        delivery = self.delivery(language, **how)
        if not texts:
            return []
        lines = [write_utterance(text, **self._reading(delivery)) for text in texts]
        voice = voice or self.listen(references)
        return [self._say(line, voice, delivery) for line in lines]

    def delivery(
        self, language: str | None = None, *, force_language: bool = False, **how: Any
    ) -> Delivery:
        """How a text will be said, checked."""
        return Delivery(self.files.language_for(language, force=force_language), **how)

    def script(self, text: str, delivery: Delivery, **how: Any) -> Script:
        """A text as this voice will say it, checked; arguments as for `write_script`."""
        return write_script(text, **self._reading(delivery), **how)

    def warm_up(self, voice: HeardVoice, language: str | None = None) -> None:
        """Say something to nobody, so that the first request does not pay for what comes first."""
        delivery = self.delivery(language)
        text = sentences_of(delivery.language)[0]
        line = write_utterance(text, **self._reading(delivery))
        self._say(line, voice, delivery)

    def _prepare(
        self, text: str, *, lexicon: Lexicon | None, with_words: bool, **how: Any
    ) -> tuple[Script, Delivery]:
        delivery = self.delivery(**how)
        script = self.script(text, delivery, lexicon=lexicon, with_words=with_words)
        warn_of(script.unsupported)
        return script, delivery

    def _reading(self, delivery: Delivery) -> dict[str, Any]:
        """How a text in this language is read by this voice."""
        return {
            "tokenizer": self.files.tokenizer,
            "language": delivery.language,
            "max_text_length": self.files.max_text_length,
        }

    def _say(self, line: Line, voice: HeardVoice, delivery: Delivery) -> Speech:
        mel, pitch, durations = self._draw(line, voice, delivery)
        if self.timbre:
            if voice.sounds is None:
                raise DataError(
                    "This voice was listened to by an earlier version, which did not keep its "
                    "sounds: it cannot be moved to them.",
                    "--reference FILE.wav, --timbre 0, or export it anew",
                )
            mel = mel + np.float32(self.timbre) * correction(voice.sounds, mel, durations)
        (wave,) = self.vocoder([mel], [pitch])
        symbols = tuple(self.files.tokenizer.symbols[i] for i in line.ids)
        return Speech(wave=wave, mel=mel, durations=durations, symbols=symbols, pitch=pitch)


def each_symbol(line: Line, delivery: Delivery) -> tuple[Floats, Floats]:
    """The speed and the shift in semitones of each symbol of a line, [1, T] both."""
    speeds = np.full([1, len(line.ids)], delivery.speed, np.float32)
    shifts = np.full([1, len(line.ids)], delivery.pitch_shift, np.float32)
    if line.styles:
        own = np.array(line.styles, np.float32).T  # speeds and shifts
        speeds = np.clip(speeds * own[0], 0.1, 8.0)
        shifts = np.clip(shifts + own[1], -36.0, 36.0)
    return speeds, shifts


def _fade_ends(wave: Floats, sample_rate: int) -> Floats:
    count = min(round(FADE_S * sample_rate), len(wave) // 2)
    ramp = (0.5 - 0.5 * np.cos(np.pi * (np.arange(count) + 0.5) / max(1, count))).astype(np.float32)
    faded: Floats = wave.copy()
    faded[:count] *= ramp
    faded[len(wave) - count :] *= ramp[::-1]
    return faded
