"""What an import tells while it works, and what it leaves to say when it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.messages import clock


@dataclass(frozen=True)
class ImportProgress:
    """How far an import is. Sizes are bytes of recordings, the one thing known before reading."""

    file: str  # being worked on, relative to the source
    done: int  # recordings that are finished
    total: int  # recordings in all
    done_bytes: int
    total_bytes: int
    seconds: float  # of audio that are finished in this run
    elapsed: float  # seconds since this run began
    skipped_bytes: int = 0  # of recordings that an earlier run finished

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return min(1.0, self.done_bytes / self.total_bytes) if self.total_bytes else 1.0

    @property
    def rate(self) -> float:
        """Seconds of audio a second; 0 while nothing is known."""
        return self.seconds / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def eta(self) -> float | None:
        """Seconds that are left, by what this run has done itself; None while nothing is known."""
        worked = self.done_bytes - self.skipped_bytes
        if worked <= 0 or self.elapsed <= 0:
            return None
        return self.elapsed * (self.total_bytes - self.done_bytes) / worked

    def __str__(self) -> str:
        return (
            f"{self.done} of {self.total} recordings, {self.rate:.0f} times as fast as they "
            f"play, {clock(self.eta)} left: {self.file}"
        )


OnProgress = Callable[[ImportProgress], None]


@dataclass(frozen=True)
class Refused:
    """A recording of which nothing was imported, or a part of one, and what to do about it."""

    file: str
    reason: str
    remedy: str


@dataclass
class ImportReport:
    """What an import found and made."""

    folder: Path  # a data folder: `myxtts data check` and `train` read it
    kind: str  # as `--as` names it
    recognised_by: str  # why it was taken for that kind, or "asked for"
    recordings: int = 0  # of the source, refused ones included
    unchanged: int = 0  # of them imported by an earlier run, and left as they are
    clips: int = 0  # in the folder now
    new_clips: int = 0  # made by this run
    seconds: float = 0.0  # of all clips in the folder
    without_text: int = 0  # clips that somebody must still write the text of
    refused: list[Refused] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what a person should know, a sentence each
