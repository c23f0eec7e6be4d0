"""Sums a data folder up: what is kept, what is dropped and why, and what is odd about the rest."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.data.manifests import Manifest
from myxtts.data.verdicts import REMEDIES, Verdict

CLIPPING_SHARE = 0.001
SILENCE_SHARE = 0.6
EXAMPLES = 3
HISTOGRAM_BINS = 12
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

    def reasons(self) -> list[tuple[str, int, str, str]]:
        """Rows of reason, count, example ids and remedy, the most frequent first."""
        rows = sorted(self.dropped.items(), key=lambda item: -len(item[1]))
        return [
            (reason, len(ids), ", ".join(name[:40] for name in ids[:EXAMPLES]), REMEDIES[reason])
            for reason, ids in rows
        ]


def summarise(
    manifest: Manifest, verdicts: list[Verdict], unknown_symbols: Counter[str]
) -> DataSummary:
    """Count everything once."""
    dropped: dict[str, list[str]] = {}
    speakers: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    clipped, silent, seconds = [], [], []
    for clip, verdict in zip(manifest, verdicts, strict=True):
        if not verdict.kept:
            dropped.setdefault(verdict.reason, []).append(clip.audio)
            continue
        speakers[clip.speaker] += 1
        languages[clip.language] += 1
        seconds.append(verdict.seconds)
        if verdict.clipped > CLIPPING_SHARE:
            clipped.append(clip.audio)
        if verdict.silence > SILENCE_SHARE:
            silent.append(clip.audio)
    counts, edges = np.histogram(seconds, bins=HISTOGRAM_BINS)
    summary = DataSummary(
        listed=len(manifest),
        kept=len(seconds),
        dropped=dropped,
        hours=sum(seconds) / 3600,
        speakers=speakers,
        languages=languages,
        histogram=[
            (float(low), float(high), int(count))
            for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
            if seconds
        ],
        unknown_symbols=unknown_symbols,
        clipped=clipped,
        mostly_silent=silent,
    )
    assert summary.kept + sum(map(len, dropped.values())) == summary.listed
    return summary


def write_verdicts(path: Path, manifest: Manifest, verdicts: list[Verdict]) -> None:
    """Every clip's verdict as CSV, for spreadsheets and scripts."""
    with path.open("w", newline="", encoding="utf-8") as file:
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
            # A row that was no UTF-8 is still listed, with its odd bytes made visible.
            table.writerow(
                value.encode(errors="backslashreplace").decode()
                if isinstance(value, str)
                else value
                for value in row
            )
