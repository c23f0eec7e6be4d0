"""The benchmark of voices from minutes of recordings trains by the recipe that `train` chooses."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.few_minutes import settings
from myxtts.base import NONE
from myxtts.config.config import XTTSConfig
from myxtts.errors import ConfigError
from myxtts.training.recipe import CHOSEN, Recorded, choose_start

FIVE_MINUTES = Recorded(5.0, 46)


def test_a_start_from_a_voice_trains_by_the_recipe_and_one_from_nothing_as_long_as_it_may(tmp_path):
    chosen = XTTSConfig(data={"train_data": tmp_path})
    choose_start(chosen, given=(), measure=lambda: FIVE_MINUTES, has_gpu=False)
    config = settings(tmp_path, tmp_path / "run", start="mine", recorded=FIVE_MINUTES)
    for name in CHOSEN:
        section, key = name.split(".")
        own, trains = (getattr(getattr(each, section), key) for each in (config, chosen))
        assert own == (Path("mine") if key == "init_from" else trains)
    config = settings(tmp_path, tmp_path / "run", start=NONE, recorded=FIVE_MINUTES)
    assert config.training.starts_from is None
    assert config.training.max_steps > 10 * chosen.training.max_steps


def test_a_recipe_is_tried_otherwise_and_what_is_no_setting_is_named(tmp_path):
    changes = ["training.freeze=[encoder,duration]", "training.early_stopping_patience=2"]
    config = settings(
        tmp_path, tmp_path / "run", start="base", recorded=FIVE_MINUTES, changes=changes
    )
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
            settings(
                tmp_path, tmp_path / "run", start="base", recorded=FIVE_MINUTES, changes=[wrong]
            )
