"""Where a run starts and how long it trains, chosen by how much was recorded; loads no TensorFlow.

A voice from minutes of recordings starts from the base voice, and more data takes more steps. What
the user chose is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from myxtts.base import BASE, NONE, base_folder, base_sizes
from myxtts.config.config import XTTSConfig
from myxtts.config.presets import MODEL_SIZES
from myxtts.errors import ConfigError

SHARPNESS = 0.2  # from 0.1 to 0.5 it makes no difference that DNSMOS or the recogniser hears
SPEED = 0.17  # how much faster or slower clips are played, so that they are not learnt by heart
DROPOUT = 0.1
BATCH_SECONDS, MOST_CLIPS = 48.0, 16  # of speech, about, and clips in a batch: steps were found so
MOST_MINUTES = 60.0  # of data that there is a recipe for, and that a small model is enough for


@dataclass(frozen=True)
class Recipe:
    """How to go on from the base voice with so many minutes of recordings."""

    minutes: float  # up to
    steps: int
    learning_rate: float


class Recorded(NamedTuple):
    """What was recorded: the minutes of the clips that can be used, and how many they are."""

    minutes: float
    clips: int


RECIPES = (
    Recipe(2.0, 300, 5e-4),
    Recipe(10.0, 600, 1e-3),
    Recipe(30.0, 1500, 1e-3),
    Recipe(float("inf"), 2500, 1e-3),
)


_RECIPE_STEPS = tuple(recipe.steps for recipe in RECIPES)

# What is chosen by how much was recorded, if the user does not; a run that goes on keeps it, as it
# keeps the size.
STEPS, EPOCHS = "training.max_steps", "training.epochs"
CHOSEN = (
    "data.batch_size",
    "data.augment_speed",
    "training.init_from",
    STEPS,
    "training.learning_rate",
    "training.warmup_steps",
    "training.ema_decay",
    "training.sharpness",
    "training.dropout",
)


def check_there(voice: str | Path) -> None:
    """Refuse a voice to start from that is not there, before anything takes time."""
    if str(voice) != BASE and not Path(voice).expanduser().exists():
        raise ConfigError(
            f"The voice to start from is not there: {voice}",
            f"--init-from {BASE} for the voice that comes with MyXTTS, {NONE} to start from "
            "nothing, or the folder of a run or an export",
        )


def choose_recipe(minutes: float) -> Recipe:
    """The recipe for so much data."""
    return next(recipe for recipe in RECIPES if minutes <= recipe.minutes)


def clips_a_batch(mean_seconds: float) -> int:
    """How many clips of such a length are a batch: the longer they are, the fewer."""
    return max(1, min(MOST_CLIPS, round(BATCH_SECONDS / mean_seconds)))


def choose_start(
    config: XTTSConfig, *, given: Collection[str], measure: Callable[[], Recorded], has_gpu: bool
) -> list[str]:
    """Settle what the user left open, in place; returns what to say of it.

    `given` are the dotted names of the settings that the user chose, and `measure` tells what
    was recorded: it is asked only where that matters, for it looks at every clip. A CPU
    trains the smallest base voice: the next size took it more than twice as long a step.
    """
    asked = None if config.training.init_from is None else str(config.training.init_from)
    if asked == NONE:
        return [f"Starting from nothing, as asked (--init-from {NONE})"]
    if asked not in (None, BASE):
        check_there(asked)
        return []
    if asked is None and not base_sizes():
        return ["Starting from nothing: this installation holds no base voice"]
    base_folder()  # says it where there is none
    recorded = measure()
    if not recorded.clips:
        return []  # the trainer tells why none can be used
    is_much = recorded.minutes > MOST_MINUTES
    is_open = "model.size" not in given and not is_much
    size = _own_size(has_gpu) if is_open else config.model.size
    if asked is None and (reason := _why_not(config, given, size=size)):
        return [f"Starting from nothing: {reason}"]
    if is_open:
        _set_size(config, size, given)
    config.training.init_from = Path(BASE)
    lines = [
        f"Starting from the base voice ({config.model.size}), with {recorded.minutes:.1f} minutes "
        f"of recordings. From nothing: --init-from {NONE}"
    ]
    if is_much:
        lines.append(
            "So much data has no recipe: how long, and at which rate, is as the settings have it "
            "(--epochs, --max-steps, --lr)"
        )
        return lines
    return lines + _apply(config, recorded, given)


def keep_choices(
    config: XTTSConfig,
    begun: XTTSConfig,
    *,
    given: Collection[str],
    measure: Callable[[], Recorded],
) -> list[str]:
    """Let a run that began from the base voice go on as it began, in place; returns what to say.

    What the user says now counts, and a length that the user chose then is not this time's: without
    one it is that of the recipe, or where there is none, of the settings.
    """
    if str(begun.training.init_from) != BASE:
        return []
    if "model.size" not in given:
        _set_size(config, begun.model.size, given)
    for name in CHOSEN:
        if name not in given and name != STEPS:
            section, key = name.split(".")
            setattr(getattr(config, section), key, getattr(getattr(begun, section), key))
    training = config.training
    if not {STEPS, EPOCHS} & set(given) and (minutes := measure().minutes) <= MOST_MINUTES:
        first = begun.training.max_steps  # of less data, it may be
        training.max_steps = first if first in _RECIPE_STEPS else choose_recipe(minutes).steps
    steps = training.max_steps
    length = f"{training.epochs} epochs" if steps is None else f"{steps} steps"
    return [f"Begun from the base voice ({config.model.size}), and goes on so: {length} in all"]


def _own_size(has_gpu: bool) -> str:
    return base_sizes()[0 if has_gpu else -1]


def _set_size(config: XTTSConfig, size: str, given: Collection[str]) -> None:
    """Another size, with the widths that the user chose."""
    own = {n: getattr(config.model, n) for n in MODEL_SIZES[size] if f"model.{n}" in given}
    config.model.size = size  # type: ignore[assignment]
    for name, width in own.items():
        setattr(config.model, name, width)


def _why_not(config: XTTSConfig, given: Collection[str], *, size: str) -> str:
    """What speaks against the base voice, where nobody asked for it; nothing if it is empty."""
    if config.model.decoder_head != "regression" and size not in base_sizes():
        return f"the base voice has another head, and cannot grow to {size} with this one"
    if any(
        f"model.{name}" in given and getattr(config.model, name) != width
        for name, width in MODEL_SIZES[size].items()
    ):
        return f"the base voice has other widths (--init-from {BASE} grows it where it can)"
    return ""


def _apply(config: XTTSConfig, recorded: Recorded, given: Collection[str]) -> list[str]:
    recipe, said = choose_recipe(recorded.minutes), []
    if not {STEPS, EPOCHS} & set(given):
        config.training.max_steps = recipe.steps
        said.append(f"{recipe.steps} steps (--max-steps)")
    if recorded.clips and not {"data.batch_size", "data.batch_frames"} & set(given):
        config.data.batch_size = clips_a_batch(60.0 * recorded.minutes / recorded.clips)
        said.append(f"{config.data.batch_size} clips a batch (--batch-size)")
    if "training.learning_rate" not in given:
        config.training.learning_rate = recipe.learning_rate
        said.append(f"a learning rate of {recipe.learning_rate:g} (--lr)")
    if "training.warmup_steps" not in given:
        config.training.warmup_steps = recipe.steps // 20
    if "training.ema_decay" not in given:
        config.training.ema_decay = 0.99 if recipe.steps < 1000 else 0.995
    if "training.sharpness" not in given and config.model.decoder_head == "regression":
        config.training.sharpness = SHARPNESS
        said.append(f"a critic that keeps speech sharp, of weight {SHARPNESS:g} (--sharpness)")
    if "training.dropout" not in given:
        config.training.dropout = DROPOUT
        said.append(f"a dropout of {DROPOUT:g} (--dropout)")
    if "data.augment_speed" not in given:
        config.data.augment_speed = SPEED
        said.append(f"clips played up to {SPEED:.0%} faster or slower (--augment-speed)")
    return [f"Chosen for so much data: {', '.join(said)}"] if said else []
