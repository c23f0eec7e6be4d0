"""A crowd of espeak-ng speakers, from which a model learns what a voice is; some are kept apart.

The settings are spread evenly over their ranges (one value from each of as many equal parts, in
shuffled order), so that a crowd of any size has no gaps and few twins.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from myxtts.corpora.demo import DemoSummary, DemoVoice, make_demo_corpus

NUM_VOICES = 120
CLIPS_A_VOICE = 12
HELD_OUT_A_VOICE = 2  # of trained words, and as many of unseen words

# espeak-ng's variants that the women and the men of the training set are made of.
_WOMEN = (
    *("f1", "f2", "f4", "f5", "Andrea", "anika", "belinda", "steph", "steph2", "steph3"),
    *("grandma", "aunty", "Alicia", "shelby"),
)
_MEN = (
    *("m1", "m2", "m3", "m4", "m5", "m6", "m8", "Alex", "Andy", "Denis", "Michael", "Mario"),
    *("Mike", "antonio", "john", "pablo", "pedro", "Jacky", "max", "ed"),
)
# Variants that no voice of the training set is made of.
_NEW_WOMEN = ("f3", "linda", "Annie")
_NEW_MEN = ("m7", "Diogo", "grandpa")
_NUM_UNSEEN = 16

_PITCH, _PITCH_RANGE, _RATE = (20, 85), (25, 75), (145, 168)
_FORMANTS = (0.88, 1.12)


@lru_cache(maxsize=1)
def trained_voices() -> tuple[DemoVoice, ...]:
    """The speakers of the training set, women and men in turn."""
    return _crowd("v", _WOMEN, _MEN, count=NUM_VOICES, seed=0)


@lru_cache(maxsize=1)
def unseen_voices() -> tuple[DemoVoice, ...]:
    """Speakers who are never trained on; the first six are of variants that training lacks."""
    new = _crowd("n", _NEW_WOMEN, _NEW_MEN, count=len(_NEW_WOMEN) + len(_NEW_MEN), seed=1)
    return new + _crowd("u", _WOMEN, _MEN, count=_NUM_UNSEEN - len(new), seed=2)


def make_many_voices_corpus(
    folder: Path,
    *,
    language: str = "en",
    progress: Callable[[int, int], None] | None = None,
) -> DemoSummary:
    """Speak the corpus of all of them into `folder`, or reuse it; see `make_demo_corpus`."""
    return make_demo_corpus(
        folder,
        voices=trained_voices(),
        unseen_voices=unseen_voices(),
        sentences=NUM_VOICES * CLIPS_A_VOICE,
        held_out=NUM_VOICES * HELD_OUT_A_VOICE,
        language=language,
        progress=progress,
    )


def make_crowd(prefix: str, *, count: int, seed: int) -> tuple[DemoVoice, ...]:
    """Another crowd of the training set's variants; what is kept for judging is not among them."""
    return _crowd(prefix, _WOMEN, _MEN, count=count, seed=seed)


def _crowd(
    prefix: str, women: Sequence[str], men: Sequence[str], *, count: int, seed: int
) -> tuple[DemoVoice, ...]:
    """So many voices, women and men in turn, each half with settings spread over all ranges."""
    rng = random.Random(seed)  # noqa: S311 - a shuffle, not a secret
    size = count // 2
    voices: list[list[DemoVoice]] = []
    for sex, variants in enumerate((women, men)):
        pitch, pitch_range, rate, formants = (
            _spread(limits, size, rng) for limits in (_PITCH, _PITCH_RANGE, _RATE, _FORMANTS)
        )
        voices.append(
            [
                DemoVoice(
                    name=f"{prefix}{2 * i + sex:03d}_{variant}",
                    espeak_voice=f"en-us+{variant}",
                    pitch=round(pitch[i]),
                    pitch_range=round(pitch_range[i]),
                    rate=round(rate[i]),
                    formants=round(formants[i], 3),
                )
                for i in range(size)
                for variant in (variants[i % len(variants)],)
            ]
        )
    return tuple(voice for pair in zip(*voices, strict=True) for voice in pair)


def _spread(limits: tuple[float, float], count: int, rng: random.Random) -> list[float]:
    """One value from the middle of each of so many equal parts of a range, shuffled."""
    low, high = limits
    values = [low + (high - low) * (i + 0.5) / count for i in range(count)]
    rng.shuffle(values)
    return values
