"""Sums a data folder up: what is kept, what is dropped and why, and what is odd about the rest."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from myxtts.data.manifests import Manifest
from myxtts.data.verdicts import REMEDIES, Verdict

CLIPPING_SHARE = 0.001
SILENCE_SHARE = 0.6
EXAMPLES = 3
MAX_HISTOGRAM_ROWS = 12
HISTOGRAM_STEPS = tuple(d * 10.0**power for power in range(-1, 9) for d in (1, 2, 5))  # seconds
COLUMNS = (
    "audio",
    "verdict",
    "detail",
    "seconds",
    "sample_rate",
    "channels",
    "clipped",
    "silence",
    "speaker",
    "language",
    "text",
)


@dataclass(frozen=True)
class DataSummary:
    """The numbers of `myxtts data check`; kept + dropped = listed."""

    listed: int
    kept: int
    dropped: dict[str, list[str]]  # reason -> ids
    hours: float
    speakers: Counter[str]
    languages: Counter[str]
    histogram: list[tuple[float, float, int]]  # from, to (seconds), clips
    unknown_symbols: Counter[str]
    clipped: list[str]
    mostly_silent: list[str]
    cancelling: list[str] = field(default_factory=list)  # channels that cancel each other out
    speaker_minutes: dict[str, float] = field(default_factory=dict)
    bad_rows: list[str] = field(default_factory=list)  # what is wrong with the first of them
    guessed_words: Counter[str] = field(default_factory=Counter)  # no table or rule could read them

    def reasons(self) -> list[tuple[str, int, str, str]]:
        """Rows of reason, count, example ids and remedy, the most frequent first."""
        rows = sorted(self.dropped.items(), key=lambda item: -len(item[1]))
        return [
            (reason, len(ids), ", ".join(name[:40] for name in ids[:EXAMPLES]), REMEDIES[reason])
            for reason, ids in rows
        ]


def summarise(
    manifest: Manifest,
    verdicts: list[Verdict],
    unknown_symbols: Counter[str],
    guessed_words: Counter[str] | None = None,
) -> DataSummary:
    """Count everything once."""
    dropped: dict[str, list[str]] = {}
    speakers: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    minutes: dict[str, float] = {}
    bad_rows: list[str] = []
    clipped, silent, cancelling, seconds = [], [], [], []
    for clip, verdict in zip(manifest, verdicts, strict=True):
        if not verdict.kept:
            dropped.setdefault(verdict.reason, []).append(clip.audio)
            if verdict.reason == "bad row" and len(bad_rows) < EXAMPLES:
                bad_rows.append(verdict.detail)
            continue
        speakers[clip.speaker] += 1
        languages[clip.language] += 1
        minutes[clip.speaker] = minutes.get(clip.speaker, 0.0) + verdict.seconds / 60
        seconds.append(verdict.seconds)
        if verdict.clipped > CLIPPING_SHARE:
            clipped.append(clip.audio)
        if verdict.silence > SILENCE_SHARE:
            silent.append(clip.audio)
        if verdict.cancels:
            cancelling.append(clip.audio)
    summary = DataSummary(
        listed=len(manifest),
        kept=len(seconds),
        dropped=dropped,
        hours=sum(seconds) / 3600,
        speakers=speakers,
        languages=languages,
        histogram=_histogram(seconds),
        unknown_symbols=unknown_symbols,
        clipped=clipped,
        mostly_silent=silent,
        cancelling=cancelling,
        speaker_minutes=minutes,
        bad_rows=bad_rows,
        guessed_words=guessed_words or Counter(),
    )
    assert summary.kept + sum(map(len, dropped.values())) == summary.listed
    return summary


def _histogram(seconds: list[float]) -> list[tuple[float, float, int]]:
    """Counts between round numbers of seconds, far enough apart to be told from each other."""
    if not seconds:
        return []
    for step in HISTOGRAM_STEPS:
        places = np.floor(np.array(seconds) / step + 1e-6).astype(int)
        if np.ptp(places) < MAX_HISTOGRAM_ROWS:
            break
    first = int(places.min())
    return [
        (round((first + i) * step, 1), round((first + i + 1) * step, 1), int(count))
        for i, count in enumerate(np.bincount(places - first))
    ]


def write_verdicts(path: Path, manifest: Manifest, verdicts: list[Verdict]) -> None:
    """Every clip's verdict as CSV, for spreadsheets and scripts."""
    # A row that was no UTF-8 is still listed, with its odd bytes made visible.
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for clip, verdict in zip(manifest, verdicts, strict=True):
            row = (
                clip.audio,
                verdict.reason or "kept",
                verdict.detail,
                verdict.seconds,
                verdict.sample_rate,
                verdict.channels,
                verdict.clipped,
                verdict.silence,
                clip.speaker,
                clip.language,
                clip.text,
            )
            table.writerow(row)
