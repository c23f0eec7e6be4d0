"""When each word of a text is said in a recording, as the base voice hears it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from myxtts.features.audio import HOP, REFERENCE_SAMPLES, SAMPLE_RATE
from myxtts.recordings.best_path import best_path
from myxtts.recordings.listener import LONGEST, Floats, Listener, Wave, base_listener
from myxtts.text.tokenizers import BEGIN_ID, END_ID

FRAME_S = HOP / SAMPLE_RATE
MOST_TOKENS = 160  # of a piece of text that is read at once
_UNSPACED = frozenset({"zh-cn", "ja"})  # no gaps between words: a clause is a word
_CLAUSE = re.compile(r"(?<=[、。，！？；：!?,;])")
_SENTENCE_END = re.compile(r"[.!?…؟۔।。！？][\"'”’»)\]]*$")
PAUSES = frozenset(" ,.?!;:")  # symbols that are no sound
_LEAST_SPREAD = 0.2  # of a band, in units of the model's mels


@dataclass(frozen=True)
class TimedWord:
    """A word as it was written, and when it is said."""

    text: str
    start: float  # seconds
    end: float
    score: float  # mean log-likelihood of its frames: comparable within one recording only

    def later(self, seconds: float) -> TimedWord:
        """The same word in a recording of which this was a part."""
        return replace(self, start=self.start + seconds, end=self.end + seconds)


def split_words(text: str, language: str) -> list[str]:
    """The words of a text as they are written, marks and all; joined they are the text again."""
    words = text.split()
    if language in _UNSPACED:
        words = [part for word in words for part in _CLAUSE.split(word) if part]
    return words


def join_words(words: Sequence[str], language: str) -> str:
    """The text of some words."""
    return ("" if language in _UNSPACED else " ").join(words)


class Aligner:
    """Finds the words of texts in recordings. One for many recordings: it loads the base voice."""

    def __init__(self, listener: Listener | None = None) -> None:
        self.listener = listener or base_listener()

    def align(
        self, wave: Wave, words: Sequence[str], language: str, *, speech: npt.NDArray[np.bool_]
    ) -> list[TimedWord] | None:
        """When each word is said; None if the text cannot be that of the recording.

        `speech` says of each frame whether somebody speaks (`pauses.speech_frames`). It is done
        twice: what the first time shows of the room and the microphone helps the second.
        """
        mels = self.listener.hear(wave)
        speech = np.resize(speech, len(mels)) if len(speech) != len(mels) else speech
        pieces = _speech_pieces(wave, speech)
        if not pieces or not words:
            return None
        tokenizer = self.listener.tokenizer
        tokens = [tokenizer.encode(word, language)[1:-1] for word in words]
        texts = make_pieces(words, tokens, tokenizer.symbols.index(" "))
        means = self.listener.expect(
            [piece.ids for piece in texts], language, self.listener.voice_of(pieces)
        )
        is_sound = sounding(tokenizer.symbols)
        states, optional, owner = make_states(texts, means, is_sound)
        silence = mels[~speech].mean(0) if (~speech).any() else np.full_like(mels[0], mels.min())
        found = best_path(mels, states, optional, silence)
        if found is None:
            return None
        path = found[0]
        said = ~optional[path]
        off = mels[said] - states[path[said]]
        shift, spread = off.mean(0), np.maximum(off.std(0), _LEAST_SPREAD)
        scaled = (mels - shift) / spread
        found = best_path(scaled, states / spread, optional, (silence - shift) / spread)
        if found is None:
            return None
        path, score = found
        score = score - 0.5 * np.square(scaled).sum(1)
        return _time_words(words, owner[path], score)


def _speech_pieces(wave: Wave, speech: npt.NDArray[np.bool_]) -> list[Wave]:
    """Stretches of speech of a reference's length, without the pauses between."""
    samples = np.repeat(speech, HOP)[: len(wave)]
    spoken = wave[: len(samples)][samples]
    if len(spoken) < SAMPLE_RATE // 2:
        return []
    count = max(1, len(spoken) // REFERENCE_SAMPLES)
    return [part[:REFERENCE_SAMPLES] for part in np.array_split(spoken, count)]


def sounding(symbols: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Of each symbol, whether it is heard: marks, gaps, begin and end are not."""
    return np.array([len(symbol) == 1 and symbol not in PAUSES for symbol in symbols])


@dataclass(frozen=True)
class Piece:
    """Some words as the model reads them at once, with the word of each id; -1 is between words."""

    ids: list[int]
    owner: list[int]


def make_pieces(words: Sequence[str], tokens: Sequence[list[int]], space: int) -> list[Piece]:
    """Sentences, or what of them the model can read at once."""
    pieces: list[Piece] = []
    ids, owner = [BEGIN_ID], [-1]

    def close() -> None:
        nonlocal ids, owner
        if len(ids) > 1:
            pieces.append(Piece([*ids, END_ID], [*owner, -1]))
        ids, owner = [BEGIN_ID], [-1]

    for number, word in enumerate(words):
        said = tokens[number][: LONGEST - 2]
        if len(ids) > 1 and len(ids) + len(said) > MOST_TOKENS:
            close()
        if len(ids) > 1:
            ids.append(space)
            owner.append(-1)
        ids += said
        owner += [number] * len(said)
        if _SENTENCE_END.search(word):
            close()
    close()
    return pieces


def make_states(
    pieces: Sequence[Piece], means: Sequence[Floats], is_sound: npt.NDArray[np.bool_]
) -> tuple[Floats, npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Means [S, M], which states may be left out, and the word of each; -1 is a pause.

    What lies between words (gaps, marks, ends of sentences) becomes one state that may be left
    out: where people pause is not where commas are.
    """
    kept_means: list[Floats] = []
    optional: list[bool] = []
    owners: list[int] = []
    for piece, expected in zip(pieces, means, strict=True):
        for token, word, mean in zip(piece.ids, piece.owner, expected, strict=True):
            pause = word < 0 or not is_sound[token]
            if pause and optional and optional[-1]:
                kept_means[-1] = mean if token != BEGIN_ID else kept_means[-1]
                continue
            kept_means.append(mean)
            optional.append(pause)
            owners.append(-1 if pause else word)
    return np.stack(kept_means), np.array(optional), np.array(owners)


def _time_words(
    words: Sequence[str], owners: npt.NDArray[np.int64], score: Floats
) -> list[TimedWord]:
    """Words of no sound (a dash by itself) are said when the word before them ends."""
    timed: list[TimedWord] = []
    order = np.flatnonzero(owners >= 0)
    firsts = np.searchsorted(owners[order], np.arange(len(words)), side="left")
    lasts = np.searchsorted(owners[order], np.arange(len(words)), side="right")
    now = 0.0
    for word, first, last in zip(words, firsts, lasts, strict=True):
        if first == last:
            timed.append(TimedWord(word, now, now, 0.0))
            continue
        frames = order[first:last]
        start, end = float(frames[0]) * FRAME_S, float(frames[-1] + 1) * FRAME_S
        timed.append(TimedWord(word, start, end, float(score[frames].mean())))
        now = end
    return timed
