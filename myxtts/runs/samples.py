"""What a run let one hear: the sentences of its sample folders, over the steps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_STEP = re.compile(r"step_(\d{1,15})")
_NAME = re.compile(r"[a-z0-9_]{1,40}")
LONGEST_TEXT = 2000  # characters that are read of a file anybody may have written


@dataclass(frozen=True)
class Sample:
    """One sentence at one step."""

    step: int
    name: str  # the same at every step
    wave: Path

    @property
    def picture(self) -> Path:
        """Its spectrogram."""
        return self.wave.with_suffix(".png")


@dataclass(frozen=True)
class Sentence:
    """A sentence as it was said at some steps, the first one first."""

    name: str
    text: str
    samples: tuple[Sample, ...]


def read_sentences(run: Path, *, most: int) -> tuple[Sentence, ...]:
    """What can be heard of a run: each sentence at its first and last step and some between."""
    found: dict[str, list[Sample]] = {}
    for folder in (run / "samples").glob("step_*"):
        step = _STEP.fullmatch(folder.name)
        if step is None:
            continue
        for wave in folder.glob("*.wav"):
            if _NAME.fullmatch(wave.stem):
                found.setdefault(wave.stem, []).append(Sample(int(step[1]), wave.stem, wave))
    sentences = []
    for name, samples in sorted(found.items(), reverse=True):
        samples.sort(key=lambda sample: sample.step)
        sentences.append(Sentence(name, _text_of(samples[-1]), _some(samples, most)))
    return tuple(sentences)


def find_sample(run: Path, *, step: str, file: str) -> Path | None:
    """The file of a sample by names that came from elsewhere; None for anything else."""
    name, _, kind = file.rpartition(".")
    if not (re.fullmatch(r"\d{1,15}", step) and _NAME.fullmatch(name) and kind in ("wav", "png")):
        return None
    path = run / "samples" / f"step_{int(step):08d}" / f"{name}.{kind}"
    return path if path.is_file() else None


def _some(samples: list[Sample], most: int) -> tuple[Sample, ...]:
    """The first, the last, and evenly between them."""
    if len(samples) <= most:
        return tuple(samples)
    last = len(samples) - 1
    chosen = sorted({round(i * last / (most - 1)) for i in range(most)})
    return tuple(samples[i] for i in chosen)


def _text_of(sample: Sample) -> str:
    try:
        with sample.wave.with_suffix(".txt").open(encoding="utf-8", errors="replace") as file:
            return file.read(LONGEST_TEXT).strip()
    except OSError:  # older runs wrote none
        return ""
