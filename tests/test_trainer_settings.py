"""Settings of a training run, each with its effect."""

from __future__ import annotations

import csv
import os
import re
import sys
from typing import get_args

import numpy as np
import pytest

from myxtts.config.training import ModelPart
from myxtts.errors import ConfigError
from myxtts.pipeline.engine import ProducerConsumerPipeline
from myxtts.runs.checkpoints import CheckpointStore
from myxtts.training import setup, sources
from myxtts.training.trainer import XTTSTrainer
from tests import runs
from tests.test_trainer import CLIPS, names, shown_in_tensorboard

pytestmark = pytest.mark.usefixtures("one_stage", "every_line")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return runs.make_clips(tmp_path_factory.mktemp("data"), CLIPS)


def test_wandb_that_is_not_installed_is_said_before_anything_is_made(run, trainer_in, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    made = []
    with pytest.raises(ConfigError, match="wandb package is not installed") as refusal:
        trainer_in(run, wandb=True, model=lambda: made.append(1))
    assert "leave out --wandb" in refusal.value.remedy
    assert not made
    assert not run.exists()


def test_the_pipeline_gets_the_settings_it_is_named_for(run, trainer_in, monkeypatch):
    given = {}

    def remember(source, **arguments):
        given.update(arguments)
        return ProducerConsumerPipeline(source, **arguments)

    monkeypatch.setattr(sources, "ProducerConsumerPipeline", remember)
    buffers = {"pipeline_buffer_size": 30, "prefetch_buffer_size": 5, "pipeline_depth": 2}
    waits = {"model_start_delay": 0.25, "stall_timeout": 77.0}
    trainer_in(run, data={**buffers, **waits}).train(runs.mel_batches(2), epochs=1)
    assert given["buffer_size"] == 15  # half of it: two devices hold batches of their own
    assert (given["prefetch_buffer_size"], given["depth"]) == (5, 2)
    assert (given["model_start_delay"], given["stall_timeout"]) == (0.25, 77.0)


def test_a_sentence_of_ones_own_in_another_script_is_refused_before_it_starts(
    run, trainer_in, data
):
    with pytest.raises(ConfigError, match="said in English.*سلام"):
        trainer_in(run, data={"train_data": data}, sample_text="سلام، خوبی؟")


def test_a_sentence_of_ones_own_may_be_in_any_language_that_is_heard(run, trainer_in, tmp_path):
    data = runs.make_clips(tmp_path / "mixed", 4)
    said = ["One two.", "سلام به شما.", "Three four.", "خوش آمدید."]
    rows = (f"wavs/c00{i}.wav|{text}|{'en' if i % 2 == 0 else 'fa'}" for i, text in enumerate(said))
    listed = "\n".join(["audio_file|text|language", *rows, ""])
    (data / "metadata.csv").write_text(listed, encoding="utf-8")
    for number, text in enumerate(("سلام، خوبی؟", "Hello there.")):
        settings = {"train_data": data, "batch_size": 4}
        trainer_in(run.with_name(f"run{number}"), data=settings, sample_text=text)


def test_experimental_names_what_it_adds(run, trainer_in, monkeypatch, caplog):
    asked = []
    monkeypatch.setattr(setup, "make_device_stage", lambda _, **given: asked.append(given))
    trainer_in(run, optimization_level="experimental")
    assert asked == [{"jit_compile": True, "on_gpu": False, "exact": False}]
    assert re.search("experimental: .*data device", caplog.text, re.IGNORECASE)


def test_enhanced_compiles_and_says_what_a_cpu_computes_with(run, trainer_in, caplog):
    trainer = trainer_in(run, optimization_level="enhanced")
    assert "Mixed precision: none on a CPU, which trains in float32" in caplog.text
    assert trainer.step._gradients._jit_compile
    basic = trainer_in(run.with_name("basic"))
    assert not basic.step._gradients._jit_compile


@pytest.mark.parametrize(("shapes", "count"), [("one", 1), ("buckets", 3)])
def test_static_shapes_decide_how_often_the_step_is_traced(run, trainer_in, data, shapes, count):
    settings = {"train_data": data, "static_shapes": shapes, "max_buckets": 3}
    trainer = trainer_in(run, data=settings, epochs=1)
    assert len(trainer.data.plan.bucket_stats()) == count
    trainer.train()
    assert trainer.step.traces == count


def test_shapes_of_their_own_are_warned_of(run, trainer_in, data, caplog):
    trainer_in(run, data={"train_data": data, "static_shapes": "off"})
    assert caplog.text.count("padded to their own length: each new length compiles anew") == 1


def test_a_late_trace_is_warned_of_with_its_shape(run, trainer_in, caplog):
    batches = [*runs.mel_batches(1) * 105, *runs.mel_batches(1, frames=20)]
    trainer = trainer_in(run)
    trainer.train(batches, epochs=1)
    assert trainer.step.traces == 2
    assert "traced again after warm-up, for the shape 2x20x80" in caplog.text


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"max_mel_frames": 64}, "too long"), ({"max_text_length": 12}, "text too long")],
)
def test_limits_drop_clips_and_say_why(run, trainer_in, data, settings, reason):
    trainer = trainer_in(run, data={"train_data": data, **settings})
    with trainer.run.dropped_file.open(newline="") as file:
        reasons = {row["reason"] for row in csv.DictReader(file)}
    assert reasons == {reason}
    assert 0 < len(trainer.data.train) < CLIPS - 1


