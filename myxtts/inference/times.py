"""When each word and sentence of a speech is said, from the durations the model itself chose.

As JSON, SubRip or WebVTT. Needs no TensorFlow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from myxtts.errors import ConfigError
from myxtts.text.places import Place

ENDINGS = (".json", ".srt", ".vtt")
_AROUND = "\"'“”‘’«»‹›()[]{}<>,;:.!?…—–-،؛؟。、！？，।"  # marks at a word's sides


class Span(NamedTuple):
    """Something said, and when, in seconds from the beginning."""

    text: str
    start: float
    end: float

    def later(self, seconds: float) -> Span:
        """The same, moved."""
        return Span(self.text, self.start + seconds, self.end + seconds)


class Sentence(NamedTuple):
    """A line of a script as it was said."""

    text: str
    start: float
    end: float
    words: tuple[Span, ...]

    def later(self, seconds: float) -> Sentence:
        """The same, moved."""
        words = tuple(word.later(seconds) for word in self.words)
        return Sentence(self.text, self.start + seconds, self.end + seconds, words)


def time_line(
    text: str, places: Sequence[Place], durations: np.ndarray, *, frame_s: float
) -> Sentence:
    """The times of one line, from 0, by how many frames each of its symbols lasts."""
    # A frame lies around its place in the audio, so that its first half comes before.
    ends = np.maximum(np.concatenate([[0], np.cumsum(durations)]) - 0.5, 0.0) * frame_s
    words = tuple(
        Span(shown, round(float(ends[place.begin]), 4), round(float(ends[place.end]), 4))
        for place in places
        if (shown := place.word.strip(_AROUND) or place.word)
    )
    start = words[0].start if words else 0.0
    end = words[-1].end if words else float(ends[-1])
    return Sentence(text, start, end, words)


def as_dict(sentences: Iterable[Sentence]) -> dict[str, Any]:
    """What the JSON holds: all words in one list, and all sentences in another."""
    said = list(sentences)
    return {
        "words": [_span(word) for sentence in said for word in sentence.words],
        "sentences": [_span(sentence) for sentence in said],
    }


def render_times(sentences: Iterable[Sentence], kind: str) -> str:
    """The text of a file of this kind: json, srt or vtt."""
    said = list(sentences)
    if kind == "json":
        return json.dumps(as_dict(said), ensure_ascii=False, indent=1) + "\n"
    if kind == "srt":
        return "\n".join(
            f"{number}\n{_clock(s.start, ',')} --> {_clock(s.end, ',')}\n{_one_line(s.text)}\n"
            for number, s in enumerate(said, start=1)
        )
    cues = (f"{_clock(s.start, '.')} --> {_clock(s.end, '.')}\n{_karaoke(s)}\n" for s in said)
    return "\n".join(["WEBVTT\n", *cues])


def check_times_file(path: Path) -> str:
    """The kind of times a file's name asks for."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ConfigError(
            f"What times to write to {path} is unclear.",
            f"a name that ends with {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}",
        )
    return ending[1:]


def _span(span: Span | Sentence) -> dict[str, Any]:
    return {"text": span.text, "start": round(span.start, 3), "end": round(span.end, 3)}


def _karaoke(sentence: Sentence) -> str:
    """The sentence's words, each behind the time at which it begins, as WebVTT allows."""
    timed = (f"<{_clock(word.start, '.')}>{_escaped(word.text)}" for word in sentence.words)
    return " ".join(timed) or _escaped(_one_line(sentence.text))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _one_line(text: str) -> str:
    return " ".join(text.replace("-->", "→").split())


def _clock(seconds: float, mark: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{rest // 1000:02d}{mark}{rest % 1000:03d}"
