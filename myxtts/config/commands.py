"""Writes settings as the command line that gives them, from the flags of the settings."""

from __future__ import annotations

import shlex
from functools import lru_cache
from pathlib import Path
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.config.fields import Setting, settings_of
from myxtts.messages import where_programs_are

ALWAYS = ("data.batch_size", "model.size")  # said even where they are the default
# What a user of the command has at hand, and a run folder of somebody else's must not decide.
NEVER = ("training.checkpoint_dir", "training.resume")


@lru_cache(maxsize=1)
def settings() -> dict[str, Setting]:
    """Every setting by its dotted name."""
    return {known.name: known for known in settings_of(XTTSConfig)}


def flag_for(name: str, value: Any) -> str:
    """One setting as it is typed, or as it stands in the config file where it has no flag."""
    known = settings()[name]
    for switch in known.switches:
        if switch.value == value:
            return switch.flag
    if known.flag:
        typed = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        return f"{known.flag} {shlex.quote(typed)}"
    section, field = name.split(".")
    written = str(value).lower() if isinstance(value, bool) else value
    return f"{field}: {written} under {section}: in the --config file"


def training_command(config: XTTSConfig, *, config_file: str = "") -> str:
    """The command that trains with these settings, on top of a config file where there is one.

    What is the default, or what the file says, is left out.
    """
    words, base = [f"{where_programs_are()}myxtts train"], XTTSConfig()
    if config_file and Path(config_file).is_file():
        words.append(f"--config {shlex.quote(config_file)}")
        base = XTTSConfig.from_yaml(config_file)
    if config.data.train_data is None:
        words.append("--train-data DIR")
    for name, known in settings().items():
        value = known.read(config)
        if name in NEVER or not (known.flag or known.switches):
            continue
        if (value != known.read(base) and value is not None) or name in ALWAYS:
            words.append(flag_for(name, value))
    return " ".join(words)
