"""What can be done in a studio, each by the command that does it in a terminal."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from myxtts.base import BASE, NONE
from myxtts.errors import ConfigError, DataError, MyXTTSError
from myxtts.inference.export import export_voice
from myxtts.messages import Message, where_programs_are
from myxtts.runs.checkpoints import CheckpointStore
from myxtts.runs.folder import EVENTS_FILE
from myxtts.runs.follow import NothingToldError, RunFollower
from myxtts.runs.view import RunView
from myxtts.studio.clips import Clips
from myxtts.studio.hearing import PROGRESS_FILE as HEARING_FILE
from myxtts.studio.importing import PROGRESS_FILE, REPORT_FILE
from myxtts.studio.jobs import Jobs, trainer_in
from myxtts.studio.project import Project, RefusedError
from myxtts.studio.speaking import Speaker

IMPORT, HEAR, TRAIN = "import", "hear", "train"
MOST_STEPS = 1_000_000
MOST_REFERENCES = 3  # clips that a voice is heard from: three were better than one
SPEED, PITCH = (0.5, 2.0), (-12.0, 12.0)
OWN, EXPORT = "run", "voice"
VOICE_NAMES = {
    OWN: "Your voice, as it is now",
    EXPORT: "Your voice, as exported",
    BASE: "The base voice, near yours",
}


class Desk:
    """A project, and what works on it."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.jobs = Jobs(project.own)
        self.clips = Clips(project)
        self.speaker = Speaker(project.spoken)
        self._follower: RunFollower | None = None
        self._followed: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Leave; a training goes on, and so does an import."""
        self.speaker.close()

    # -- the steps --

    def start_import(self) -> None:
        """Cut what was recorded into clips."""
        if not any(each.seconds for each in self.project.list_recordings()):
            raise DataError("There is no recording yet.", "drop one, or use the microphone")
        for name in (PROGRESS_FILE, REPORT_FILE):
            (self.project.own / name).unlink(missing_ok=True)
        words = ["-m", "myxtts.studio.importing", str(self.project.path), self.project.language]
        self.jobs.start(IMPORT, words, cwd=self.project.path)

    def stop_import(self) -> None:
        """Stop cutting; it goes on from there when it is started again."""
        if not self.jobs.stop(IMPORT):
            raise MyXTTSError("Nothing is being cut.", "reload the page")

    def start_hearing(self) -> None:
        """Listen to every clip, and say what is wrong with it."""
        if not self.clips.read().usable:
            raise DataError("There is no clip yet.", "the steps before this one")
        (self.project.own / HEARING_FILE).unlink(missing_ok=True)
        words = ["-m", "myxtts.studio.hearing", str(self.project.path)]
        self.jobs.start(HEAR, words, cwd=self.project.path)

    def start_training(
        self, *, steps: int | None, start: str, sample_text: str, anew: bool
    ) -> None:
        """Train, or go on where the run stopped."""
        if steps is not None and not 1 <= steps <= MOST_STEPS:
            raise ConfigError("The number of steps is out of range.", f"1 to {MOST_STEPS}")
        if start not in (BASE, NONE, ""):
            raise ConfigError(f"Nothing is known of {start!r} to start from.", f"{BASE}, or {NONE}")
        if self.is_training:
            raise MyXTTSError("It is running already.", "wait until it ends, or stop it")
        if not self.clips.read().usable:
            raise DataError("There is no clip to train on.", "the steps before this one")
        if self.can_go_on and not anew:
            self._must_have_steps_left(steps)
            words = self.resuming_words(steps)
        else:
            words = self.training_words(
                steps=steps, start=start, sample_text=sample_text, anew=anew and self.can_go_on
            )
        self.jobs.start(TRAIN, ["-m", "myxtts", *words], cwd=self.project.path)

    def _must_have_steps_left(self, steps: int | None) -> None:
        followed = self.follow()
        if followed is None or followed[1].status != "finished":
            return
        if steps is None or steps <= followed[1].step:
            raise RefusedError(
                Message("It has done all its {} steps.", (str(followed[1].step),)),
                Message("more steps, or start anew"),
            )

    def stop_training(self) -> None:
        """Ask the trainer to save and end."""
        if not self.jobs.stop(TRAIN, run=self.project.run):
            raise MyXTTSError("Nothing is being trained.", "reload the page")

    def say(self, *, text: str, voice: str, reference: str, speed: float, pitch: float) -> str:
        """Begin to speak; returns the name of the file to come."""
        if not SPEED[0] <= speed <= SPEED[1] or not PITCH[0] <= pitch <= PITCH[1]:
            raise ConfigError("Speed or pitch is out of range.", "a value the page offers")
        models = dict(self.voices())
        if voice not in models:
            raise DataError("There is no such voice yet.", "train it, or choose another")
        return self.speaker.say(
            text=text,
            model=models[voice],
            references=tuple(str(path) for path in self.references(reference)),
            language=self.project.language,
            speed=speed,
            pitch_shift=pitch,
        )

    def export(self) -> None:
        """Write the voice as a folder to keep."""
        export_voice(self.project.run, self.project.voice)

    # -- what there is --

    @property
    def is_training(self) -> bool:
        """Whether a trainer works in the run folder, whoever started it."""
        if self.jobs.look(TRAIN).state == "running":
            return True
        return trainer_in(self.project.run) is not None

    @property
    def can_go_on(self) -> bool:
        """Whether the run has a checkpoint."""
        return bool(CheckpointStore(self.project.run / "checkpoints").steps())

    def voices(self) -> list[tuple[str, str]]:
        """Name and folder of every voice that can speak."""
        found = [(BASE, BASE)]
        if self.can_go_on:
            found.insert(0, (OWN, str(self.project.run)))
        if (self.project.voice / "config.json").is_file():
            found.append((EXPORT, str(self.project.voice)))
        return found

    def references(self, key: str = "") -> list[Path]:
        """Recordings of the speaker: the clip of that key, or the longest good ones."""
        if key:
            return [self.clips.sound(self.clips.find(key))]
        longest_first = sorted(self.clips.read().usable, key=lambda row: -row.verdict.seconds)
        if longest_first:
            return [self.clips.sound(row) for row in longest_first[:MOST_REFERENCES]]
        sounds = [each for each in self.project.list_recordings() if each.seconds]
        if not sounds:
            raise DataError(
                "There is no recording of the speaker yet.", "drop one, or use the microphone"
            )
        return [self.project.recordings / max(sounds, key=lambda each: each.seconds or 0).name]

    def follow(self) -> tuple[RunFollower, RunView] | None:
        """The run as it is now; None before it told anything. A run begun anew is a new one."""
        file = self.project.run / EVENTS_FILE
        with self._lock:
            try:
                stat = file.stat()
                place = (stat.st_dev, stat.st_ino)
                if self._follower is None or place != self._followed:
                    self._follower, self._followed = RunFollower(self.project.run), place
                return self._follower, self._follower.poll()
            except (OSError, NothingToldError, DataError):
                self._follower = None
                return None

    # -- the same in a terminal --

    def training_words(
        self,
        *,
        steps: int | None = None,
        start: str = "",
        sample_text: str = "",
        anew: bool = False,
    ) -> list[str]:
        """The command line of a training, behind `myxtts`."""
        given: list[tuple[str, Any]] = [
            ("--train-data", self.project.data),
            ("--checkpoint-dir", self.project.run),
            ("--language", self.project.language),
            ("--init-from", start),
            ("--max-steps", steps),
            ("--sample-text", " ".join(sample_text.split())[:300]),
        ]
        words = ["train"]
        for flag, value in given:
            words += [flag, str(value)] if value not in ("", None) else []
        return [*words, "--reset-training"] if anew else words

    def resuming_words(self, steps: int | None = None) -> list[str]:
        """The same of a run that goes on, with its own settings."""
        words = ["train", "--resume", "--checkpoint-dir", str(self.project.run)]
        return words if steps is None else [*words, "--max-steps", str(steps)]

    def typed(self, words: Sequence[str]) -> str:
        """A command as one types it."""
        return f"{where_programs_are()}myxtts {shlex.join(words)}"

    def commands(self) -> dict[str, str]:
        """What to type for each step."""
        project = self.project
        imported = ["data", "import", str(project.recordings), str(project.data)]
        return {
            IMPORT: self.typed([*imported, "--language", project.language]),
            HEAR: self.typed(
                ["data", "check", str(project.data), "--language", project.language, "--listen"]
            ),
            TRAIN: self.typed(self.resuming_words() if self.can_go_on else self.training_words()),
            "listen": self.typed(["monitor", str(project.run)]),
            "export": self.typed(["export", str(project.run), str(project.voice)]),
        }
