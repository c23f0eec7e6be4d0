"""The steps of the studio's page in their order, each with its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from myxtts.messages import Message
from myxtts.runs.follow import RunFollower
from myxtts.runs.view import RunView
from myxtts.studio.clips import ClipList
from myxtts.studio.jobs import Job
from myxtts.studio.project import Recording

# todo: something before it is missing; now: it is its turn; busy: it works by itself.
StepState = Literal["todo", "now", "busy", "done", "problem"]


@dataclass(frozen=True)
class Facts:
    """All that the page tells of, read once."""

    recordings: Sequence[Recording]
    clips: ClipList
    importing: Job
    training: Job
    is_training: bool
    can_go_on: bool
    followed: tuple[RunFollower, RunView] | None
    spoken: Sequence[Path]
    is_speaking: bool
    exported: bool

    @property
    def recorded_minutes(self) -> float:
        """Of everything that was put here."""
        return sum(each.seconds or 0.0 for each in self.recordings) / 60

    @property
    def view(self) -> RunView | None:
        """The run, if it told anything."""
        return self.followed[1] if self.followed else None


@dataclass(frozen=True)
class Step:
    """A step of the way."""

    id: str
    title: str
    state: StepState
    note: Message


def steps_of(facts: Facts) -> list[Step]:
    """All steps, as they are."""
    return [
        Step("machine", "Machine", "done", Message("")),
        Step("recordings", "Recordings", *_recordings(facts)),
        Step("clips", "Clips", *_clips(facts)),
        Step("train", "Train", *_train(facts)),
        Step("listen", "Listen while it trains", *_listen(facts)),
        Step("speak", "Speak", *_speak(facts)),
        Step("export", "Export", *_export(facts)),
    ]


Told = tuple[StepState, Message]


def _recordings(facts: Facts) -> Told:
    if not facts.recorded_minutes:
        return "now", Message("nothing yet")
    return "done", Message("{} minutes", (f"{facts.recorded_minutes:.1f}",))


def _clips(facts: Facts) -> Told:
    if facts.importing.state == "running":
        return "busy", Message("being cut")
    rows = facts.clips.rows
    if not rows:
        failed = facts.importing.state == "failed"
        state: StepState = "problem" if failed else "now" if facts.recorded_minutes else "todo"
        return state, Message("failed") if failed else Message("none yet")
    look = len(facts.clips.shown("look"))
    if look:
        return "now", Message("{} to look at", (str(look),))
    return "done", Message("{} good", (str(len(facts.clips.usable)),))


def _train(facts: Facts) -> Told:
    view = facts.view
    if facts.is_training:
        if view is None or view.is_over or not view.progress:
            return "busy", Message("starting")
        return "busy", Message("{}", (f"{view.progress:.0%}",))
    if facts.training.state == "failed" and (view is None or view.status in ("failed", "killed")):
        return "problem", Message("failed")
    if view is not None:
        return ("done" if view.status == "finished" else "now"), Message(view.status)
    return ("now" if facts.clips.usable else "todo"), Message("")


def _listen(facts: Facts) -> Told:
    if facts.view is None:
        return "todo", Message("")
    return ("busy" if facts.is_training else "done"), Message("step {}", (str(facts.view.step),))


def _speak(facts: Facts) -> Told:
    if facts.is_speaking:
        return "busy", Message("")
    if facts.spoken:
        return "done", Message("")
    return ("now" if facts.can_go_on else "todo"), Message("")


def _export(facts: Facts) -> Told:
    if facts.exported:
        return "done", Message("")
    return ("now" if facts.can_go_on and not facts.is_training else "todo"), Message("")
