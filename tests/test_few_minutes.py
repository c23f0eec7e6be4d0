"""The benchmark of voices from minutes of recordings trains by the recipe that `train` chooses."""

from __future__ import annotations

import pytest

from benchmarks.few_minutes import NOTHING, settings
from myxtts.errors import ConfigError
from myxtts.training.recipe import DROPOUT, SHARPNESS, SPEED, choose_recipe


def test_a_start_from_a_voice_trains_by_the_recipe_and_one_from_nothing_as_long_as_it_may(tmp_path):
    config = settings(tmp_path, tmp_path / "run", start="base", minutes=5.0)
    recipe, training = choose_recipe(5.0), config.training
    assert (training.max_steps, training.learning_rate) == (recipe.steps, recipe.learning_rate)
    assert (training.sharpness, training.dropout) == (SHARPNESS, DROPOUT)
    assert config.data.augment_speed == SPEED
    config = settings(tmp_path, tmp_path / "run", start=NOTHING, minutes=5.0)
    assert config.training.starts_from is None
    assert config.training.max_steps > 10 * recipe.steps


def test_a_recipe_is_tried_otherwise_and_what_is_no_setting_is_named(tmp_path):
    changes = ["training.freeze=[encoder,duration]", "training.early_stopping_patience=2"]
    config = settings(tmp_path, tmp_path / "run", start="base", minutes=5.0, changes=changes)
    assert config.training.freeze == ("encoder", "duration")
    assert config.training.early_stopping_patience == 2
    for wrong in (
        "training.patience=2",
        "training.preset=1",
        "freeze=encoder",
        "training.dropout",
        "training.dropout=9",
    ):
        with pytest.raises(ConfigError, match="dropout must be less|is no setting"):
            settings(tmp_path, tmp_path / "run", start="base", minutes=5.0, changes=[wrong])
