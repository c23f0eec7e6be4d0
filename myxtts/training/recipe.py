"""Where a run starts and how long it trains, chosen by how much was recorded; loads no TensorFlow.

A voice from minutes of recordings starts from the base voice, and more data takes more steps. What
the user chose is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from myxtts.base import BASE, NONE, base_sizes
from myxtts.config.config import XTTSConfig
from myxtts.config.presets import MODEL_SIZES

SHARPNESS = 0.2  # from 0.1 to 0.5 it makes no difference that DNSMOS or the recogniser hears
SPEED = 0.17  # how much faster or slower clips are played, so that they are not learnt by heart
DROPOUT = 0.1
BATCH_SECONDS, MOST_CLIPS = 48.0, 16  # of speech, about, and clips in a batch: steps were found so
MOST_MINUTES = 60.0  # of data that a voice starts from the base voice with, unasked


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


# What is chosen by how much was recorded, if the user does not; a run that goes on keeps it.
CHOSEN = (
    "model.size",
    "data.batch_size",
    "data.augment_speed",
    "training.init_from",
    "training.max_steps",
    "training.learning_rate",
    "training.warmup_steps",
    "training.ema_decay",
    "training.sharpness",
    "training.dropout",
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
    if asked not in (None, BASE):
        return []
    if asked is None and (reason := _why_not(config, given, has_gpu=has_gpu)):
        return [f"Starting from nothing: {reason}"]
    recorded = measure()
    if asked is None and "model.size" not in given and recorded.minutes > MOST_MINUTES:
        return [
            f"Starting from nothing: {recorded.minutes:.0f} minutes of recordings are enough for a "
            f"voice of its own (--init-from {BASE} starts from the base voice)"
        ]
    if "model.size" not in given:
        config.model.size = _own_size(has_gpu)  # type: ignore[assignment]
    config.training.init_from = Path(BASE)
    lines = [
        f"Starting from the base voice ({config.model.size}), with {recorded.minutes:.1f} minutes "
        f"of recordings. From nothing: --init-from {NONE}"
    ]
    return lines + _apply(config, recorded, given)


def keep_choices(config: XTTSConfig, begun: XTTSConfig, *, given: Collection[str]) -> None:
    """Let a run that began from the base voice go on as it began, in place.

    What the user says now counts, and a length that the user chose then is not this time's.
    """
    if str(begun.training.init_from) != BASE:
        return
    own_length = begun.training.max_steps not in {recipe.steps for recipe in RECIPES}
    for name in CHOSEN:
        if name == "training.max_steps" and (own_length or "training.epochs" in given):
            continue
        if name not in given:
            section, key = name.split(".")
            setattr(getattr(config, section), key, getattr(getattr(begun, section), key))


def _own_size(has_gpu: bool) -> str:
    return base_sizes()[0 if has_gpu else -1]


def _why_not(config: XTTSConfig, given: Collection[str], *, has_gpu: bool) -> str:
    """What speaks against the base voice, where nobody asked for it; nothing if it is empty."""
    sizes, size = base_sizes(), config.model.size
    if not sizes:
        return "this installation holds no base voice"
    if "model.size" in given and size not in sizes:
        return (
            f"there is no base voice of the size {size} (--model-size {sizes[0]} has one, "
            f"--init-from {BASE} grows it)"
        )
    own = size if "model.size" in given else _own_size(has_gpu)
    if any(
        f"model.{name}" in given and getattr(config.model, name) != width
        for name, width in MODEL_SIZES[own].items()
    ):
        return "the base voice has other widths"
    return ""


def _apply(config: XTTSConfig, recorded: Recorded, given: Collection[str]) -> list[str]:
    recipe, said = choose_recipe(recorded.minutes), []
    if not {"training.max_steps", "training.epochs"} & set(given):
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
