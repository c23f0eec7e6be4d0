"""What the training loop promises, on small runs."""

from __future__ import annotations

import csv
import logging
import os
import re
import shutil
import signal

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.models.weights import weight_names
from myxtts.models.xtts import XTTS
from myxtts.runs.checkpoints import CheckpointStore
from myxtts.runs.events import read_events
from myxtts.training import make_trainer
from myxtts.training.memory_isolated_trainer import MemoryIsolatedDualGPUTrainer
from tests import runs
from tests.test_start_log import DEVICES, LINES

pytestmark = pytest.mark.usefixtures("one_stage", "every_line")

CLIPS = 16  # enough that one is held out


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return runs.make_clips(tmp_path_factory.mktemp("data"), CLIPS)


def shown_in_tensorboard(folder):
    """Every value in a folder of TensorBoard files, by tag."""
    found = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value))
    return found


def names(trainer):
    return weight_names(trainer.model.variables)


# -- how long a run is --


def test_epochs_times_batches_and_the_last_few_make_an_update_too(run, trainer_in):
    trainer = trainer_in(run, grad_accum=4)
    assert trainer.train(runs.mel_batches(5), epochs=2)["steps"] == 3  # of 4, 4 and 2 batches
    assert trainer.step.updates == 3
    saved = runs.latest(run)
    assert (saved.step, saved.state["epoch"], saved.state["position"]) == (3, 1, 5)


def test_max_steps_ends_the_run_and_the_rate_falls_until_then(run, trainer_in):
    trainer = trainer_in(run, max_steps=20, learning_rate=0.01, warmup_steps=2)
    assert trainer.train(runs.mel_batches(3), epochs=50)["steps"] == 20
    rates = [values["learning_rate"] for _, values in runs.metrics(run)]
    assert max(rates) == pytest.approx(0.01, rel=0.05)
    assert rates[-1] < 0.0005


def test_max_steps_go_beyond_the_epochs_of_any_data_set(run, trainer_in):
    trainer = trainer_in(run, max_steps=7)
    assert trainer.train(runs.mel_batches(3), epochs=1)["steps"] == 7


def test_a_run_that_fails_before_its_first_step_leaves_no_checkpoint(run, trainer_in):
    def broken():
        raise OSError("the disk is gone")
        yield

    trainer = trainer_in(run)
    with pytest.raises(OSError, match="the disk is gone"):
        trainer.train(broken())
    assert trainer.run.checkpoints.steps() == []


def test_going_back_to_an_earlier_checkpoint_is_where_the_run_is_from_then_on(run, trainer_in):
    trainer_in(run, checkpoint_steps=2).train(runs.mel_batches(6), epochs=1)
    back = trainer_in(run, resume_checkpoint=run / "checkpoints" / "step_00000002")
    assert back.state.step == 2
    assert back.run.checkpoints.steps() == [2]


def test_every_clip_read_at_the_start_is_counted(data, tmp_path, trainer_in, caplog):
    fresh = shutil.copytree(data, tmp_path / "data", ignore=shutil.ignore_patterns(".myxtts"))
    listed = trainer_in(tmp_path / "run", data={"train_data": fresh}).data.listed
    assert f"Reading clips  {listed}/{listed}" in caplog.text


def test_init_from_is_not_read_by_a_run_that_goes_on_and_it_says_so(run, trainer_in, caplog):
    trainer_in(run).train(runs.mel_batches(2), epochs=1)
    trainer_in(run, init_from=run.with_name("another"))
    assert "is not read: this run goes on from its own step 2" in caplog.text


def test_a_finished_run_does_nothing_more_and_says_so(run, trainer_in, caplog):
    trainer_in(run, max_steps=3).train(runs.mel_batches(3), epochs=5)
    again = trainer_in(run, max_steps=3)
    before = runs.weights(again)
    assert again.train(runs.mel_batches(3), epochs=5)["steps"] == 3
    assert "This run is finished, at step 3" in caplog.text
    np.testing.assert_array_equal(runs.weights(again), before)


@pytest.mark.parametrize("kind", [list, "tf.data"], ids=str)
def test_any_data_set_goes_on_where_it_was(run, trainer_in, kind):
    batches = runs.mel_batches(5)
    if kind == "tf.data":
        mels = np.stack([batch["mels"] for batch in batches])
        batches = tf.data.Dataset.from_tensor_slices({"mels": mels})
    whole = trainer_in(run.with_name("whole"))
    whole.train(batches, epochs=2)
    parts = trainer_in(run)
    parts.train(batches, epochs=2, on_step=stop_at(7))
    assert parts.steps_done == 7
    parts = trainer_in(run)
    assert parts.train(batches, epochs=2)["steps"] == 10
    np.testing.assert_array_equal(runs.weights(parts), runs.weights(whole))


def stop_at(last):
    def on_step(step, _):
        if step == last:
            os.kill(os.getpid(), signal.SIGTERM)

    return on_step


# -- validation --


