"""From counted work to steps a second: the arithmetic, the cards, and a real model."""

from __future__ import annotations

import contextlib
import re
from dataclasses import asdict

import pytest
import tensorflow as tf
from typer.testing import CliRunner

from myxtts.cli.app import app
from myxtts.config.config import XTTSConfig
from myxtts.data.loader import batch_spec
from myxtts.data.training_data import prepare_training
from myxtts.features.audio import NUM_MELS
from myxtts.features.device_stage import make_device_stage
from myxtts.pipeline.budget import spec_bytes
from myxtts.profiling.cards import CARDS, Device
from myxtts.profiling.describe_speed import describe_speed
from myxtts.profiling.graph_walk import walk
from myxtts.profiling.kernels import Kernel, kernels_of
from myxtts.profiling.operation_cost import Cost
from myxtts.profiling.speed_estimate import Stage, Work, estimate, time_stage
from myxtts.profiling.traced_work import make_model, make_step, trace_step, trace_work
from myxtts.training.model_memory import BatchShape, raw_batch_bytes, ready_batch_bytes
from tests.runs import make_clips, settings
from tests.voices import ONE_BLOCK, WIDTHS

DEVICE = Device(
    name="made up",
    flops={("matmul", "half"): 100.0, ("vector", "single"): 10.0},
    bandwidth=50.0,
    launch_s=0.5,
    bus=20.0,
)
PRODUCT = Kernel("MatMul", Cost("matmul", "half", 400.0, 100.0), 1)  # 4 s of arithmetic, 2 of bytes
ADDING = Kernel("AddV2", Cost("vector", "single", 10.0, 150.0), 2)  # 1 s and 3 s, twice
TINY = Kernel("Tanh", Cost("vector", "single", 1.0, 1.0), 3, "loop")  # nothing but its start
STAGE = Stage("gradients", (PRODUCT, ADDING, TINY), compiled=False)


def test_each_kernel_takes_the_longest_of_its_three_times():
    time = time_stage(STAGE, DEVICE)
    assert time.by_rule == {"compute": 4.0, "memory": 6.0, "launches": 1.5}
    assert time.seconds == 11.5
    assert time.loop_s == 1.5
    assert time.rule == "memory"
    assert (time.compute_s, time.launch_s) == (pytest.approx(6.3), 3.0)
    assert STAGE.launches == 6
    half = Stage("update", STAGE.kernels, compiled=False, share=0.5)
    assert time_stage(half, DEVICE).seconds == 11.5 / 2


def test_one_device_adds_up_and_two_wait_for_the_slowest():
    quick = Stage("process", (PRODUCT,), compiled=False)
    found = estimate(Work((quick,), (STAGE,), input_bytes=40, crossing_bytes=400), DEVICE)
    assert found.one_device_s == 4.0 + 11.5
    assert found.two_devices_s == 20.0  # the bus
    found = estimate(Work((quick,), (STAGE,), input_bytes=40, crossing_bytes=20), DEVICE)
    assert found.two_devices_s == 11.5


def test_the_published_figures_are_plausible():
    for card in CARDS:
        # Of every architecture listed half precision is at least twice as fast on tensor cores.
        assert card.single_tflops * 2 <= card.half_tflops + 0.2
        assert card.double_tflops < card.single_tflops <= (card.tf32_tflops or 1e9)
        assert 300 <= card.gb_per_s <= 2000
    assert [card.name for card in CARDS] == [
        "RTX 3060 12 GB",
        "RTX 4070",
        "RTX 3090",
        "RTX 4090",
        "T4",
        "A100 40 GB",
    ]


SHAPE = BatchShape(2, 24, 8)
REFERENCE = 8


@pytest.fixture(scope="module")
def small():
    return XTTSConfig(model={**WIDTHS, **ONE_BLOCK}, training={"grad_accum": 2})


@pytest.fixture(scope="module")
def work(small):
    return trace_work(small, SHAPE, half=True)


@pytest.fixture(scope="module")
def step(small):
    return make_step(make_model(small.model), small.training)


def ready_spec(rows=2, frames=24, tokens=8):
    """A batch as the step gets it, with a short reference."""
    sizes = {
        "tokens": ([rows, tokens], tf.int32),
        "mels": ([rows, frames, NUM_MELS], tf.float32),
        "pitch": ([rows, frames], tf.float32),
        "voiced": ([rows, frames], tf.bool),
        "reference_mels": ([rows, REFERENCE, NUM_MELS], tf.float32),
        "reference_pitch": ([rows, REFERENCE], tf.float32),
        "seed": ([2], tf.int32),
        **dict.fromkeys(
            ("token_lengths", "mel_lengths", "reference_lengths", "languages"), ([rows], tf.int32)
        ),
    }
    return {name: tf.TensorSpec(*size) for name, size in sizes.items()}


