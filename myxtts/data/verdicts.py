"""What was found out about a clip, the reasons to drop one, and the memory of it between runs."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from myxtts.data.list_lines import open_regular
from myxtts.errors import DataError

MIN_SECONDS = 0.3
CACHE_VERSION = 4

# What a dropped clip's owner can do about it, by reason.
REMEDIES = {
    "bad row": "mend the row in the clip list",
    "empty text": "write what is said into the clip list",
    "nothing to say": "write what is said into the clip list, in words",
    "outside the data folder": "copy the file into the data folder, or link its folder there",
    "missing": "check the name, or add the file (.wav, .flac, .ogg or .mp3)",
    "not a file": "the name belongs to a folder or device; rename it",
    "empty file": "record or copy it again",
    "unreadable": "convert it to WAV, FLAC, OGG or MP3",
    "truncated": "copy it again: it holds less audio than it says",
    "not a number": "render it again: it holds NaN or infinite samples",
    "silent": "record it again: nothing is heard",
    "too short": "leave it out, or join it with another",
    "too long": "cut it at a pause, or raise --max-mel-frames",
    "text too long": "cut the clip at a pause, or raise --max-text-length",
    "text too long for its audio": "check that the text is what the recording says",
}


@dataclass(frozen=True)
class Verdict:
    """What was found out about one clip; kept if it has no `reason`."""

    reason: str = ""
    detail: str = ""
    path: str = ""  # relative to the data folder
    seconds: float = 0.0
    sample_rate: int = 0
    channels: int = 0
    frames: int = 0  # samples a channel, exactly
    subtype: str = ""  # as libsndfile names it: PCM_16, FLOAT, ...
    clipped: float = 0.0  # share of samples at the ceiling
    silence: float = 0.0  # share of the clip that is silent
    cancels: bool = False  # its channels cancel each other out, and one of them is used
    snr_db: float = 0.0  # how far speech lies above the noise, where the clip has pauses

    @property
    def kept(self) -> bool:
        """Whether the clip can be used."""
        return not self.reason


class VerdictCache:
    """Verdicts by file stamp, kept beside the data so that the second start is fast.

    It may have come with the data: what it says must be possible, and never names another file.
    """

    def __init__(self, root: Path, max_seconds: float) -> None:
        self._path = root / ".myxtts" / "verdicts.json"
        self._key = f"{CACHE_VERSION}:{max_seconds}"
        self._max_seconds = max_seconds
        self._new = False
        self._known: dict[str, Any] = {}
        try:
            with open_regular(self._path) as file:
                stored = json.load(file)
            if stored["key"] == self._key:
                self._known = dict(stored["clips"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError, DataError):
            self._known = {}  # none yet, or not one of ours: it is only a cache

    def get(self, relative: str, stamp: str) -> Verdict | None:
        """What is known of a file, unless it changed since."""
        try:
            known_stamp, facts = self._known[relative]
            verdict = replace(Verdict(**facts), path=relative)
        except (KeyError, TypeError, ValueError):
            return None
        return verdict if known_stamp == stamp and self._is_possible(verdict) else None

    def put(self, relative: str, stamp: str, verdict: Verdict) -> None:
        """Remember what was found."""
        self._known[relative] = (stamp, asdict(verdict))
        self._new = True

    def save(self) -> None:
        """Write it down, if there is anything new."""
        if not self._new:
            return
        try:
            self._path.parent.mkdir(exist_ok=True)
            partial = self._path.with_suffix(f".{os.getpid()}.tmp")
            partial.write_text(
                json.dumps({"key": self._key, "clips": self._known}), encoding="utf-8"
            )
            partial.replace(self._path)
        except OSError:
            return  # a read-only data folder: every start looks anew

    def _is_possible(self, verdict: Verdict) -> bool:
        usual = asdict(Verdict())
        for name, value in asdict(verdict).items():
            kind = type(usual[name])
            if not isinstance(value, (int, float) if kind is float else kind):
                return False
            if not isinstance(value, str) and not 0 <= value < 1e15:  # nor is NaN
                return False
        if not verdict.kept:
            return verdict.reason in REMEDIES
        rate = verdict.sample_rate
        return rate > 0 and MIN_SECONDS * rate <= verdict.frames <= self._max_seconds * rate
