"""Judges whether words are understood: a recogniser that knows every word that may be said.

Open-vocabulary recognition fails on small synthetic voices for reasons of its own. Which of a few
dozen words was said in each place of a sentence is a question it can answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from myxtts.errors import DataError, MyXTTSError

INSTALL_REMEDY = "pip install pocketsphinx"
SAMPLE_RATE = 16_000  # of pocketsphinx's English model
PEAK = 0.6
PADDING_SECONDS = 0.2  # at either end: the model expects a breath of silence
DITHER = 1e-4  # of full scale: without it digital silence has no logarithm


class ClosedSetRecogniser:
    """Hears sentences of one word from each slot, in order. Not for several threads at once."""

    def __init__(self, slots: Sequence[Sequence[str]]) -> None:
        if not slots or not all(slots):
            raise DataError("A slot has no words to choose from.", "one word a slot, or more")
        self._slots = [[word.lower() for word in words] for words in slots]
        self._decoder = _load_decoder()
        for word in (word for words in self._slots for word in words):
            if self._decoder.lookup_word(word) is None:
                raise DataError(
                    f"The recogniser's dictionary lacks the word {word!r}.", "a common English word"
                )
        self._decoder.add_jsgf_string("slots", _write_grammar(self._slots))
        self._decoder.activate_search("slots")

    def words(self, wave: np.ndarray, sample_rate: int) -> list[str]:
        """Say what is heard in mono audio of any level, in lower case; nothing if no speech is."""
        if not np.any(wave) or not np.all(np.isfinite(wave)):
            return []
        # The running estimate of background noise outlives an utterance; this forgets it, so that
        # a verdict does not depend on what was heard before.
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        self._decoder.process_raw(_prepare(wave, sample_rate), full_utt=True)
        self._decoder.end_utt()
        hypothesis = self._decoder.hyp()
        return hypothesis.hypstr.split() if hypothesis else []

    def score(self, wave: np.ndarray, sample_rate: int, sentence: str) -> float:
        """Give the share of the sentence's words that are heard in their places."""
        return self.compare(self.words(wave, sample_rate), sentence)

    def compare(self, heard: Sequence[str], sentence: str) -> float:
        """Score words already heard; 0 unless they are as many as the slots."""
        expected: list[str] = re.findall(r"[\w']+", sentence.lower())
        if len(expected) != len(self._slots) or any(
            word not in words for word, words in zip(expected, self._slots, strict=True)
        ):
            raise DataError(
                f"The recogniser cannot judge {sentence!r}: its words are not those of the slots.",
                "a sentence of one word from each slot, in order",
            )
        if len(heard) != len(expected):
            return 0.0
        num_right = sum(word == other for word, other in zip(expected, heard, strict=True))
        return num_right / len(expected)


def _load_decoder() -> Any:
    try:
        import pocketsphinx  # an optional extra
    except ImportError as error:
        raise MyXTTSError("pocketsphinx is not installed.", INSTALL_REMEDY) from error
    # Its defaults are the packaged English model and beams; wider beams read worse.
    return pocketsphinx.Decoder(lm=None, samprate=SAMPLE_RATE, loglevel="FATAL")


def _write_grammar(slots: Sequence[Sequence[str]]) -> str:
    alternatives = " ".join(f"({' | '.join(words)})" for words in slots)
    return f"#JSGF V1.0;\ngrammar slots;\npublic <sentence> = {alternatives};\n"


def _prepare(wave: np.ndarray, sample_rate: int) -> bytes:
    import soxr

    wave = soxr.resample(wave.astype(np.float64), sample_rate, SAMPLE_RATE)
    wave = np.pad(wave * (PEAK / np.max(np.abs(wave))), round(PADDING_SECONDS * SAMPLE_RATE))
    wave += DITHER * np.random.default_rng(0).standard_normal(len(wave))
    return bytes(np.rint(wave * 32767).astype(np.int16))