def scripted(trainer, losses):
    """Let validation find these losses, one after another."""
    left = iter(losses)
    trainer._validator.evaluate = lambda *_, **__: {"loss": tf.constant(next(left))}


def test_early_stopping_ends_the_run_says_so_and_stays_ended(run, trainer_in, caplog):
    settings = {"validation_steps": 2, "early_stopping_patience": 2, "checkpoint_steps": 1000}
    trainer = trainer_in(run, **settings)
    scripted(trainer, [3.0, 2.0, 2.5, 2.1, 0.0])
    batches = runs.mel_batches(4)
    result = trainer.train(batches, val_dataset=batches[:1], epochs=50)
    assert (result["steps"], result["best_loss"]) == (8, 2.0)
    assert "Stopping early: no better validation loss than 2.0000 since step 4" in caplog.text
    assert runs.latest(run).step == 8
    again = trainer_in(run, **settings)
    scripted(again, [1.0])
    assert again.train(batches, val_dataset=batches[:1], epochs=50)["steps"] == 8


def test_the_best_checkpoint_is_kept_beside_the_newest(run, trainer_in):
    trainer = trainer_in(run, validation_steps=2, checkpoint_steps=2, keep_checkpoints=1)
    scripted(trainer, [3.0, 2.0, 2.5, 2.2])
    trainer.train(runs.mel_batches(8), val_dataset=runs.mel_batches(1), epochs=1)
    store = CheckpointStore(run / "checkpoints")
    assert store.steps() == [4, 8]
    assert store.best().step == 4


def test_validation_measures_the_averaged_weights_and_changes_nothing(run, trainer_in):
    trainer = trainer_in(run, validation_steps=3, checkpoint_steps=3, learning_rate=0.1)
    evaluate, during, after = trainer._validator.evaluate, [], []

    def watch(batch, **arguments):
        during.append(runs.weights(trainer))
        return evaluate(batch, **arguments)

    trainer._validator.evaluate = watch
    trainer.train(
        runs.mel_batches(3),
        val_dataset=runs.mel_batches(2),
        epochs=1,
        on_step=lambda *_: after.append(runs.weights(trainer)),
    )
    assert len(during) == 2
    ema = runs.latest(run).tensors["ema"]
    averaged = np.concatenate([np.ravel(ema[name]) for name in names(trainer)])
    np.testing.assert_array_equal(during[0], averaged)
    assert not np.array_equal(during[0], after[-1])
    np.testing.assert_array_equal(runs.weights(trainer), after[-1])
    (measured,) = [
        event["values"]
        for event in read_events(run / "events.jsonl")
        if event["kind"] == "metrics" and "validation/loss" in event["values"]
    ]
    mels = [batch["mels"] for batch in runs.mel_batches(2)]
    with trainer.step.averaged_weights():
        wanted = np.mean([np.mean(np.abs(trainer.model(m) - m)) for m in mels])
    assert measured["validation/loss"] == pytest.approx(wanted, rel=1e-4)


def test_a_run_with_validations_resumes_exactly(run, trainer_in, data):
    settings = {"data": {"train_data": data}, "max_steps": 12, "validation_steps": 3}
    trainer_in(run.with_name("whole"), **settings).train()
    trainer_in(run, **settings).train(on_step=stop_at(7))
    trainer_in(run, **settings).train()
    ours, theirs = runs.latest(run), runs.latest(run.with_name("whole"))
    for group, arrays in theirs.tensors.items():
        for name, array in arrays.items():
            assert ours.tensors[group][name].tobytes() == array.tobytes(), name
    for name in ("step", "epoch", "position", "fingerprint", "early_stopping", "speakers"):
        assert ours.state[name] == theirs.state[name]
    assert list(runs.metrics(run)) == list(runs.metrics(run.with_name("whole")))


# -- our own model --


@pytest.fixture(scope="module")
def own(tmp_path_factory, data):
    """A short run of the real model on our data, with everything on; its trainer and log."""
    run = tmp_path_factory.mktemp("own") / "run"
    config = runs.in_process(
        run,
        data={"train_data": data, "max_mel_frames": 64, "model_start_delay": 0.5},
        max_steps=4,
        validation_steps=2,
        checkpoint_steps=3,
        memory_check_steps=2,
        sample_text="seven seven",
    )
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("myxtts")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with pytest.MonkeyPatch.context() as patch:
            runs.share_device_stage(patch)
            with make_trainer(config) as trainer:
                trainer.train()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return trainer, "\n".join(lines)


def test_memory_isolation_chooses_its_trainer(own):
    trainer, _ = own
    assert isinstance(trainer, MemoryIsolatedDualGPUTrainer)
    assert isinstance(trainer.model, XTTS)


def test_the_run_folder_holds_everything(own):
    trainer, _ = own
    run = trainer.run.path
    names = "checkpoints config.yaml dropped_clips.csv events.jsonl run.lock samples"
    assert set(os.listdir(run)) == {*names.split(), "tensorboard", "trace.json"}
    assert XTTSConfig.from_yaml(run / "config.yaml") == trainer.config
    kinds = {event["kind"] for event in read_events(run / "events.jsonl")}
    assert {"started", "metrics", "checkpoint", "memory", "ended"} <= kinds
    assert CheckpointStore(run / "checkpoints").steps()[-1] == 4


