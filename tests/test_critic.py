"""The critic: it learns to judge, the model learns to please it, and neither does the other's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import ModelConfig
from myxtts.errors import ConfigError
from myxtts.features.audio import NUM_MELS
from myxtts.inference.synthesizer import Synthesizer
from myxtts.inference.voice_files import load_voice
from myxtts.models.critic import Critic, critic_errors
from myxtts.models.layers import length_mask
from myxtts.models.weights import is_for_training, weight_names
from myxtts.models.xtts import XTTS
from myxtts.runs.checkpoints import CheckpointStore
from tests.small_runs import save_run
from tests.voices import CLIPS, SHARP, WIDTHS, losses_of, make_batch, shared_voice

FRAMES = 20


def patterns(seed: int, *, smooth: bool = False) -> np.ndarray:
    drawn = np.random.default_rng(seed).choice([-1.0, 1.0], [4, FRAMES, NUM_MELS])
    return (drawn * (0.2 if smooth else 1.0)).astype(np.float32)


def test_the_critic_learns_to_judge_and_the_model_to_draw_and_neither_both():
    critic, drawn = Critic(), tf.Variable(patterns(0, smooth=True))
    mask = length_mask(tf.fill([4], FRAMES), FRAMES)
    with tf.GradientTape(persistent=True) as tape:
        errors = critic_errors(critic, tf.constant(patterns(1)), drawn, mask)
    assert tape.gradient(errors["critic"], drawn) is None
    assert np.any(tape.gradient(errors["realism"], drawn))
    weights = critic.trainable_variables
    assert all(gradient is None for gradient in tape.gradient(errors["realism"], weights))
    assert all(np.any(gradient) for gradient in tape.gradient(errors["critic"], weights))


def test_what_is_drawn_smooth_gets_sharp_though_its_error_grows():
    """Signs that nobody can foretell: the least error is to draw none of them."""
    critic, drawn = Critic(), tf.Variable(patterns(0, smooth=True))
    mask = length_mask(tf.fill([4], FRAMES), FRAMES)
    judge, pencil = tf.keras.optimizers.Adam(2e-3), tf.keras.optimizers.Adam(2e-2)
    for step in range(60):
        with tf.GradientTape(persistent=True) as tape:
            errors = critic_errors(critic, tf.constant(patterns(step)), drawn, mask)
        judge.apply_gradients(
            zip(
                tape.gradient(errors["critic"], critic.trainable_variables),
                critic.trainable_variables,
                strict=True,
            )
        )
        pencil.apply_gradients([(tape.gradient(errors["realism"], drawn), drawn)])
    assert float(tf.math.reduce_std(drawn)) > 0.4  # 0.2 at the start, 1 in what is recorded


def test_only_training_asks_the_critic():
    losses = losses_of(shared_voice(SHARP), make_batch(CLIPS), training=False)
    assert losses == losses_of(shared_voice(), make_batch(CLIPS), training=False)
    assert {"critic", "realism"} <= set(
        losses_of(shared_voice(SHARP), make_batch(CLIPS), training=True)
    )


def test_a_voice_speaks_without_it(tmp_path):
    run = save_run(tmp_path, head=SHARP)
    kept = CheckpointStore(run / "checkpoints").latest().tensors["ema"]
    assert set(kept) - set(load_voice(run).weights) == set(filter(is_for_training, kept))
    Synthesizer.load(run)
    names = weight_names(shared_voice(SHARP).variables)
    spoken = [name for name in names if not is_for_training(name)]
    assert spoken == weight_names(shared_voice().variables)


def test_the_flow_head_refuses_it_with_a_way_out():
    config = ModelConfig(**{**WIDTHS, "decoder_head": "flow"})
    with pytest.raises(ConfigError) as refusal:
        XTTS(config, sharpness=0.1)
    assert "--sharpness 0" in refusal.value.remedy
