"""The timeline of a run's last minutes, as a Chrome trace that Perfetto opens too."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.documents import read_json
from myxtts.errors import DataError
from myxtts.pipeline.telemetry import BUSY, STAGES, Telemetry

TRACE_FILE = "trace.json"


@dataclass(frozen=True)
class Span:
    """A stretch of a stage's time; seconds from the start of the measurement."""

    stage: str
    state: str  # "busy", "waiting for input", "waiting for room"
    batch: int
    start_s: float
    end_s: float


def spans_of(telemetry: Telemetry) -> list[Span]:
    """The newest spans of a pipeline."""
    return [Span(*span) for span in telemetry.spans()]


def write_trace(path: Path, spans: Iterable[Span]) -> None:
    """Write spans as a Chrome trace, a row for each stage."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": i, "args": {"name": name}}
        for i, name in enumerate(STAGES)
    ]
    events += [
        {
            "ph": "X",
            "name": span.stage if span.state == BUSY else span.state,
            "cat": span.state,
            "pid": 1,
            "tid": STAGES.index(span.stage),
            "ts": round(span.start_s * 1e6, 1),
            "dur": round((span.end_s - span.start_s) * 1e6, 1),
            "args": {"batch": span.batch},
        }
        for span in spans
    ]
    path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))


def read_trace(path: Path) -> list[Span]:
    """The spans a run left in its timeline; none where there is none."""
    try:
        events: list[Any] = read_json(path)["traceEvents"]
        return [
            Span(
                stage=STAGES[event["tid"]],
                state=event["cat"],
                batch=event["args"]["batch"],
                start_s=event["ts"] / 1e6,
                end_s=(event["ts"] + event["dur"]) / 1e6,
            )
            for event in events
            if event["ph"] == "X"
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise DataError(
            f"The timeline {path} cannot be read: {error}",
            "delete the file; the report then does without it",
        ) from error