def gradients(step, *, compiled=False, **shape):
    function = trace_step(step, ready_spec(**shape))[0]
    return Stage("gradients", kernels_of(function, compiled=compiled), compiled)


def test_the_work_of_a_step_grows_with_clips_and_frames(step):
    plain, rows, frames = gradients(step), gradients(step, rows=4), gradients(step, frames=48)
    assert 1.8 < rows.flops / plain.flops < 2.01
    assert rows.launches == plain.launches
    assert 1.5 < frames.flops / plain.flops < 2.01
    looping = [sum(k.times for k in stage.kernels if k.loop) for stage in (plain, frames)]
    assert looping[1] / looping[0] == 47 / 23  # the two searches go round once a frame


def test_compiled_a_step_starts_fewer_kernels_and_moves_fewer_bytes(step, work):
    plain, xla = gradients(step), gradients(step, compiled=True)
    assert xla.launches < 0.6 * plain.launches
    assert xla.bytes < 0.7 * plain.bytes
    assert {k.cost.number for k in plain.kernels} == {"single"}
    assert "half" in {k.cost.number for k in work.train[0].kernels if k.cost.kind == "conv"}
    assert "double" in {k.cost.number for k in work.process[0].kernels if k.cost.kind == "fft"}


def test_every_length_in_the_traced_graphs_is_known(step):
    """A length that is not fixed would count as one, and the estimate be far too quick."""
    stage = make_device_stage(on_gpu=True).get_concrete_function(batch_spec(**asdict(SHAPE)))
    unknown = [
        f"{operation.type} {operation.name} {tensor.shape}"
        for function in (stage, *trace_step(step, ready_spec()))
        for level in walk(function)
        for operation in level.operations
        for tensor in operation.outputs
        if tensor.dtype.is_floating and not tensor.shape.is_fully_defined()
    ]
    assert unknown == []


def test_what_crosses_is_what_the_memory_plan_counts(work, tmp_path):
    assert work.input_bytes == raw_batch_bytes(SHAPE)
    assert work.crossing_bytes == ready_batch_bytes(SHAPE)
    clips = make_clips(tmp_path / "clips", 6)
    config = XTTSConfig(**settings(tmp_path, data={"train_data": str(clips), "batch_size": 3}))
    data = prepare_training(config.data, seed=0)
    bucket = data.plan.buckets[0]
    with contextlib.closing(data.batches()) as batches:
        batch = next(batches)
    spec = data.largest_batch_spec()
    assert spec == {name: tf.TensorSpec(part.shape, part.dtype) for name, part in batch.items()}
    assert spec_bytes(spec) == raw_batch_bytes(BatchShape(3, *bucket))


def test_the_text_shows_its_arithmetic_and_says_that_nothing_was_measured(small, work):
    text = "\n".join(describe_speed(small, SHAPE, work, half=True))
    assert text.startswith("Estimate, not measured")
    for card in CARDS:
        assert text.count(card.name) == 2
    assert "1 of 2 batches" in text
    assert text.count("two cards: max(") == len(CARDS)
    replicas = re.findall(r"2 replicas: ([\d.]+) \+ ([\d.]+) for .* = ([\d.]+) ms", text)
    assert len(replicas) == len(CARDS)
    for one, exchange, both in replicas:
        assert float(exchange) > 0
        assert float(one) + float(exchange) == pytest.approx(float(both), abs=0.011)


def test_cards_are_asked_for_with_a_flag(monkeypatch):
    import myxtts.profiling.traced_work as traced

    asked = []

    def fake(config, shape, **how):
        asked.append((config.model.size, shape, how["half"]))
        return Work((STAGE,), (STAGE,), 1, 1)

    monkeypatch.setattr(traced, "trace_work", fake)
    monkeypatch.setattr("myxtts.profiling.describe_speed.CARDS", ())
    arguments = ["plan", "--cards", "--model-size", "tiny", "--max-mel-frames", "448"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "Estimate, not measured" in result.stdout
    assert asked == [("tiny", BatchShape(16, 448, 256), True)]