@pytest.mark.parametrize("settings", [{"cache": "memory"}, {"cache": "disk"}, {"num_workers": 1}])
def test_caches_and_workers_change_the_way_and_not_the_batches(run, trainer_in, data, settings):
    plain = trainer_in(run.with_name("plain"), data={"train_data": data}, max_steps=3)
    other = trainer_in(run, data={"train_data": data, **settings}, max_steps=3)
    plain.train()
    other.train()
    assert plain.data.fingerprint == other.data.fingerprint
    np.testing.assert_array_equal(runs.weights(plain), runs.weights(other))


def test_tensorboard_writes_where_it_is_told(run, trainer_in, tmp_path):
    trainer_in(run, tensorboard_log_dir=tmp_path / "board").train(runs.mel_batches(2), epochs=1)
    assert len(shown_in_tensorboard(tmp_path / "board")["loss"]) == 2
    assert not os.listdir(run / "tensorboard")


def test_checkpoints_come_after_steps_or_minutes(run, trainer_in):
    trainer_in(run, checkpoint_minutes=1e-6, checkpoint_steps=1000, keep_checkpoints=9).train(
        runs.mel_batches(3), epochs=1
    )
    assert CheckpointStore(run / "checkpoints").steps() == [1, 2, 3]


@pytest.mark.parametrize("part", [("encoder",), ("means", "decoder")])
def test_a_part_this_model_lacks_cannot_be_frozen(run, trainer_in, part):
    with pytest.raises(ConfigError, match=f"no part {part[0]} to freeze"):
        trainer_in(run, freeze=part)


@pytest.mark.parametrize("sharpness", [0.0, 0.1])
def test_a_model_frozen_whole_is_refused_and_a_critic_is_no_part_of_it(run, trainer_in, sharpness):
    with pytest.raises(ConfigError, match="All of the model is frozen"):
        trainer_in(run, model=None, freeze=get_args(ModelPart), sharpness=sharpness)


def test_a_checkpoint_given_by_name_is_where_the_run_starts(run, trainer_in):
    trainer_in(run, checkpoint_steps=2).train(runs.mel_batches(5), epochs=1)
    config = runs.in_process(run.with_name("other"))
    chosen = run / "checkpoints" / "step_00000004"
    with XTTSTrainer(config, model=runs.SmallModel, resume_checkpoint=chosen) as trainer:
        assert trainer.steps_done == 4
        saved = CheckpointStore(run / "checkpoints").latest()
        assert saved.step == 5
        assert trainer.train(runs.mel_batches(5), epochs=1)["steps"] == 5
        for name, array in zip(names(trainer), trainer.model.variables, strict=True):
            np.testing.assert_array_equal(array, saved.tensors["model"][name])


def test_one_device_trains_from_the_command_line(tmp_path, data):
    run = tmp_path / "run"
    values = runs.settings(tmp_path / "unused", data={"simulate": False, "model_start_delay": 1.0})
    config = runs.write_settings(tmp_path / "config.yaml", values)
    few = runs.make_clips(tmp_path / "few", runs.TOO_FEW_TO_VALIDATE)
    flags = f"--epochs 1 --batch-size 3 --grad-accum 2 --lr 5e-4 --checkpoint-dir {run}"
    program = ["-c", runs.SMALL_TRAINING.format(code="")]
    arguments = [*program, "--config", str(config), "--train-data", str(few)]
    output = tmp_path / "output.txt"
    process = runs.start([*arguments, *flags.split()], output, CUDA_VISIBLE_DEVICES="-1")
    text = f"{process.wait(250)}\n{output.read_text()}"
    assert text.startswith("0\n"), text
    assert "Intelligent GPU Pipeline: Single-GPU Buffered Mode" in text
    assert "Multi-GPU" not in text
    assert "Creating model on device: /CPU:0" in text
    assert f"Trained 2 steps. Everything is in {run}" in text  # 3 batches of 3 clips
    assert runs.latest(run).step == 2
    assert not (tmp_path / "unused").exists()