def test_dropped_clips_are_listed_with_their_reason(own):
    trainer, text = own
    with (trainer.run.path / "dropped_clips.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == CLIPS - len(trainer.data.train) - len(trainer.data.validation) > 3
    assert {row["reason"] for row in rows} == {"too long"}
    assert f"{len(rows)} of {CLIPS} clips are left out" in text


def test_samples_can_be_heard_and_seen(own):
    trainer, text = own
    folder = trainer.run.path / "samples" / "step_00000004"
    assert f"Samples of step 4: {folder}" in text
    waves, pictures = sorted(folder.glob("*.wav")), sorted(folder.glob("*.png"))
    assert len(waves) == len(pictures) >= 2
    said = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.txt")}
    assert said["own_text"] == "seven seven\n"
    assert set(said) == {path.stem for path in waves}
    assert said["sample_1"].strip() in (trainer.data.train.folder / "metadata.csv").read_text()
    wave, rate = soundfile.read(waves[0])
    assert rate == 22_050
    assert len(wave) > 1000
    shown = shown_in_tensorboard(trainer.run.path / "tensorboard")
    for tag in ("loss", "mel", "duration", "pitch", "validation/loss", "learning_rate"):
        assert [step for step, _ in shown[tag]], tag
    kinds = {value.WhichOneof("value") for _, value in shown["sample 1"]}
    assert kinds == {"audio", "image"}


def test_one_trace_for_each_shape(own):
    trainer, text = own
    assert trainer.step.traces == len(trainer.data.plan.bucket_stats()) == 1
    assert "traced again" not in text


def test_the_log_says_what_people_look_for(own):
    _, text = own
    for line in (
        "Multi-GPU Mode: Model will be placed on /GPU:1",
        "(Original GPU 1 is now mapped to GPU:1)",
        "Creating model on device: /GPU:1",
        "Model: 0.0",
        "Buffer Size: 8",
        "Prefetch Buffer Size: 4, Pipeline Depth: 3",
        "Intelligent GPU Pipeline: Multi-GPU Mode",
        "Smart Prefetching: Enabled",
        "Prefetching to /GPU:0 with buffer_size=4",
        "Multi-GPU Mode: Waiting 0.5s for data pipeline to warm up...",
        "Model training starting now",
        "held out",
        "Validation at step 2: loss ",
    ):
        assert line in text, line
    assert re.search(r"\[Step 2\] Data GPU 0: \d+/8192MB \(\d+\.\d%\)", text)
    assert re.search(r"\[Step 4\] Model GPU 1: \d+/16384MB \(\d+\.\d%\)", text)


def shape(line: str) -> str:
    """A line without its numbers and without the devices that stand in."""
    return re.sub(r"\d+(\.\d+)?", "N", re.sub(r" \(simulated[^)]*\)", "", line))


def test_a_simulated_start_says_what_the_guide_says_in_the_same_order(own):
    # Of a GPU, of espeak-ng, and after 100 steps a short run on the CPU says otherwise.
    elsewhere = ("text is read as", "Mixed precision", "[Step 100]")
    said = iter([shape(line) for line in own[1].splitlines()])
    for line in LINES[len(DEVICES) :]:
        if not line.startswith(elsewhere):
            assert shape(line) in said, f"not said, or not here: {line}"  # takes what is before it


def test_tuples_of_features_train_from_another_runs_weights_with_parts_frozen(
    own, run, trainer_in, caplog
):
    source = own[0].run.path
    trainer = trainer_in(run, model=None, init_from=source, freeze=["encoder", "reference"])
    assert re.search(rf"Starting from {source} \(step 4\): \d+ weights taken .* 0 new", caplog.text)
    assert "Speakers: known s0, s1; new none" in caplog.text
    assert "Frozen: encoder, reference" in caplog.text
    start = {
        name: np.array(variable.numpy())
        for name, variable in zip(names(trainer), trainer.model.variables, strict=True)
    }
    for name, array in runs.latest(source).tensors["ema"].items():  # what it speaks with
        np.testing.assert_array_equal(start[name][: len(array)], array, name)
    parts = [np.stack(part) for part in zip(*runs.tuple_batches(2), strict=True)]
    dataset = tf.data.Dataset.from_tensor_slices(tuple(parts))
    caplog.set_level(logging.WARNING, "tensorflow")
    result = trainer.train(dataset, val_dataset=dataset.take(1), epochs=1)
    assert result["steps"] == 2
    assert "AutoGraph" not in caplog.text
    assert result["best_loss"] > 0
    changed = {
        part
        for name, variable in zip(names(trainer), trainer.model.variables, strict=True)
        if not np.array_equal(variable.numpy(), start[name])
        for part in name.split("/")
    }
    assert not changed & {"encoder", "reference"}
    assert "decoder" in changed
