"""How a voice reads beside its speaker: loudness from sentence to sentence, pauses, pace.

    python -m benchmarks.delivery DATA [--model base]

DATA is an LJSpeech-like folder of one speaker, whose last clips are read by the voice; --model is
one that was trained on them, or the base voice with them as a reference.

loudness   of whole clips in LUFS: the mean, and how much it differs from clip to clip
pace       seconds of speech a clip, from its first sound to its last
pauses     at commas, at semicolons and colons, and between sentences: how many of the marks have
           one, and the median length of those; between sentences the voice's is that of `say`

A pause is 0.06 s or more, 32 dB below the louder parts, within 8 % of where the mark stands in the
text. Everything on the CPU.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from benchmarks.few_minutes import REFERENCES, read_clips
from benchmarks.voices import as_wave
from myxtts.data.waves import decode
from myxtts.errors import MyXTTSError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference.loudness import loudness_of

BLOCK = SAMPLE_RATE // 100
LEAST_BLOCKS, QUIET_DB, REACH = 6, 32.0, 0.08
MARKS = {
    "comma": r",\s",
    "semicolon, colon": r"[;:]\s",
    "sentence": r"(?<!Messrs)(?<!Mr)(?<!Mrs)(?<!Dr)(?<!St)(?<![A-Z])[.?!]\"?\s+[A-Z]",
}

Wave = np.ndarray


class Pauses:
    """Where a wave is silent, and for how long."""

    def __init__(self, wave: Wave) -> None:
        count = len(wave) // BLOCK
        power = np.mean(np.square(wave[: count * BLOCK].reshape(count, BLOCK)), axis=1)
        levels = 10.0 * np.log10(power + 1e-12)
        loud = np.flatnonzero(levels > np.percentile(levels, 90) - QUIET_DB)
        self._first, self._last = int(loud[0]), int(loud[-1])
        gaps = np.diff(loud)
        found = [(int(at), int(gap) - 1) for at, gap in zip(loud, gaps, strict=False)]
        self._found = [(at + n / 2, n) for at, n in found if n >= LEAST_BLOCKS]

    @property
    def seconds(self) -> float:
        """From the first sound to the last."""
        return (self._last - self._first + 1) * BLOCK / SAMPLE_RATE

    def at(self, share: float) -> float:
        """Seconds of the longest pause near a share of the speech; 0 if there is none."""
        size = self._last - self._first + 1
        near = [n for at, n in self._found if abs((at - self._first) / size - share) < REACH]
        return max(near, default=0) * BLOCK / SAMPLE_RATE


def describe(name: str, waves: Sequence[Wave], texts: Sequence[str]) -> None:
    """Print what is measured of some readings."""
    loudness = [found for wave in waves if (found := loudness_of(wave, SAMPLE_RATE)) is not None]
    heard = [Pauses(wave) for wave in waves]
    print(
        f"{name}: {statistics.fmean(loudness):.1f} LUFS, deviation {statistics.stdev(loudness):.2f}"
        f"; {statistics.fmean(each.seconds for each in heard):.2f} s a clip"
    )
    for mark, pattern in MARKS.items():
        found = [
            pauses.at(match.start() / len(text))
            for pauses, text in zip(heard, texts, strict=True)
            for match in re.finditer(pattern, text)
        ]
        paused = [seconds for seconds in found if seconds]
        if paused:
            share, median = len(paused) / len(found), statistics.median(paused)
            print(f"  {mark}: {len(found)}, {share:.2f} with a pause, of {median:.2f} s")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="recordings of one speaker, with a clip list")
    parser.add_argument("--model", default="base", help="who reads (default: the base voice)")
    parser.add_argument("--clips", type=int, default=64, help="from the end of the list")
    options = parser.parse_args(arguments)
    try:
        clips = read_clips(options.data)
        several = [clip for clip in clips if re.search(MARKS["sentence"], clip[1])]
        read = [*clips[-options.clips :], *(c for c in several if c not in clips[-options.clips :])]
        from myxtts.inference.synthesizer import Synthesizer  # TensorFlow starts on this line

        synthesizer = Synthesizer.load(options.model)
        voice = synthesizer.listen([path for path, _ in clips[:REFERENCES]])
        texts = [text for _, text in read]
        describe("recorded", [as_wave(decode(path)) for path, _ in read], texts)
        describe("said", synthesizer.speak(texts, voice=voice, language="en"), texts)
    except MyXTTSError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
