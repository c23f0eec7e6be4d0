"""The clips that training uses, in columns: where they are, how long, what is said and by whom."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from myxtts.data.list_lines import SHOWN
from myxtts.data.manifests import Manifest
from myxtts.data.verdicts import REMEDIES, Verdict
from myxtts.errors import DataError
from myxtts.features.audio import SAMPLE_RATE, num_frames
from myxtts.messages import harmless
from myxtts.text.languages import LANGUAGE_IDS
from myxtts.text.tokenizers import Tokenizer, says_something

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ClipTable:
    """Kept clips only. `samples` is at 22 050 Hz, whatever the file's rate."""

    folder: Path
    paths: tuple[str, ...]  # relative to the folder
    native: npt.NDArray[np.bool_]  # a 16-bit mono WAV at our rate, which TensorFlow reads itself
    samples: Ints
    tokens: tuple[npt.NDArray[np.int32], ...]
    speakers: Ints
    languages: Ints
    speaker_names: tuple[str, ...]
    cache_folder: Path  # converted clips and the disk cache

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def frames(self) -> Ints:
        """Mel frames of each clip."""
        return np.asarray(num_frames(self.samples))

    @property
    def token_lengths(self) -> Ints:
        """Tokens of each clip."""
        return np.array([len(ids) for ids in self.tokens], np.int64)

    def take(self, clips: Ints) -> ClipTable:
        """Some of the clips, in the order given; speakers keep their numbers."""
        return replace(
            self,
            paths=tuple(self.paths[i] for i in clips),
            native=self.native[clips],
            samples=self.samples[clips],
            tokens=tuple(self.tokens[i] for i in clips),
            speakers=self.speakers[clips],
            languages=self.languages[clips],
        )


def judge_texts(
    manifest: Manifest,
    verdicts: Sequence[Verdict],
    tokenizer: Tokenizer,
    *,
    max_text_length: int,
) -> tuple[list[Verdict], list[npt.NDArray[np.int32]]]:
    """Encode every kept text; one too long or in an unknown language is dropped.

    A text of marks alone is no speech. An alignment gives each token a frame of its own, so a
    clip needs as many frames as tokens.
    """
    judged: list[Verdict] = []
    tokens: list[npt.NDArray[np.int32]] = []
    for clip, verdict in zip(manifest, verdicts, strict=True):
        ids: list[int] = []
        if verdict.kept:
            try:
                ids = tokenizer.encode(clip.text, clip.language)
            except DataError as error:
                verdict = replace(verdict, reason="bad row", detail=error.problem)
            if verdict.kept and not _is_speech(clip.text, ids, tokenizer):
                verdict = replace(verdict, reason="nothing to say", detail=clip.text[:SHOWN])
            elif len(ids) > max_text_length:
                detail = f"{len(ids)} tokens, at most {max_text_length}"
                verdict = replace(verdict, reason="text too long", detail=detail)
            elif verdict.kept and len(ids) > (frames := num_frames(_samples(verdict))):
                detail = f"{len(ids)} tokens, {frames} mel frames"
                verdict = replace(verdict, reason="text too long for its audio", detail=detail)
        judged.append(verdict)
        tokens.append(np.array(ids, np.int32))
    return judged, tokens


def make_table(
    manifest: Manifest,
    verdicts: Sequence[Verdict],
    tokens: Sequence[npt.NDArray[np.int32]],
) -> ClipTable:
    """The kept clips of a manifest, in its order."""
    kept = [i for i, verdict in enumerate(verdicts) if verdict.kept]
    if not kept:
        raise _nothing_left(manifest, verdicts)
    names = tuple(sorted({manifest.speakers[i] for i in kept}))
    numbers = {name: number for number, name in enumerate(names)}
    found = [verdicts[i] for i in kept]
    return ClipTable(
        folder=manifest.folder.resolve(),
        paths=tuple(verdict.path for verdict in found),
        native=np.array([_is_native(verdict) for verdict in found]),
        samples=np.array([_samples(verdict) for verdict in found], np.int64),
        tokens=tuple(tokens[i] for i in kept),
        speakers=np.array([numbers[manifest.speakers[i]] for i in kept], np.int64),
        languages=np.array([LANGUAGE_IDS[manifest.languages[i]] for i in kept], np.int64),
        speaker_names=names,
        cache_folder=manifest.folder.resolve() / ".myxtts",
    )


def _is_speech(text: str, ids: list[int], tokenizer: Tokenizer) -> bool:
    """Letters that the tokenizer does not know are speech too; it counts them as unknown."""
    return says_something(ids, tokenizer) or (len(ids) > 2 and any(map(str.isalnum, text)))


def _nothing_left(manifest: Manifest, verdicts: Sequence[Verdict]) -> DataError:
    """Why, with these settings: a later check with others might drop nothing."""
    counts = Counter(verdict.reason for verdict in verdicts).most_common()
    reasons = ", ".join(f"{count} {reason}" for reason, count in counts)
    first = next(i for i, verdict in enumerate(verdicts) if verdict.reason == counts[0][0])
    example = ": ".join(
        filter(None, (manifest.audio[first][:SHOWN], verdicts[first].detail[:SHOWN]))
    )
    return DataError(
        f"No clip of {manifest.folder} can be used: {reasons} (for example {harmless(example)}).",
        REMEDIES[counts[0][0]],
    )


def _is_native(verdict: Verdict) -> bool:
    return (
        verdict.subtype == "PCM_16"
        and verdict.path.lower().endswith(".wav")
        and verdict.sample_rate == SAMPLE_RATE
        and verdict.channels == 1
    )


def _samples(verdict: Verdict) -> int:
    return math.ceil(verdict.frames * SAMPLE_RATE / verdict.sample_rate)
