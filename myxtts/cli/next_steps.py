"""What to do with a voice that has just been trained: where to listen, and commands to copy."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from myxtts.config.config import DataConfig
from myxtts.data.prepare import read_list
from myxtts.data.table import ClipTable
from myxtts.errors import MyXTTSError
from myxtts.features.audio import REFERENCE_SECONDS, SAMPLE_RATE
from myxtts.messages import seen_from_here, where_programs_are
from myxtts.pages.report import REPORT_FILE
from myxtts.text.languages import LANGUAGES

if TYPE_CHECKING:
    from myxtts.training.trainer import XTTSTrainer

LONGEST_TEXT = 100  # characters: the command should fit a few lines


def next_steps(trainer: XTTSTrainer) -> list[str]:
    """Lines to print; every command works as it stands."""
    run, data = seen_from_here(trainer.run.path), trainer.data
    lines = []
    if samples := sorted((run / "samples").glob("step_*/*.wav")):
        lines.append(f"Listen: {samples[-1].parent} (beside each sound its picture)")
    if (run / REPORT_FILE).exists():
        lines.append(f"How it went, to be opened in a browser: {run / REPORT_FILE}")
    commands = []
    if data is not None:
        commands += _speaking_command(run, data.train, trainer.config.data)
        if data.validation is not None:
            page = shlex.quote(str(run / "evaluation.html"))
            commands.append(f"myxtts evaluate {shlex.quote(str(run))} --report {page}")
    commands.append(f"tensorboard --logdir {shlex.quote(str(run / 'tensorboard'))}")
    programs = where_programs_are()
    return [
        *lines,
        "Next, let it say what you type, judge it by numbers, or see its curves:",
        *(f"  {programs}{command}" for command in commands),
    ]


def _speaking_command(run: Path, table: ClipTable, config: DataConfig) -> list[str]:
    """With recordings of the run's own; none where they are too short, or gone."""
    speaker = table.speakers[np.argmax(table.samples)]
    own = np.flatnonzero(table.speakers == speaker)
    longest_first = sorted(own, key=lambda clip: -table.samples[clip])
    chosen, seconds = [], 0.0
    for clip in longest_first:
        chosen.append(clip)
        seconds += table.samples[clip] / SAMPLE_RATE
        if seconds >= REFERENCE_SECONDS:
            break
    else:
        return []
    language = list(LANGUAGES)[table.languages[chosen[0]]]
    text = _a_text(config, language)
    if text is None:
        return []
    flags: list[tuple[str, Path | str]] = [("--model", run)]
    flags += [("--reference", seen_from_here(table.folder / table.paths[clip])) for clip in chosen]
    flags += [("--text", text), ("--language", language), ("--output", run / "mine.wav")]
    words = (f"{flag} {shlex.quote(str(value))}" for flag, value in flags)
    return [f"myxtts synthesize {' '.join(words)}"]


def _a_text(config: DataConfig, language: str) -> str | None:
    """A sentence in that language, as the clip list has one."""
    assert config.train_data is not None
    try:
        listed = read_list(config.train_data, config)
    except MyXTTSError:
        return None
    texts = (clip.text for clip in listed if clip.language == language)
    return next((t for t in texts if t.isprintable() and 0 < len(t) <= LONGEST_TEXT), None)
