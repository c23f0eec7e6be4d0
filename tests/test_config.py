"""Settings: defaults that run, wrong ones refused in sentences, YAML in and out."""

from __future__ import annotations

import re

import pytest
import yaml

from myxtts.config.config import (
    DataConfig,
    ModelConfig,
    TrainingConfig,
    XTTSConfig,
    load_config,
    read_yaml,
)
from myxtts.config.presets import MODEL_SIZES, OPTIMIZATION_LEVELS
from myxtts.errors import ConfigError
from tests.support import ROOT


def test_an_unknown_setting_is_refused_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match=r"batchsize is not a known setting; did you mean batch_"):
        DataConfig(batchsize=8)
    with pytest.raises(ConfigError, match=r"data\.batchsize is not .* did you mean batch_size"):
        XTTSConfig(data={"batchsize": 8})
    with pytest.raises(ConfigError, match="did you mean training"):
        XTTSConfig(trainin={})


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("batch_size", 0, "batch_size must be greater than 0, and is 0."),
        ("batch_size", "many", "batch_size must be a valid integer"),
        ("data_gpu", -1, "data_gpu must be greater than or equal to 0, and is -1."),
        ("model_start_delay", 601, "model_start_delay must be less than or equal to 600"),
        ("model_gpu_memory", 0, "model_gpu_memory must be greater than 0"),
        ("cache", "cloud", "cache must be 'memory' or 'disk', and is 'cloud'."),
        ("batchsize", 3, "did you mean batch_size"),
    ],
)
def test_a_wrong_value_is_refused_in_a_sentence_also_on_assignment(name, value, sentence):
    config = DataConfig()
    with pytest.raises(ConfigError, match=sentence):
        setattr(config, name, value)
    assert config == DataConfig()  # unchanged
    with pytest.raises(ConfigError, match=sentence):
        DataConfig(**{name: value})


def test_every_wrong_setting_is_named_at_once():
    with pytest.raises(ConfigError) as refusal:
        XTTSConfig(data={"batch_size": 0, "num_workers": -1}, training={"epochs": 0})
    for name in ("data.batch_size", "data.num_workers", "training.epochs"):
        assert f"{name} must be greater than 0" in refusal.value.problem


def test_settings_are_mutable_and_checked():
    config = DataConfig()
    config.batch_size = 32
    assert config.batch_size == 32


@pytest.mark.parametrize("size", MODEL_SIZES)
def test_a_size_sets_the_widths_and_an_explicit_width_wins(size):
    config = ModelConfig(size=size)
    for name, value in MODEL_SIZES[size].items():
        assert getattr(config, name) == value
    assert ModelConfig(size=size, decoder_dim=99).decoder_dim == 99
    config.size = "small"
    assert config == ModelConfig(size="small")


def test_defaults_are_those_of_their_presets():
    fields = ModelConfig.model_fields
    assert {k: fields[k].default for k in MODEL_SIZES["normal"]} == MODEL_SIZES["normal"]
    fields = TrainingConfig.model_fields
    levels = OPTIMIZATION_LEVELS["enhanced"]
    assert {k: fields[k].default for k in levels} == levels


def test_yaml_in_and_out_is_the_same(tmp_path):
    config = XTTSConfig(
        model=ModelConfig(size="tiny", decoder_dim=123),
        data=DataConfig(train_data="کلیپ‌ها", data_gpu=1, model_gpu=0, simulate=True),
        training=TrainingConfig(optimization_level="basic", learning_rate=3e-4),
    )
    path = tmp_path / "config.yaml"
    config.to_yaml(path)
    assert XTTSConfig.from_yaml(path) == config


def test_a_file_may_leave_out_what_it_does_not_change(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("data:\n  batch_size: 4\ntraining:\n  learning_rate: 1e-4\nmodel:\n")
    config = XTTSConfig.from_yaml(path)
    assert (config.data.batch_size, config.training.learning_rate) == (4, 1e-4)
    assert config.model == ModelConfig()
    path.write_text("")
    assert XTTSConfig.from_yaml(path) == XTTSConfig()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("data: [1, 2", "not valid YAML"),
        ("- 1\n- 2", "does not consist of sections"),
        ("data: 3", "does not consist of sections"),
        ("!!python/object/apply:os.system ['true']", "not valid YAML"),
        ("data:\n  batch_size: 4\n  batch_size: 8\n", "batch_size twice"),
        ("? [a, b]\n: 1", "not valid YAML"),
        ("data: {1: 2}", "does not consist of sections"),
        ("data:\n  data_gpu: yes\n", "data.data_gpu must not be true or false"),
        ("data:\n  batch_size: -4\n", "data.batch_size must be greater than 0"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, text, problem):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        XTTSConfig.from_yaml(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        XTTSConfig.from_yaml(tmp_path / "missing.yaml")


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path):
    path = tmp_path / "config.yaml"
    XTTSConfig(data=DataConfig(batch_size=4, num_workers=3)).to_yaml(path)
    config = load_config(path, {"data.batch_size": 9, "model.size": "tiny"})
    assert (config.data.batch_size, config.data.num_workers) == (9, 3)
    assert config.model == ModelConfig(size="tiny")  # the file's widths do not linger


def test_the_file_of_all_settings_changes_nothing_until_it_is_edited():
    path = ROOT / "configs" / "config.yaml"
    assert XTTSConfig.from_yaml(path) == XTTSConfig()
    assert not any(read_yaml(path).values())
    text = re.sub("^  #(?! )", "  ", path.read_text(encoding="utf-8"), flags=re.M)
    named = yaml.safe_load(text)
    assert XTTSConfig.from_dict(named) == XTTSConfig()
    assert {section: list(values) for section, values in named.items()} == {
        section: list(field.annotation.model_fields)
        for section, field in XTTSConfig.model_fields.items()
    }


def test_every_number_has_an_upper_bound():
    for section, field in XTTSConfig.model_fields.items():
        for name, inner in field.annotation.model_fields.items():
            if re.search(r"\b(int|float)\b", str(inner.annotation)):
                with pytest.raises(ConfigError, match=f"{section}.{name} must be less than"):
                    XTTSConfig.from_dict({section: {name: 10**30}})
