"""Ways to judge voices: which candidate a wave is nearest to, and how natural it sounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import soxr

from myxtts.features.audio import SAMPLE_RATE

JUDGED_LEVEL = 0.06  # root mean square, about LJ Speech's: the judge of naturalness minds it

Wave = np.ndarray
Profile = Any  # of one kind of judge: a VoiceProfile, or an embedding


@dataclass
class Judge:
    """A way to compare voices: a profile of a wave, and names of candidates nearest first."""

    profile: Callable[[Wave], Profile]
    rank: Callable[[Profile, Mapping[str, Profile]], list[str]]
    average: Callable[[Sequence[Profile]], Profile]
    originals: dict[str, list[Profile]] = field(default_factory=dict)  # by voice, by sentence

    def learn(self, recordings: Mapping[str, Sequence[Wave]]) -> None:
        """Listen to the candidates' recordings of all sentences."""
        self.originals = {name: list(map(self.profile, said)) for name, said in recordings.items()}

    def nearest(self, waves: Sequence[Wave]) -> list[str]:
        """Whose recording of each sentence is nearest to what was said."""
        return [
            self.rank(self.profile(wave), {n: said[i] for n, said in self.originals.items()})[0]
            for i, wave in enumerate(waves)
        ]

    def nearest_by_average(self, waves: Sequence[Wave]) -> str:
        """Whose recordings together are nearest to waves that say anything."""
        candidates = {name: self.average(said) for name, said in self.originals.items()}
        return self.rank(self.average(list(map(self.profile, waves))), candidates)[0]


def make_judges() -> dict[str, Judge]:
    """Pitch and spectrum, and the speaker embedding where it is installed."""
    from myxtts.evaluation.pitch import analyse
    from myxtts.evaluation.voice_match import average_profile, profile_of, rank

    by_sound = Judge(lambda wave: profile_of(analyse(wave)), rank, average_profile)
    judges = {"pitch and spectrum": by_sound}
    try:
        from resemblyzer import VoiceEncoder, preprocess_wav
    except ImportError as error:
        print(f"No speaker embedding beside it ({error}): pip install resemblyzer webrtcvad-wheels")
        return judges
    import torch

    # Its threads wait for each other by spinning: beside other work, what takes half a minute with
    # one thread was not done after ten minutes with two.
    torch.set_num_threads(1)
    encoder = VoiceEncoder("cpu", verbose=False)

    def embed(wave: Wave) -> np.ndarray:
        return encoder.embed_utterance(preprocess_wav(wave, source_sr=SAMPLE_RATE))

    def most_alike(voice: np.ndarray, candidates: Mapping[str, np.ndarray]) -> list[str]:
        return sorted(candidates, key=lambda name: -float(voice @ candidates[name]))

    def average(voices: Sequence[np.ndarray]) -> np.ndarray:
        mean = np.mean(voices, axis=0)
        return mean / np.linalg.norm(mean)

    judges["resemblyzer"] = Judge(embed, most_alike, average)
    return judges


def make_mos() -> Callable[[Wave], dict[str, float]] | None:
    """DNSMOS, P.808 and overall, from 1 to 5; None where it is not installed."""
    try:
        from speechmos import dnsmos
    except ImportError as error:
        print(f"No DNSMOS ({error}): pip install speechmos onnxruntime")
        return None

    def judge(wave: Wave) -> dict[str, float]:
        low = soxr.resample(np.asarray(wave, np.float64), SAMPLE_RATE, 16_000)
        low *= JUDGED_LEVEL / np.sqrt(np.mean(low**2))
        found = dnsmos.run(low / max(1.0, np.abs(low).max()), sr=16_000)
        return {"P.808": float(found["p808_mos"]), "overall": float(found["ovrl_mos"])}

    return judge
