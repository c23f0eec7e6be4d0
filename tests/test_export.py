"""An export speaks as its run does, is whole or not there, and a damaged one is refused."""

from __future__ import annotations

import hashlib
import json
import os

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from myxtts.errors import DataError, MyXTTSError
from myxtts.inference import export as export_module
from myxtts.inference import export_voice, load_voice
from myxtts.inference.synthesizer import Synthesizer
from myxtts.inference.voice_files import config_checksum
from myxtts.text.lexicon import Lexicon
from myxtts.text.tokenizers import CharacterTokenizer
from myxtts.training.fine_tuning import load_matching_weights
from tests.small_runs import save_run
from tests.voices import ONE_BLOCK, make_voice

FILES = {"README.md", "config.json", "model.safetensors"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    tokenizer = CharacterTokenizer(lexicon=Lexicon({"XTTS": "ex tee tee ess"})).extended("éß")
    return save_run(tmp_path_factory.mktemp("voice") / "run", tokenizer=tokenizer)


@pytest.fixture
def exported(run, tmp_path):
    return export_voice(run, tmp_path / "out")


def rewrite_config(folder, **changes):
    """Change what an export says of itself, with the right checksum."""
    config = json.loads((folder / "config.json").read_text())
    config |= changes
    config["checksum"] = config_checksum(config)
    (folder / "config.json").write_text(json.dumps(config))


def test_an_export_is_the_same_voice_as_its_run(run, exported):
    ours, theirs = load_voice(run), load_voice(exported)
    assert {path.name for path in exported.iterdir()} == FILES
    for name in ("step", "model", "speakers", "language", "max_text_length"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.tokenizer.to_dict() == theirs.tokenizer.to_dict()
    assert theirs.tokenizer.encode("XTTS é", "en") == ours.tokenizer.encode("XTTS é", "en")
    assert ours.weights.keys() == theirs.weights.keys()
    for name, value in ours.weights.items():
        np.testing.assert_array_equal(value, theirs.weights[name])


def test_it_holds_the_averaged_weights_and_says_what_it_is(run, exported):
    ema = load_file(run / "checkpoints" / "step_00000007" / "ema.safetensors")
    np.testing.assert_array_equal(load_voice(exported).weights["means/kernel"], ema["means/kernel"])
    config = json.loads((exported / "config.json").read_text())
    weights = (exported / "model.safetensors").read_bytes()
    assert config["weights"]["sha256"] == hashlib.sha256(weights).hexdigest()
    readme = (exported / "README.md").read_text()
    assert "myxtts synthesize --model out" in readme
    assert "anna, ben" in readme
    assert str(exported.parent) not in readme


def test_a_single_checkpoint_is_a_voice_too(run, tmp_path):
    checkpoint = run / "checkpoints" / "step_00000007"
    assert load_voice(export_voice(checkpoint, tmp_path / "out")).step == 7


def test_training_starts_from_an_export(exported):
    source = load_voice(exported)
    model = make_voice(vocab_size=source.tokenizer.vocab_size + 3, **ONE_BLOCK)
    match = load_matching_weights(model, source)
    assert match.new == []
    assert len(match.extended) == 1
    assert match.share == 1.0
    np.testing.assert_array_equal(model.means.kernel, source.weights["means/kernel"])


def test_an_earlier_export_is_replaced_and_an_empty_folder_filled(run, exported, tmp_path):
    rewrite_config(exported, step=1)
    assert load_voice(exported).step == 1
    export_voice(run, exported)
    assert load_voice(exported).step == 7
    (tmp_path / "empty").mkdir()
    export_voice(run, tmp_path / "empty")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "out"]


def test_whatever_else_is_there_is_left_alone(run, exported, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "config.json").write_text("{}")
    (exported / "notes.txt").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("file", "folder", "out", "dangling"):
        if name == "dangling":  # resolved: the export appears where the link points
            assert export_voice(run, tmp_path / name) == tmp_path / "nowhere"
            continue
        with pytest.raises(DataError, match="is left alone"):
            export_voice(run, tmp_path / name)
    with pytest.raises(DataError, match="is left alone"):
        export_voice(run, run)
    assert (tmp_path / "file").read_text() == "mine"
    assert (exported / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("moment", ["fsync", "rename"])
def test_a_write_that_fails_leaves_the_old_export_and_no_rubbish(
    run, exported, tmp_path, monkeypatch, moment
):
    real, calls = getattr(os, moment), []

    def fail(*arguments):
        calls.append(arguments)
        if len(calls) == 2:  # of two renames the second, when the old folder has stepped aside
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(export_module.os, moment, fail)
    with pytest.raises(MyXTTSError, match="No space left"):
        export_voice(run, exported)
    monkeypatch.undo()
    assert load_voice(exported).step == 7
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def cut(path, *, share=0.5):
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * share)])


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) * 3 // 4] ^= 4
    path.write_bytes(raw)


