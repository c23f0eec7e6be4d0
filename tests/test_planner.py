"""What a model, its optimiser and its batches take: counted here, compared with the real ones."""

from __future__ import annotations

import pytest
import tensorflow as tf

from myxtts.config.config import ModelConfig, XTTSConfig
from myxtts.data.training_data import prepare_training
from myxtts.features.device_stage import make_device_stage
from myxtts.models.xtts import XTTS
from myxtts.pipeline.budget import spec_bytes
from myxtts.profiling.planner import plan_memory
from myxtts.training.batch_fit import USABLE
from myxtts.training.model_memory import (
    BatchShape,
    activation_bytes,
    count_parameters,
    raw_batch_bytes,
    ready_batch_bytes,
    step_memory,
    weight_bytes,
)
from myxtts.training.step import TrainStep
from tests.runs import make_clips, settings
from tests.voices import CLIPS, make_batch, shared_voice

ODD = {"encoder_dim": 22, "encoder_blocks": 3, "decoder_dim": 18, "decoder_blocks": 2}


@pytest.mark.parametrize(
    ("head", "critic"), [("regression", False), ("regression", True), ("flow", False)]
)
def test_the_parameters_are_counted_as_the_model_has_them(head, critic):
    config = ModelConfig(size="tiny", voice_dim=10, vocab_size=77, decoder_head=head, **ODD)
    model = XTTS(config, sharpness=0.1 if critic else 0.0)
    assert count_parameters(config, critic=critic) == model.count_params()
    if head == "flow":
        return
    step = TrainStep(model, device="/CPU:0", learning_rate=lambda s: 1e-3, ema_decay=0.99)
    step.build()
    counted = weight_bytes(config, critic=critic)
    optimizer = [step.weights, *step.optimizer.variables]
    assert counted.model == sum(_bytes(v) for v in model.variables)
    assert counted.optimizer == sum(_bytes(v) for v in optimizer)
    assert counted.average == _bytes(step.variables["average"])


def _bytes(variable):
    return int(tf.size(variable)) * tf.as_dtype(variable.dtype).size


def test_batches_are_counted_as_both_devices_hold_them(tmp_path):
    clips = make_clips(tmp_path / "clips", 6)
    config = XTTSConfig(**settings(tmp_path, data={"train_data": str(clips), "batch_size": 3}))
    data = prepare_training(config.data, seed=0)
    spec = data.largest_batch_spec()
    bucket = data.plan.buckets[0]
    shape = BatchShape(3, bucket.frames, bucket.tokens)
    assert raw_batch_bytes(shape) == spec_bytes(spec)
    ready = make_device_stage().get_concrete_function(spec).structured_outputs
    assert ready_batch_bytes(shape) == spec_bytes(ready)
    assert _read_by(shared_voice("flow")) == set(ready)  # nothing crosses that nobody reads


def _read_by(model):
    read = set()

    class Noting(dict):
        def __getitem__(self, name):
            read.add(name)
            return super().__getitem__(name)

    model.compute_losses(Noting(make_batch(CLIPS[:1])), step=tf.constant(0), training=True)
    return read


def test_activations_grow_with_clips_lengths_and_widths_and_halve_in_half_precision():
    def count(size="small", rows=8, frames=400, tokens=80, **how):
        return activation_bytes(ModelConfig(size=size), BatchShape(rows, frames, tokens), **how)

    assert count(rows=16) == 2 * count()
    assert count() < count(frames=800) < 2.1 * count()
    assert count() < count(tokens=160) < 2 * count()
    assert count() < count(size="normal") < count(size="big")
    assert 0.5 * count() < count(half=True) < 0.65 * count()


@pytest.mark.parametrize(
    ("card_mb", "published", "data_mb", "model_mb", "prefetch"),
    [(12_288, 8, 4096, 8192, 6), (16_384, 12, 6144, 10_240, 4), (24_576, 16, 8192, 16_384, 4)],
)
def test_a_plan_takes_limits_from_the_table_and_the_batch_from_the_estimate(
    card_mb, published, data_mb, model_mb, prefetch
):
    plan = plan_memory(XTTSConfig(), gpu_memory_mb=card_mb)
    assert plan.fits
    data = plan.config.data
    assert (data.batch_size, data.prefetch_buffer_size) == (16, prefetch)
    assert (plan.data_limit_mb, plan.model_limit_mb) == (data_mb, model_mb)
    assert plan.buckets[-1].shape == BatchShape(16, 1024, 256)
    assert plan.buckets[0].largest_batch > plan.buckets[-1].largest_batch == plan.fit.largest >= 16
    assert plan.fit.published == published
    assert "--batch-size 16" in plan.command
    assert f"--model-gpu-memory {model_mb}" in plan.command


def test_a_batch_that_is_too_large_is_made_up_for_by_accumulation():
    wished = XTTSConfig(model={"size": "big"}, data={"batch_size": 256})
    plan = plan_memory(wished, gpu_memory_mb=12_288)
    assert plan.fits
    rows, parts = plan.config.data.batch_size, plan.config.training.grad_accum
    assert rows <= plan.buckets[-1].largest_batch < 256 <= rows * parts
    assert rows * parts < 256 + parts  # equal parts, and no more than it takes
    assert plan.model_mb <= USABLE * plan.model_limit_mb
    assert any("--grad-accum" in note for note in plan.notes)


def test_what_cannot_fit_is_said():
    huge = XTTSConfig(model={"size": "big"}, data={"max_mel_frames": 16_384})
    plan = plan_memory(huge, gpu_memory_mb=2048)
    assert not plan.fits
    assert any("does not fit" in note for note in plan.notes)


def test_a_step_is_its_weights_its_batch_and_the_worse_of_its_two_moments():
    long, short = (
        step_memory(ModelConfig(size="normal"), BatchShape(16, frames, 40)) for frames in (900, 8)
    )
    assert long.total == (long.weights.total + long.batch + long.gradients + long.activations)
    assert short.total == short.weights.total + short.batch + short.update
