"""A voice grown to a larger model: it speaks as before, and all of its new width can learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from myxtts.features.audio import NUM_MELS
from myxtts.models import xtts
from myxtts.models.growth import grow, is_smaller
from myxtts.models.weights import assign_weights, named_weights
from myxtts.training.fine_tuning import SYMBOLS, describe_match, load_matching_weights
from tests.test_fine_tuning import voice_files, weights_of
from tests.voices import PLAN, WIDTHS, make_voice, shared_voice

LONG = 1e-6  # a speed at which each token lasts as long as it may, whatever the model
DOUBLE = {
    "encoder_dim": 32,
    "decoder_dim": 32,
    "voice_dim": 16,
    "encoder_blocks": 4,
    "decoder_blocks": 5,
}


def grown_voice(small, **changes):
    large = make_voice(small.config.decoder_head, **{**DOUBLE, **changes})
    weights = grow(weights_of(small), small.config, large.config, weights_of(large))
    assign_weights(large, weights)
    return large


def spoken(model, speed=1.0):
    random = np.random.default_rng(5)
    with tf.device(PLAN.model_device):
        mels = random.normal(-5.5, 2.0, [2, 40, NUM_MELS]).astype(np.float32)
        voice = model.listen(mels, tf.constant([40, 30]), tf.fill([2, 40], 140.0))
        tokens = tf.constant(random.integers(4, WIDTHS["vocab_size"], [2, 7]))
        return model.speak(tokens, tf.constant([7, 5]), tf.constant([0, 3]), voice, speed=speed)


@pytest.mark.parametrize("head", ["regression", "flow"])
def test_twice_as_wide_and_deeper_it_says_the_same(head, monkeypatch):
    monkeypatch.setattr(xtts, "FLOW_STEPS", 2)
    small = shared_voice(head)
    large = grown_voice(small)
    before, after = spoken(small), spoken(large)
    np.testing.assert_array_equal(after["durations"], before["durations"])
    np.testing.assert_allclose(after["pitch"], before["pitch"], rtol=1e-3)
    np.testing.assert_allclose(after["mels"], before["mels"], atol=2e-3)


def test_by_any_other_factor_it_says_nearly_the_same():
    small, widths = shared_voice(), {"encoder_dim": 26, "decoder_dim": 30, "voice_dim": 13}
    wanted, grown, fresh = (
        spoken(model, speed=LONG)["mels"].numpy()
        for model in (small, grown_voice(small, **widths), make_voice(**{**DOUBLE, **widths}))
    )
    assert np.abs(grown - wanted).mean() < 0.3 * np.abs(fresh - wanted).mean()


def test_copies_of_a_channel_learn_different_things():
    large = grown_voice(shared_voice())
    kernel = named_weights(large)["decoder/block0/conv/kernel"]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(spoken(large)["mels"]))
    gradient = tape.gradient(loss, kernel.value).numpy()
    columns = gradient.reshape(-1, gradient.shape[-1]).T
    scales = np.linalg.norm(columns, axis=1)
    assert (scales > 0).all()
    distances = np.linalg.norm(columns[:, None] - columns[None], axis=2) + np.eye(len(columns))
    assert distances.min() > 1e-3 * scales.max()


def test_a_run_starts_from_a_smaller_voice_and_says_that_it_grew():
    source, model = voice_files(shared_voice()), make_voice(**DOUBLE, vocab_size=33)
    match = load_matching_weights(model, source)
    assert (match.new, match.grown) == ([], True)
    rows = weights_of(model)[SYMBOLS]
    np.testing.assert_array_equal(rows[:30, :16], source.weights[SYMBOLS])
    said = describe_match(match, source, None, speakers=[], languages=[])
    assert any("grown from the size tiny" in line for line in said)
    assert not load_matching_weights(
        model, replace(source, model=model.config, weights=weights_of(model))
    ).grown


def test_only_a_model_with_room_for_all_of_it_is_larger():
    small, large = shared_voice().config, make_voice(**DOUBLE).config
    assert is_smaller(small, large)
    assert not is_smaller(small, small)
    assert not is_smaller(large, small)
    assert not is_smaller(small, small.model_copy(update={"encoder_dim": 32, "decoder_dim": 8}))
    assert not is_smaller(small, large.model_copy(update={"decoder_head": "flow"}))
