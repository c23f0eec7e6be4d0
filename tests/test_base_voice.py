"""The voice that comes with MyXTTS: whole, small, and what a run starts from unless told not to."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file
from typer.testing import CliRunner

from myxtts import base
from myxtts.cli.app import app
from myxtts.cli.plan import plan_settings
from myxtts.cli.profile import profile_settings
from myxtts.config.commands import training_command
from myxtts.config.config import ModelConfig, XTTSConfig
from myxtts.config.presets import MODEL_SIZES
from myxtts.data.prepare import what_is_recorded
from myxtts.errors import ConfigError, DataError
from myxtts.features.audio import SAMPLE_RATE
from myxtts.inference.base_card import make_card
from myxtts.inference.export import export_voice
from myxtts.inference.synthesizer import Synthesizer
from myxtts.inference.timbre import (
    FARTHEST,
    MOST_SOUNDS,
    SMOOTHED,
    correction,
    speech_sounds,
)
from myxtts.inference.voice_files import WEIGHTS_FILE, load_voice
from myxtts.models.xtts import XTTS
from myxtts.text.languages import LANGUAGES
from myxtts.text.tokenizers import PHONEMES
from myxtts.training import setup
from myxtts.training.fine_tuning import SYMBOLS, load_matching_weights
from myxtts.training.recipe import (
    MOST_MINUTES,
    Recorded,
    choose_recipe,
    choose_start,
    clips_a_batch,
    keep_choices,
)
from tests.runs import make_clips
from tests.support import ROOT

MADE_BEFORE = ROOT / "tests" / "fixtures" / "made_before"
MOST_MB = {"tiny": 5.0, "small": 15.0}


def config(**sections):
    return XTTSConfig(**{name: dict(values) for name, values in sections.items()})


@pytest.fixture(scope="module")
def voice():
    return load_voice(base.base_folder("tiny"))


def test_it_is_small_and_reads_and_speaks_every_language(voice):
    assert "tiny" in base.base_sizes()
    assert load_voice("base").size == base.base_sizes()[0]
    assert voice.languages == tuple(LANGUAGES)
    assert voice.kind == "phonemes"
    assert voice.tokenizer.symbols[4:] == PHONEMES
    assert all(np.isfinite(array).all() for array in voice.weights.values())
    assert {str(array.dtype) for array in voice.weights.values()} == {"float32"}
    for size in base.base_sizes():
        files = list(base.base_folder(size).iterdir())
        assert sum(file.stat().st_size for file in files) < MOST_MB[size] * 1e6


@pytest.mark.parametrize("size", base.base_sizes())
def test_its_card_names_what_it_heard_what_was_measured_and_what_it_is_not(size):
    card = base.read_card(size)
    assert card["size"] == size
    assert card["steps"] == load_voice(base.base_folder(size)).step
    heard = card["heard"]
    assert heard["espeak-ng"]["languages"] == sorted(LANGUAGES)
    assert {"words", "languages", "unseen", "people"} <= set(card["numbers"])
    assert card["not"]
    left_out = [each["leave_out"] for each in card["made"]["corpus"]["recordings"]]
    assert all(names == [f"s{number}" for number in range(49, 55)] for names in left_out)


def test_its_cards_are_shown_side_by_side_and_whole_for_programs():
    cards = [base.read_card(size) for size in reversed(base.base_sizes())]
    shown = CliRunner().invoke(app, ["base", "show"]).stdout
    for card in cards:
        assert f"{card['numbers']['people']['digits']['nearest']:.2f}" in shown
        assert all(line in shown for line in card["notes"])
    assert "digits-54-speakers: 48 speakers (and 96 made of them, played" in shown
    assert json.loads(CliRunner().invoke(app, ["base", "show", "--json"]).stdout) == cards


def test_a_damaged_one_is_refused(tmp_path):
    folder = shutil.copytree(base.base_folder("tiny"), tmp_path / "base")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DataError, match="checksum"):
        load_voice(folder)
    config_file = folder / "config.json"
    facts = json.loads(config_file.read_text(encoding="utf-8"))
    facts["step"] += 1
    config_file.write_text(json.dumps(facts), encoding="utf-8")
    with pytest.raises(DataError, match="changed"):
        load_voice(folder)


def test_a_model_of_its_size_takes_all_of_it_and_one_that_reads_characters_all_but_symbols(voice):
    model = XTTS(ModelConfig(size="tiny", vocab_size=voice.model.vocab_size))
    match = load_matching_weights(model, voice)
    assert (match.share, match.extended, match.new) == (1.0, [], [])
    match = load_matching_weights(model, voice, same_symbols=False)
    assert match.new == [SYMBOLS]


def test_a_size_without_one_starts_from_the_next_smaller():
    wanted = config(model={"size": "big"}, training={"init_from": "base"})
    source = setup.fine_tuning_source(wanted, None)
    assert source.model.size == base.base_sizes()[0]
    wanted = config(model={"size": "tiny"}, training={"init_from": "base"})
    assert setup.fine_tuning_source(wanted, None).model.size == "tiny"
    assert setup.fine_tuning_source(config(training={"init_from": "none"}), None) is None
    assert setup.fine_tuning_source(config(), None) is None


def test_one_is_exported_in_half_precision_with_a_card_made_from_its_run(tmp_path):
    made = tmp_path / "made"
    shutil.copytree(MADE_BEFORE / "run", made / "run")
    sources = {
        "espeak-ng": {"clips": 3, "languages": ["de", "fa"]},
        "people": {"clips": 2, "languages": ["fa"]},
    }
    facts = {"sources": sources, "espeak_ng": "1.52", "settings": {"seed": 7}}
    (made / "corpus").mkdir()
    (made / "corpus" / "base_corpus.json").write_text(json.dumps(facts), encoding="utf-8")
    numbers = tmp_path / "numbers.json"
    numbers.write_text('{"words": {"unseen words": 0.5}}', encoding="utf-8")
    card = make_card(made, numbers=numbers, notes=["from somewhere"])
    assert (card["steps"], card["heard"], card["notes"]) == (
        5,
        facts["sources"],
        ["from somewhere"],
    )
    assert card["numbers"]["words"] == {"unseen words": 0.5}
    assert card["made"]["device"] == "CPU"
    assert "all but Persian it heard from espeak-ng alone" in card["not"][-1]
    out = export_voice(made / "run", tmp_path / "voice", card=card)
    assert {file.name for file in out.iterdir()} == {"card.json", "config.json", WEIGHTS_FILE}
    half = load_file(out / WEIGHTS_FILE)
    assert {str(array.dtype) for array in half.values()} == {"float16"}
    whole, loaded = load_voice(made / "run"), load_voice(out)
    for name, array in whole.weights.items():
        np.testing.assert_allclose(loaded.weights[name], array, rtol=1e-3, atol=1e-6)
    assert loaded.speakers == ()
    export_voice(made / "run", out, card=card)  # replaces its own
    passed_on = export_voice(out, tmp_path / "passed on")
    assert load_voice(passed_on).is_base  # or it would speak otherwise: nothing moves its sounds
    assert not load_voice(export_voice(made / "run", tmp_path / "trained")).is_base
    with pytest.raises(DataError, match="facts for the card"):
        make_card(tmp_path / "nothing", numbers=None, notes=[])


def test_each_sound_is_moved_to_how_the_reference_says_it_and_keeps_its_loudness():
    places = np.linspace(0, 1, 80, dtype=np.float32)
    sounds = {"dark": -4 - 4 * places, "bright": -8 + 4 * places}  # as a model draws them
    bent = {  # and as somebody says them: each has another bend
        "dark": sounds["dark"] + 0.4 * np.sin(3 * np.pi * places),
        "bright": sounds["bright"] - 0.4 * np.sin(3 * np.pi * places),
    }
    reference = np.concatenate([np.tile(bent[name], [30, 1]) for name in ("dark", "bright")] * 2)
    pause = np.full([50, 80], -11.5, np.float32)
    heard = speech_sounds([np.concatenate([reference, pause]).astype(np.float32)])
    assert len(heard) == len(reference)  # pauses do not count
    drawn = np.concatenate([np.tile(sounds[name], [40, 1]) for name in ("bright", "dark")])
    moved = drawn + correction(heard, drawn.astype(np.float32), np.array([40, 40]))
    for start, name in ((0, "bright"), (40, "dark")):
        middle = slice(start + 10, start + 30)
        shape = (moved[middle] - bent[name]).mean(axis=0)
        before = (drawn[middle] - bent[name]).mean(axis=0)
        assert np.std(shape) < 0.1 * np.std(before)
        loudness = [np.logaddexp.reduce(each[middle], axis=1) for each in (moved, drawn)]
        np.testing.assert_allclose(*loudness, atol=0.1)


def test_a_sound_that_the_reference_lacks_is_moved_only_so_far():
    places = np.linspace(0, 1, 80, dtype=np.float32)
    heard = np.tile(-4 - 4 * places, [50, 1])
    moved = correction(heard, np.tile(-8 + 4 * places, [50, 1]), np.array([50]))
    np.testing.assert_allclose(np.sqrt((moved**2).mean(axis=1)), FARTHEST, rtol=1e-4)


def test_a_reference_counts_up_to_a_length_and_pauses_stay_as_they_are():
    rng = np.random.default_rng(0)
    speech = rng.normal(-4, 1, [3000, 80]).astype(np.float32)
    assert len(speech_sounds([speech, speech])) == MOST_SOUNDS
    pause = np.full([20, 80], -11.5, np.float32)
    mel = np.concatenate([speech[:50], pause])
    assert not correction(speech_sounds([speech]), mel, np.array([50, 20]))[55:].any()


def test_each_half_of_a_sound_is_moved_as_one():
    rng = np.random.default_rng(0)
    heard, mel = rng.normal(-4, 1, [2, 60, 80]).astype(np.float32)
    added = correction(heard, mel, np.array([0, 30, 30, 0]))
    reach = SMOOTHED // 2  # near the edges of a half its neighbour is heard too
    for first in (0, 15, 30, 45):
        middle = added[first + (reach if first else 0) : first + 15 - reach]
        np.testing.assert_allclose(middle, middle[:1].repeat(len(middle), 0), atol=1e-6)
    assert np.abs(added[7] - added[22]).max() > 0.01


def test_only_the_base_voice_is_moved_unasked(voice):
    assert voice.is_base
    assert Synthesizer(voice).timbre == 1.0
    plain = Synthesizer(voice, timbre=0.0)
    time = np.arange(3 * SAMPLE_RATE) / SAMPLE_RATE
    hum = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 12)) * 0.1
    heard = plain.listen((hum, SAMPLE_RATE))
    first, again = (plain.perform(["Good day."], voice=heard)[0].mel for _ in range(2))
    plain.timbre = 1.0
    moved = plain.perform(["Good day."], voice=heard)[0].mel
    np.testing.assert_array_equal(first, again)
    off = moved - first
    assert np.abs(off).max() > 0.1
    with pytest.raises(DataError, match="earlier version, which did not keep its sounds"):
        plain.perform(["Good day."], voice=heard._replace(sounds=None))


# -- what `train` starts from, and how long --


def test_minutes_of_recordings_start_from_it_in_its_size_with_a_recipe():
    settings = config()
    said = choose_start(settings, given=(), measure=lambda: Recorded(12.0, 100), has_gpu=False)
    assert "base voice (tiny), with 12.0 minutes" in said[0]
    assert "--init-from none" in said[0]
    recipe = choose_recipe(12.0)
    assert (settings.model.size, str(settings.training.init_from)) == ("tiny", "base")
    assert settings.model.voice_dim == MODEL_SIZES["tiny"]["voice_dim"]
    assert settings.training.max_steps == recipe.steps
    assert settings.training.learning_rate == recipe.learning_rate
    assert settings.training.dropout > 0
    assert settings.data.augment_speed > 0
    assert settings.data.batch_size == clips_a_batch(7.2)
    flags = "--max-steps --batch-size --lr --sharpness --dropout --augment-speed"
    for flag in flags.split():
        assert flag in said[1]


def test_a_gpu_trains_the_largest_there_is_and_a_cpu_the_smallest():
    for has_gpu, size in ((True, base.base_sizes()[0]), (False, "tiny")):
        settings = config()
        choose_start(settings, given=(), measure=lambda: Recorded(12.0, 100), has_gpu=has_gpu)
        assert settings.model.size == size


def test_more_data_gets_more_steps():
    steps = [choose_recipe(minutes).steps for minutes in (1, 5, 15, 60, 6000)]
    assert steps == sorted(steps)
    assert len(set(steps)) >= 4


def test_the_longer_the_clips_the_fewer_are_a_batch():
    assert [clips_a_batch(seconds) for seconds in (0.5, 3.0, 6.6, 11.0, 90.0)] == [16, 16, 7, 4, 1]
    by_frames = config(data={"batch_frames": 9000})
    given = ["data.batch_frames"]
    choose_start(by_frames, given=given, measure=lambda: Recorded(12.0, 100), has_gpu=False)
    assert by_frames.data == config(data={"batch_frames": 9000, "augment_speed": 0.17}).data


def test_what_was_chosen_is_left_alone():
    settings = config(
        model={"size": "tiny"}, training={"epochs": 3, "learning_rate": 0.002, "ema_decay": 0.9}
    )
    given = ["model.size", "training.epochs", "training.learning_rate"]
    given += ["training.ema_decay", "training.sharpness", "training.dropout", "data.augment_speed"]
    given += ["data.batch_size"]
    hours = Recorded(600.0, 5000)
    said = choose_start(settings, given=given, measure=lambda: hours, has_gpu=False)
    assert "base voice" in said[0]
    assert settings.training.max_steps is None
    assert (settings.training.learning_rate, settings.training.ema_decay) == (0.002, 0.9)
    assert str(settings.training.init_from) == "base"  # the size was chosen, and has one


def test_a_run_that_goes_on_keeps_what_was_chosen_for_it_unless_told_otherwise_now():
    begun, again = config(), config(training={"learning_rate": 0.002})
    now = lambda: Recorded(12.0, 100)  # noqa: E731
    choose_start(begun, given=(), measure=now, has_gpu=False)
    (said,) = keep_choices(again, begun, given=["training.learning_rate"], measure=now)
    assert f"(tiny), and goes on so: {choose_recipe(12.0).steps} steps" in said
    assert again.training.learning_rate == 0.002
    again.training.learning_rate = begun.training.learning_rate
    assert again == begun
    longer = config(training={"epochs": 3})
    (said,) = keep_choices(longer, begun, given=["training.epochs"], measure=never)
    assert longer.training.max_steps is None
    assert "3 epochs" in said
    for once in (20, None):  # chosen by the user, to try it: so many steps, or epochs
        begun.training.max_steps, again.training.max_steps = once, None
        keep_choices(again, begun, given=(), measure=now)
        assert again.training.max_steps == choose_recipe(12.0).steps
    again.training.max_steps = 30
    keep_choices(again, begun, given=["training.max_steps"], measure=never)
    assert again.training.max_steps == 30


@pytest.mark.parametrize("once", [20, choose_recipe(12.0).steps])
def test_a_run_on_hours_of_data_goes_on_for_as_long_as_the_settings_say(once):
    begun, again = config(training={"init_from": "base", "max_steps": once}), config()
    hours = Recorded(300.0, 3600)
    (said,) = keep_choices(again, begun, given=(), measure=lambda: hours)
    assert again == config(training={"init_from": "base"})
    assert f"{again.training.epochs} epochs" in said


def test_a_run_that_began_from_nothing_is_left_alone():
    again = config()
    begun = config(model={"size": "tiny"}, training={"max_steps": 300})
    assert keep_choices(again, begun, given=(), measure=never) == []
    assert again == config()


def test_other_sizes_grow_from_it_and_hours_of_data_have_no_recipe():
    settings = config(model={"size": "normal"})
    few = Recorded(12.0, 100)
    choose_start(settings, given=["model.size"], measure=lambda: few, has_gpu=False)
    assert (settings.model.size, str(settings.training.init_from)) == ("normal", "base")
    assert settings.training.max_steps == choose_recipe(12.0).steps
    width = MODEL_SIZES["normal"]["decoder_dim"]
    settings = config(model={"decoder_dim": width})  # its own, of the size that grows
    hours = Recorded(MOST_MINUTES + 1, 100)
    given = ["model.decoder_dim"]
    said = choose_start(settings, given=given, measure=lambda: hours, has_gpu=False)
    assert "no recipe" in said[1]
    expected = config(training={"init_from": "base"})
    assert settings == expected


@pytest.mark.parametrize(
    ("model", "minutes", "why"),
    [
        ({"size": "big", "decoder_head": "flow"}, 12.0, "another head"),
        ({"decoder_head": "flow"}, MOST_MINUTES + 1, "another head"),
        ({"size": "tiny", "voice_dim": 8}, 12.0, "widths"),
    ],
)
def test_where_it_does_not_fit_a_run_starts_from_nothing_and_says_why(model, minutes, why):
    settings = config(model=model)
    before = settings.model_copy(deep=True)
    given, recorded = [f"model.{name}" for name in model], Recorded(minutes, 100)
    (said,) = choose_start(settings, given=given, measure=lambda: recorded, has_gpu=False)
    assert said.startswith("Starting from nothing")
    assert why in said
    assert settings == before


def test_a_width_that_was_chosen_is_kept_where_it_is_asked_for():
    settings = config(model={"decoder_dim": 200}, training={"init_from": "base"})
    given = ["model.decoder_dim", "training.init_from"]
    few = Recorded(12.0, 100)
    choose_start(settings, given=given, measure=lambda: few, has_gpu=False)
    assert (settings.model.size, settings.model.decoder_dim) == ("tiny", 200)


def never() -> Recorded:
    raise AssertionError("nobody looks at every clip for nothing")


@pytest.mark.parametrize(("asked", "said"), [("none", 1), (base.base_folder("tiny"), 0)])
def test_another_start_is_not_touched(asked, said):
    settings = config(training={"init_from": asked})
    before = settings.model_copy(deep=True)
    lines = choose_start(settings, given=["training.init_from"], measure=never, has_gpu=False)
    assert len(lines) == said
    assert all("from nothing, as asked" in line for line in lines)
    assert settings == before


def test_a_voice_that_is_not_there_is_missed_before_anything_takes_time(tmp_path):
    settings = config(training={"init_from": tmp_path / "bsae"})
    with pytest.raises(ConfigError, match="not there.*\n.*--init-from base"):
        choose_start(settings, given=["training.init_from"], measure=never, has_gpu=False)
    made = ["base", "train", "--out", str(tmp_path / "made"), "--init-from", str(tmp_path / "no")]
    assert isinstance(CliRunner().invoke(app, made).exception, ConfigError)
    assert not (tmp_path / "made").exists()


def test_nothing_is_promised_where_no_clip_can_be_used():
    settings = config()
    lines = choose_start(settings, given=[], measure=lambda: Recorded(0.0, 0), has_gpu=False)
    assert lines == []
    assert settings == config()


def test_the_one_that_is_shipped_is_exported_as_it_is(tmp_path):
    out, own = export_voice("base", tmp_path / "mine"), base.base_folder()
    assert {file.name for file in out.iterdir()} == {"card.json", "config.json", WEIGHTS_FILE}
    assert (out / WEIGHTS_FILE).read_bytes() == (own / WEIGHTS_FILE).read_bytes()
    assert base.read_card() == json.loads((out / "card.json").read_text(encoding="utf-8"))


def test_profile_and_plan_are_of_the_training_that_train_would_choose(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no settings and no run of anybody else's
    data = make_clips(tmp_path / "data", 4)
    given = {"data.train_data": data, "data.simulate": True}
    measured = profile_settings(None, dict(given))
    assert (measured.model.size, str(measured.training.init_from)) == ("tiny", "base")
    assert measured.training.sharpness > 0
    command = training_command(measured)  # which a profile recommends: it keeps the base voice
    assert "--model-size tiny" in command
    assert "--init-from base" in command
    planned = plan_settings(None, {"data.train_data": data})
    assert planned.model.size == base.base_sizes()[0]  # for cards, which this machine may lack
    own = profile_settings(None, given | {"training.init_from": "none"})
    assert own.training.starts_from is None
    elsewhere = plan_settings(None, {"data.train_data": tmp_path / "on another machine"})
    assert elsewhere.training.init_from is None


def test_printed_settings_are_those_that_train_would_choose(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = make_clips(tmp_path / "data", 4)
    printed = ["train", "--print-config", "--train-data"]
    done = CliRunner().invoke(app, [*printed, str(data)])
    shown = yaml.safe_load(done.stdout)
    assert shown["training"]["init_from"] == "base"
    assert shown["training"]["max_steps"] == choose_recipe(0.1).steps
    done = CliRunner().invoke(app, [*printed, "elsewhere"])
    assert yaml.safe_load(done.stdout)["training"]["init_from"] is None
    assert "elsewhere is not here" in done.stderr


def test_minutes_are_those_of_the_clips_that_can_be_used(tmp_path):
    data = make_clips(tmp_path / "data", 10, seconds=6.0)
    (data / "wavs" / "c001.wav").unlink()
    settings = config(data={"train_data": str(data)})
    minutes, clips = what_is_recorded(settings.data)
    assert (minutes, clips) == (pytest.approx(0.91, abs=0.02), 9)
