"""A run that goes on refuses settings by which it would read texts in another way."""

from __future__ import annotations

import pytest
import yaml

from myxtts.errors import ConfigError
from tests import runs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return runs.make_clips(tmp_path_factory.mktemp("data"), runs.TOO_FEW_TO_VALIDATE)


@pytest.fixture
def go_on(tmp_path, data, monkeypatch):
    """Starts a run, or goes on with it, with these settings of its texts."""
    runs.share_device_stage(monkeypatch)
    trainers = runs.Trainers()

    def start(*, steps: int = 1, **settings):
        trainer = trainers(tmp_path / "run", data={"train_data": data, **settings}, max_steps=steps)
        trainer.train()
        return trainer

    yield start
    trainers.close()


@pytest.fixture
def lexicon(tmp_path):
    path = tmp_path / "lexicon.tsv"
    path.write_text("one\twun\n", encoding="utf-8")
    return path


def test_another_tokenizer_is_refused_and_auto_is_not_another(go_on, tmp_path):
    go_on(tokenizer="characters")
    with pytest.raises(ConfigError, match="reads texts as characters, .* says phonemes") as refusal:
        go_on(tokenizer="phonemes", steps=2)
    assert "data.tokenizer: characters" in refusal.value.remedy
    assert "--reset-training" in refusal.value.remedy
    kept = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert kept["data"]["tokenizer"] == "characters"  # a refused run changes nothing
    assert go_on(tokenizer="auto", steps=2).data.tokenizer.to_dict()["kind"] == "characters"


def test_a_lexicon_taken_away_added_or_changed_is_refused(go_on, lexicon):
    go_on(lexicon=lexicon)
    with pytest.raises(ConfigError, match=r"with the lexicon .*lexicon.tsv, .* now empty"):
        go_on(steps=2)
    lexicon.write_text("one\twonn\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="says other things") as refusal:
        go_on(lexicon=lexicon, steps=2)
    assert "--reset-training" in refusal.value.remedy


def test_a_lexicon_that_comes_later_is_refused(go_on, lexicon):
    go_on()
    with pytest.raises(ConfigError, match="says other things"):
        go_on(lexicon=lexicon, steps=2)


def test_the_same_lexicon_elsewhere_or_gone_is_no_change(go_on, lexicon, caplog):
    entries = go_on(lexicon=lexicon).data.tokenizer.lexicon.entries
    moved = lexicon.rename(lexicon.with_name("moved.tsv"))
    go_on(lexicon=moved, steps=2)
    moved.unlink()
    trainer = go_on(lexicon=moved, steps=3)
    assert "moved.tsv is gone" in caplog.text
    assert trainer.data.tokenizer.lexicon.entries == entries == {"one": "wun"}
