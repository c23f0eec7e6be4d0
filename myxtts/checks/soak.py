"""A long run, and what its own log says of it: memory that grows, a rate that falls."""

from __future__ import annotations

import signal
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.runs.events import read_events
from myxtts.runs.folder import EVENTS_FILE

RATE_KEPT = 0.9  # of the first quarter's rate must be left in the last
STOP_GRACE_S = 120
ENOUGH_EVENTS = 8  # of the pipeline, one each few seconds


@dataclass(frozen=True)
class Soaked:
    """What came of a long run."""

    good: bool
    told: str


def soak(command: list[str], run: Path, *, minutes: float, log_file: Path) -> Soaked:
    """Run a training command for so long, ask it to stop, and read what it wrote."""
    with log_file.open("wb") as output:
        child = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        try:
            code = child.wait(60 * minutes)
            return Soaked(False, f"it ended by itself with code {code}; see {log_file}")
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGTERM)
        began = time.monotonic()
        try:
            code = child.wait(STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            return Soaked(False, f"it did not stop within {STOP_GRACE_S} s; see {log_file}")
        stopped_s = time.monotonic() - began
    if code != 128 + signal.SIGTERM:
        return Soaked(False, f"asked to stop, it ended with code {code}; see {log_file}")
    judged = judge_events(list(read_events(run / EVENTS_FILE)))
    return Soaked(judged.good, f"{judged.told}; stopped in {stopped_s:.1f} s")


def judge_events(events: list[dict[str, Any]]) -> Soaked:
    """Whether a run's events tell of growing memory or of a rate that fell."""
    told = [event["values"] for event in events if event["kind"] == "pipeline"]
    told = [values for values in told if values.get("steps_per_second")]
    if len(told) < ENOUGH_EVENTS:
        return Soaked(False, f"it wrote {len(told)} events, too few to judge")
    quarter = len(told) // 4
    first, last = told[quarter : 2 * quarter], told[-quarter:]  # the first quarter warms up
    rates = [statistics.fmean(v["steps_per_second"] for v in part) for part in (first, last)]
    leaks = [event["values"].get("warning", "") for event in events if event["kind"] == "leak"]
    words = [f"{rates[0]:.2f} steps a second, {rates[1]:.2f} at its end"]
    words += leaks[:1] or ["no memory that grows"]
    return Soaked(not leaks and rates[1] >= RATE_KEPT * rates[0], ", ".join(words))
