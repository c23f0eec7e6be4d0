"""Starting from another voice: what fits is taken, what does not is named or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import ModelConfig
from myxtts.data.feature_batches import batch_from_features
from myxtts.errors import ConfigError, DataError
from myxtts.features.audio import NUM_MELS, REFERENCE_FRAMES
from myxtts.inference.voice_files import VoiceFiles
from myxtts.models.weights import weight_names
from myxtts.text.tokenizers import CharacterTokenizer, PhonemeTokenizer
from myxtts.training.fine_tuning import (
    SYMBOLS,
    describe_match,
    joined_tokenizer,
    load_matching_weights,
)
from tests.voices import WIDTHS, losses_of, make_voice, shared_voice


def weights_of(model):
    return {
        name: variable.numpy().copy()
        for name, variable in zip(weight_names(model.variables), model.variables, strict=True)
    }


def voice_files(model, *, tokenizer=None, speakers=("anna", "ben")):
    return VoiceFiles(
        folder=Path("runs/first"),
        step=1200,
        model=model.config,
        tokenizer=tokenizer or CharacterTokenizer(),
        speakers=speakers,
        languages=("en",),
        language="en",
        weights={name: value + 1.0 for name, value in weights_of(model).items()},
    )


def assert_weights(model, expected):
    for name, value in weights_of(model).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_the_same_model_takes_every_weight():
    model = shared_voice()
    source = voice_files(model)
    match = load_matching_weights(model, source)
    assert match.taken == weight_names(model.variables)
    assert (match.extended, match.new, match.share) == ([], [], 1.0)
    assert_weights(model, source.weights)


@pytest.mark.parametrize("symbols", [36, 25], ids=["more", "fewer"])
def test_other_symbols_leave_the_rows_of_the_ones_both_know(symbols):
    source = voice_files(shared_voice())
    model = make_voice(vocab_size=symbols)
    before = weights_of(model)[SYMBOLS]
    match = load_matching_weights(model, source)
    assert match.extended == [SYMBOLS]
    assert match.new == []
    assert match.share == 1.0
    rows, both = weights_of(model)[SYMBOLS], min(symbols, 30)
    np.testing.assert_array_equal(rows[:both], source.weights[SYMBOLS][:both])
    np.testing.assert_array_equal(rows[both:], before[both:])
    assert SYMBOLS not in match.taken


def test_a_smaller_model_is_refused_with_the_size_to_use_and_stays_as_it_is():
    source = voice_files(shared_voice())
    model = make_voice(encoder_dim=24, decoder_dim=8, voice_dim=12)
    before = weights_of(model)
    with pytest.raises(ConfigError, match="--model-size tiny") as refused:
        load_matching_weights(model, source)
    assert "runs/first" in str(refused.value)
    assert_weights(model, before)


@pytest.mark.parametrize(("old", "new"), [("regression", "flow"), ("flow", "regression")])
def test_another_head_takes_what_both_have_and_names_what_is_new(old, new):
    source, model = voice_files(shared_voice(old)), shared_voice(new)
    before = weights_of(model)
    match = load_matching_weights(model, source)
    flows_own = ["decoder/time/kernel", "decoder/time/bias"] if new == "flow" else []
    assert set(match.new) == {"decoder/project/kernel", *flows_own}  # the flow sees a mel as well
    assert 0.5 < match.share < 1.0
    expected = {
        name: before[name] if name in match.new else source.weights[name] for name in before
    }
    assert_weights(model, expected)


def test_what_came_along_and_what_is_new_is_said():
    source, model = voice_files(shared_voice("regression")), shared_voice("flow")
    match = load_matching_weights(model, source)
    tokenizer = source.tokenizer.extended("éß")
    heard = {"speakers": ["ben", "clara"], "languages": ["en", "fa"]}
    first, *lines = describe_match(match, source, tokenizer, **heard)
    assert "runs/first (step 1200)" in first
    assert f"{len(match.taken)} weights taken" in first
    assert f"{len(match.new)} new" in first
    assert "  new: decoder/time/kernel" in lines
    assert lines[-3].endswith("new: é ß")
    assert lines[-2] == f"Languages: {len(source.languages)} known, new: Persian"
    assert lines[-1] == "Speakers: known ben; new clara"
    (line,) = (x for x in describe_match(match, source, PhonemeTokenizer(), **heard) if "Sym" in x)
    assert line == "Symbols: all new, for that one reads characters"
    lines = describe_match(match, source, None, speakers=[], languages=[])
    assert lines[-1] == "Speakers: known none; new none"
    assert not [line for line in lines if line.startswith("Symbols")]


def test_a_joined_tokenizer_keeps_the_old_ids_and_puts_new_symbols_behind():
    old = CharacterTokenizer().extended("éß")
    fresh = CharacterTokenizer().extended("ßøé")
    joined = joined_tokenizer(old, fresh)
    assert joined.symbols == (*old.symbols, "ø")
    assert joined_tokenizer(old, CharacterTokenizer()).symbols == old.symbols


def test_phonemes_are_one_fixed_inventory_and_are_not_joined():
    old = PhonemeTokenizer()
    assert joined_tokenizer(old, PhonemeTokenizer()) is old
    assert joined_tokenizer(old, CharacterTokenizer().extended("é")) is old


# -- data sets that bring their own features --


def features(rows=3, tokens=6, frames=20):
    random = np.random.default_rng(0)
    return (
        random.integers(4, WIDTHS["vocab_size"], [rows, tokens]),
        random.normal(-5.5, 2.2, [rows, frames, NUM_MELS]),
        np.array([6, 4, 5][:rows]),
        np.array([20, 15, 18][:rows]),
    )


@pytest.mark.parametrize("kind", [tuple, list])
def test_a_tuple_of_features_trains_the_model(kind):
    batch = batch_from_features(kind(features()), vocab_size=30)
    losses = losses_of(shared_voice(), batch, training=True)
    assert losses["weight"] == 3
    assert np.isfinite(list(losses.values())).all()
    again = batch_from_features(features(), vocab_size=30)
    assert {name: value.dtype for name, value in batch.items()} == {
        name: value.dtype for name, value in again.items()
    }
    np.testing.assert_array_equal(batch["seed"], again["seed"])


def test_a_clip_of_features_is_its_own_reference_as_long_as_references_are():
    tokens, _, token_lengths, _ = features(rows=1)
    mels = np.zeros([1, REFERENCE_FRAMES + 40, NUM_MELS], np.float32)
    batch = batch_from_features(
        (tokens, mels, token_lengths, [REFERENCE_FRAMES + 30]), vocab_size=30
    )
    assert batch["reference_mels"].shape == [1, REFERENCE_FRAMES, NUM_MELS]
    assert batch["reference_pitch"].shape == [1, REFERENCE_FRAMES]
    assert batch["reference_lengths"].numpy().tolist() == [REFERENCE_FRAMES]


def wrong_features():
    tokens, mels, token_lengths, mel_lengths = features()
    return {
        "gives 3 parts": (tokens, mels, token_lengths),
        "gives dict": {"tokens": tokens},
        "gives ndarray": mels,
        r"mels of the data set have the shape \[3, 80, 20\]": (
            tokens,
            mels.transpose(0, 2, 1),
            token_lengths,
            mel_lengths,
        ),
        r"text of the data set has the shape \[3, 6, 1\]": (
            tokens[..., None],
            mels,
            token_lengths,
            mel_lengths,
        ),
        r"2 texts, 3 mels": (tokens[:2], mels, token_lengths[:2], mel_lengths),
        r"3 texts, 3 mels, lengths of 3 and 2": (tokens, mels, token_lengths, mel_lengths[:2]),
    }


@pytest.mark.parametrize(("words", "batch"), wrong_features().items())
def test_features_of_another_kind_are_refused_in_words(words, batch):
    with pytest.raises(DataError, match=words):
        batch_from_features(batch, vocab_size=30)


def test_features_work_inside_a_data_sets_own_graph():
    data = tf.data.Dataset.from_tensors(features()).map(
        lambda *parts: batch_from_features(parts, vocab_size=30)
    )
    batch = next(iter(data))
    assert batch["mels"].shape == [3, 20, NUM_MELS]
    assert batch["tokens"].dtype == tf.int32


def test_the_models_settings_travel_with_its_files():
    assert voice_files(shared_voice()).model == ModelConfig(**WIDTHS)


def test_symbols_the_model_does_not_know_are_refused():
    with pytest.raises(DataError, match="the model knows 5") as raised:
        batch_from_features(features(), vocab_size=5)
    assert "model.vocab_size" in raised.value.remedy
