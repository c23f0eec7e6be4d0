"""The voice model: every clip counts for itself, alignments are paths, and it learns."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import ModelConfig
from myxtts.features.audio import NUM_MELS
from myxtts.models import xtts
from myxtts.models.alignment import alignment_from_durations
from myxtts.models.weights import weight_names
from myxtts.models.xtts import XTTS
from tests.voices import (
    CLIPS,
    HEADS,
    ONE_BLOCK,
    PLAN,
    SHARP,
    gradients_of,
    losses_of,
    make_batch,
    make_clip,
    make_voice,
    policy,
    shared_voice,
)


@pytest.fixture(params=HEADS)
def voice(request, monkeypatch):
    monkeypatch.setattr(xtts, "FLOW_STEPS", 3)
    return shared_voice(request.param)


@pytest.fixture(params=[*HEADS, SHARP])
def learner(request):
    """One that trains; the critic says nothing anywhere else."""
    return shared_voice(request.param)


# -- its size and its names --


@pytest.mark.parametrize(
    ("size", "millions"), [("tiny", 1.7), ("small", 6), ("normal", 20), ("big", 60)]
)
def test_each_size_has_about_the_parameters_it_promises(size, millions):
    model = XTTS(ModelConfig(size=size))
    assert model.count_params() == pytest.approx(millions * 1e6, rel=0.1)
    assert model.count_params() == sum(np.prod(v.shape, dtype=int) for v in model.variables)


def test_every_weight_has_one_name_which_is_the_same_for_every_model(learner):
    names = weight_names(learner.variables)
    assert len(set(names)) == len(names) > 70
    assert not [name for name in names if "." in name]  # none had to be numbered
    head = SHARP if learner.sharpness else learner.config.decoder_head
    assert weight_names(make_voice(head).variables) == names


def test_every_weight_exists_once_the_model_is_made_and_none_is_made_later(learner):
    names = weight_names(learner.variables)
    losses_of(learner, make_batch(CLIPS[:2]), training=True)
    assert weight_names(learner.variables) == names
    assert len(learner.trainable_variables) == len(learner.variables)


def test_every_weight_takes_part_in_the_loss(learner):
    _, gradients = gradients_of(learner, make_batch(CLIPS))
    names = weight_names(learner.trainable_variables)
    still = [name for name, g in zip(names, gradients, strict=True) if not np.any(g)]
    # Their biases add the same to every score, which the softmax takes out again.
    ends = ("key/bias", "latent_score/bias")
    assert [name for name in still if not name.endswith(ends)] == []


# -- every clip counts for itself --


@pytest.mark.parametrize("training", [False, True])
def test_clips_have_the_same_losses_in_a_padded_batch_as_one_by_one(learner, training):
    batch = make_batch(CLIPS, tokens=11, frames=31, reference=23, masked_rows=2, rubbish=7.0)
    together = losses_of(learner, batch, training=training)
    alone = [losses_of(learner, make_batch([clip]), training=training) for clip in CLIPS]
    assert together["weight"] == len(CLIPS)
    for name in together.keys() - {"weight"}:
        mean = np.mean([losses[name] for losses in alone])
        assert together[name] == pytest.approx(mean, rel=2e-5, abs=1e-6), name


def test_gradients_do_not_depend_on_padding_either(learner):
    _, tight = gradients_of(learner, make_batch(CLIPS))
    batch = make_batch(CLIPS, tokens=11, frames=31, reference=23, masked_rows=1, rubbish=7.0)
    _, padded = gradients_of(learner, batch)
    for name, a, b in zip(weight_names(learner.trainable_variables), tight, padded, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6 + 1e-4 * np.abs(a).max(), err_msg=name)


def test_rows_without_a_clip_give_finite_losses_and_no_gradient(learner):
    batch = make_batch(CLIPS[:2])
    for name in ("token_lengths", "mel_lengths", "reference_lengths"):
        batch[name] = tf.zeros_like(batch[name])
    losses, gradients = gradients_of(learner, batch)
    assert losses["weight"] == 0.0
    assert losses["loss"] == 0.0
    assert all(np.all(gradient == 0.0) for gradient in gradients)


def test_a_clip_with_fewer_frames_than_tokens_has_no_say(voice):
    short = make_clip(8, 6, 9, seed=5)
    without = losses_of(voice, make_batch(CLIPS))
    with_it = losses_of(voice, make_batch([*CLIPS, short]))
    assert with_it["weight"] == without["weight"] == len(CLIPS)
    assert with_it["loss"] == pytest.approx(without["loss"], rel=1e-5)
    losses, gradients = gradients_of(voice, make_batch([short]))
    assert losses["weight"] == 0.0
    assert not any(map(np.any, gradients))


def test_training_draws_other_noise_at_every_step_and_evaluation_always_the_same(voice):
    batch = make_batch(CLIPS)
    steps = (1000, 1001)  # the alignment's prior is gone
    assert len({losses_of(voice, batch, step=s, training=True)["loss"] for s in steps}) == 2
    assert len({losses_of(voice, batch, step=s)["loss"] for s in steps}) == 1


# -- the alignment --


def test_an_alignment_says_every_token_in_order_and_every_frame_once(voice):
    batch = make_batch(CLIPS, tokens=9, frames=25, masked_rows=1)
    alignment = voice._align(batch, xtts.PRIOR_STEPS, None)[0].numpy()
    assert set(np.unique(alignment)) <= {0.0, 1.0}
    for path, clip in zip(alignment, CLIPS, strict=False):
        tokens, frames = len(clip["tokens"]), len(clip["mels"])
        said = path[:, :frames].argmax(axis=0)
        assert (path.sum(axis=0) == (np.arange(25) < frames)).all()
        assert said[0] == 0
        assert said[-1] == tokens - 1
        assert set(np.diff(said)) <= {0, 1}
    assert not alignment[-1].any()


def test_durations_laid_out_again_are_the_same_path(voice):
    alignment = voice._align(make_batch(CLIPS), xtts.PRIOR_STEPS, None)[0]
    durations = tf.cast(tf.reduce_sum(alignment, axis=2), tf.int32)
    again = alignment_from_durations(durations, alignment.shape[2])
    np.testing.assert_array_equal(again, alignment)


# -- compiled, and in half precision --


def test_compiled_it_has_the_same_losses():
    model, batch = make_voice("flow", **ONE_BLOCK), make_batch(CLIPS)
    compiled = tf.function(model.compute_losses, jit_compile=True)
    with tf.device(PLAN.model_device):
        losses = compiled(batch, step=tf.constant(100), training=True)
    for name, value in losses_of(model, batch, training=True).items():
        assert float(losses[name]) == pytest.approx(value, rel=1e-5), name


@pytest.mark.slow  # to compile gradients takes a while
@pytest.mark.parametrize("head", HEADS)
def test_compiled_it_has_the_same_losses_and_gradients(head):
    model, batch = make_voice(head, **ONE_BLOCK), make_batch(CLIPS)

    def work(batch):
        with tf.GradientTape() as tape:
            losses = model.compute_losses(batch, step=tf.constant(100), training=True)
        gradients = tape.gradient(losses["loss"], model.trainable_variables)
        return losses, [tf.convert_to_tensor(gradient) for gradient in gradients]

    with tf.device(PLAN.model_device):
        losses, gradients = tf.function(work, jit_compile=True)(batch)
    plain_losses, plain = gradients_of(model, batch)
    for name, value in plain_losses.items():
        assert float(losses[name]) == pytest.approx(value, rel=1e-5), name
    for name, a, b in zip(weight_names(model.trainable_variables), gradients, plain, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6 + 1e-4 * np.abs(b).max(), err_msg=name)


@pytest.mark.parametrize("head", [*HEADS, SHARP])
@pytest.mark.parametrize(("precision", "near"), [("mixed_float16", 0.02), ("mixed_bfloat16", 0.1)])
def test_half_precision_is_near_full_and_keeps_its_weights_in_full(head, precision, near):
    full = shared_voice(head)
    with policy(precision):
        half = make_voice(head)
    assert {variable.dtype for variable in half.variables} == {"float32"}
    for mine, other in zip(half.variables, full.variables, strict=True):
        np.testing.assert_array_equal(mine, other)
    batch = make_batch(CLIPS, frames=24, masked_rows=1)
    # At the first step the prior decides the path, whatever a rounded likelihood says.
    expected = losses_of(full, batch, step=0, training=True)
    losses, gradients = gradients_of(half, batch, step=0)
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    for name, value in expected.items():
        assert losses[name] == pytest.approx(value, rel=near, abs=near / 4), name
    assert keras.config.dtype_policy().name == "float32"


def test_one_graph_serves_batches_of_any_shape():
    voice = make_voice(**ONE_BLOCK)
    evaluate = tf.function(voice.compute_losses, reduce_retracing=True)
    for sizes in ({}, {"frames": 23, "tokens": 9, "reference": 20}):
        batch = make_batch(CLIPS, **sizes)
        with tf.device(PLAN.model_device):
            losses = evaluate(batch, step=tf.constant(100), training=False)
        assert float(losses["loss"]) == pytest.approx(losses_of(voice, batch)["loss"], rel=1e-5)


# -- speaking --


def speak(model, clips=CLIPS, **options):
    batch = make_batch(clips)
    names = ("reference_mels", "reference_lengths", "reference_pitch")
    with tf.device(PLAN.model_device):
        listened = model.listen(*(batch[name] for name in names))
        model.duration.out.bias.assign([1.5])  # tokens of a few frames
        model.pitch.out.bias.assign([0.0, 5.0])  # voiced nearly everywhere
        said = model.speak(
            *(batch[name] for name in ("tokens", "token_lengths", "languages")), listened, **options
        )
    return {name: value.numpy() for name, value in said.items()}


def test_what_is_spoken_has_the_length_of_its_durations(voice):
    said = speak(voice)
    tokens = [len(clip["tokens"]) for clip in CLIPS]
    for row, count in enumerate(tokens):
        assert (said["durations"][row, :count] >= 1).all()
        assert not said["durations"][row, count:].any()
    lengths = said["mel_lengths"]
    assert lengths.tolist() == said["durations"].sum(axis=1).tolist()
    assert said["mels"].shape == (len(CLIPS), lengths.max(), NUM_MELS)
    assert said["alignment"].sum(axis=2).tolist() == said["durations"].tolist()
    real = np.arange(lengths.max()) < lengths[:, None]
    assert not said["pitch"][~real].any()
    assert said["pitch"][real].mean() > 50
    assert np.isfinite(said["mels"]).all()


def test_twice_the_speed_is_about_half_as_long_and_no_token_is_lost(voice):
    slow, fast = speak(voice), speak(voice, speed=2.0)
    assert (fast["durations"][slow["durations"] > 0] >= 1).all()
    assert fast["mel_lengths"].sum() == pytest.approx(slow["mel_lengths"].sum() / 2, rel=0.2)


def test_a_pitch_shift_moves_the_pitch_by_semitones(voice):
    plain, shifted = speak(voice), speak(voice, pitch_shift=12.0)
    lower = speak(voice, pitch_shift=tf.constant(-3.0))
    heard = plain["pitch"] > 0
    np.testing.assert_allclose(shifted["pitch"][heard], 2 * plain["pitch"][heard], rtol=1e-4)
    factor = 2 ** (-3 / 12)
    np.testing.assert_allclose(lower["pitch"][heard], factor * plain["pitch"][heard], rtol=1e-4)


def test_texts_spoken_together_sound_as_each_alone(voice):
    together = speak(voice)
    for row, clip in enumerate(CLIPS):
        alone = speak(voice, [clip])
        frames = alone["mel_lengths"][0]
        assert together["mel_lengths"][row] == frames
        for name in ("mels", "pitch"):
            np.testing.assert_allclose(
                together[name][row, :frames], alone[name][0], rtol=1e-4, atol=2e-3, err_msg=name
            )


def test_a_seed_repeats_what_was_spoken_and_matters_to_the_flow_only(voice):
    first, again, other = (speak(voice, seed=tf.constant([n, 0])) for n in (1, 1, 2))
    np.testing.assert_array_equal(first["mels"], again["mels"])
    differs = not np.array_equal(first["mels"], other["mels"])
    assert differs == (voice.config.decoder_head == "flow")


@pytest.mark.parametrize("head", HEADS)
def test_dropout_is_heard_in_training_alone_and_otherwise_at_each_step(head):
    model, batch = make_voice(head, **ONE_BLOCK), make_batch(CLIPS)
    without = losses_of(model, batch, training=False)
    model.dropout = 0.3
    assert losses_of(model, batch, training=False) == without
    first, again, later = (losses_of(model, batch, step=s, training=True) for s in (100, 100, 101))
    assert first == again
    for name in ("mel", "duration", "pitch"):
        assert np.isfinite(first[name])
        assert first[name] != later[name]