DAMAGE = {
    "model.safetensors cannot be used: it is missing": lambda out: (
        out / "model.safetensors"
    ).unlink(),
    "config.json cannot be used: it is missing": lambda out: (out / "config.json").unlink(),
    r"config.json cannot be used: it is cut off or damaged": lambda out: cut(out / "config.json"),
    r"model.safetensors cannot be used: \d+ bytes long instead": lambda out: cut(
        out / "model.safetensors"
    ),
    "model.safetensors cannot be used: its checksum": lambda out: flip(out / "model.safetensors"),
    "it was not written by `myxtts export`": lambda out: (out / "config.json").write_text(
        '{"architectures": ["Other"]}'
    ),
    r"not written by": lambda out: (out / "config.json").write_text("[1]"),
    "it has format 99, this version reads 1": lambda out: rewrite_config(out, format_number=99),
    "its checksum does not match: it was changed": lambda out: (out / "config.json").write_text(
        (out / "config.json").read_text().replace('"step": 7', '"step": 8')
    ),
    "is not a voice model's": lambda out: rewrite_config(out, tokenizer=None),
    "reads .* symbols, but its model knows 30": lambda out: rewrite_config(
        out, model={**json.loads((out / "config.json").read_text())["model"], "vocab_size": 30}
    ),
    "hidden_layers is not a known setting": lambda out: rewrite_config(
        out, model={"size": "tiny", "hidden_layers": 3}
    ),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_a_damaged_or_foreign_export_is_refused_with_the_reason(run, tmp_path, message):
    folder = export_voice(run, tmp_path / "out")
    DAMAGE[message](folder)
    with pytest.raises(MyXTTSError, match=message):
        load_voice(folder)


def test_weights_of_another_shape_are_refused_by_name(exported):
    file = exported / "model.safetensors"
    weights = load_file(file)
    weights["means/kernel"] = weights["means/kernel"][:, :7].copy()
    save_file(weights, file)
    raw = file.read_bytes()
    facts = {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    rewrite_config(exported, weights=facts)
    with pytest.raises(DataError, match="do not fit their settings: .*means/kernel") as refused:
        Synthesizer.load(exported)
    assert "--reset-training" not in str(refused.value)


def test_what_is_no_voice_is_refused(tmp_path):
    with pytest.raises(DataError, match="is missing"):
        load_voice(tmp_path / "nowhere")
    with pytest.raises(DataError, match="neither a run folder nor an exported voice"):
        load_voice(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(DataError, match="no whole checkpoint yet"):
        load_voice(tmp_path)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"tokenizer": None}, "was trained on features"),
        ({"config": {"model": {"size": "tiny"}}}, "is not a voice model's"),
        ({"config": {}}, "is not a voice model's"),
        ({"speakers": None}, "is not a voice model's"),
    ],
)
def test_a_run_of_something_else_is_refused(tmp_path, state, message):
    with pytest.raises(DataError, match=message):
        load_voice(save_run(tmp_path, state=state))
