"""What goes wrong in a long run, provoked for real: nothing trained is lost, and it is said."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from myxtts.errors import ConfigError, MemoryBudgetError, StageStalledError, TrainingDivergedError
from myxtts.features.audio import NUM_MELS
from myxtts.runs.checkpoints import CheckpointStore
from myxtts.training.trainer import XTTSTrainer
from tests import runs
from tests.support import pipeline_threads

pytestmark = pytest.mark.usefixtures("one_stage")

BROKEN = {"mels": np.full([2, 12, NUM_MELS], np.nan, np.float32)}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return runs.make_clips(tmp_path_factory.mktemp("data"), runs.TOO_FEW_TO_VALIDATE)


# -- numbers that are not finite --


def test_one_broken_batch_is_skipped_and_counted(run, trainer_in):
    batches = runs.mel_batches(12)
    batches[4] = BROKEN
    trainer = trainer_in(run)
    after = []
    trainer.train(batches, epochs=1, on_step=lambda *_: after.append(runs.weights(trainer)))
    assert trainer.steps_done == 12
    assert trainer.step.updates == 11
    np.testing.assert_array_equal(after[4], after[3])  # the broken one changed nothing
    assert not np.array_equal(after[5], after[4])
    assert np.isfinite(after[-1]).all()
    counted = {step: values["skipped"] for step, values in runs.metrics(run)}
    assert (counted[4], counted[5], counted[12]) == (0, 1, 1)


def test_ten_in_a_row_stop_the_run_with_weights_unharmed(run, trainer_in):
    batches = [*runs.mel_batches(3), *[BROKEN] * 40]
    trainer = trainer_in(run, checkpoint_steps=3)
    after = []
    with pytest.raises(TrainingDivergedError, match="not finite in 1[0-9] updates in a row") as end:
        trainer.train(batches, epochs=1, on_step=lambda *_: after.append(runs.weights(trainer)))
    assert len(after) <= 20
    assert f"checkpoint is that of step 18 in {run}" in end.value.problem
    assert "--lr" in end.value.remedy
    np.testing.assert_array_equal(after[-1], after[2])
    kept = runs.latest(run)
    np.testing.assert_array_equal(kept.tensors["model"]["small_model/copy/bias"], after[2][-80:])
    assert all(np.isfinite(a).all() for group in kept.tensors.values() for a in group.values())
    (ended,) = runs.events(run, "ended")
    assert "TrainingDivergedError" in ended["values"]["error"]


def test_the_clips_of_broken_batches_are_named(run, trainer_in, data):
    trainer = trainer_in(run, data={"train_data": data}, max_steps=30)
    stage = trainer._stage
    trainer._stage = lambda batch: {**stage(batch), "mels": tf.fill([2, 72, NUM_MELS], np.nan)}
    with pytest.raises(TrainingDivergedError) as end:
        trainer.train()
    for number in range(runs.TOO_FEW_TO_VALIDATE):
        assert str(data / "wavs" / f"c{number:03d}.wav") in end.value.problem


# -- memory --


def fail_above(trainer, rows):
    """Let the model device run out of memory with more rows than these."""
    compute = trainer.step._gradients

    def gradients(batch):
        if batch["mels"].shape[0] > rows:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        return compute(batch)

    trainer.step._gradients = gradients


def test_out_of_memory_says_what_would_fit(run, trainer_in):
    trainer = trainer_in(run, data={"batch_size": 8})
    fail_above(trainer, 2)
    with pytest.raises(MemoryBudgetError, match="ran out of memory at step 1, .* 8 clips") as end:
        trainer.train(runs.mel_batches(4, rows=8), epochs=1)
    assert "--batch-size 4 --grad-accum 2" in end.value.remedy
    assert "--auto-batch" in end.value.remedy
    assert "--max-mel-frames" in end.value.remedy
    assert isinstance(end.value.__cause__, tf.errors.ResourceExhaustedError)


def test_auto_batch_goes_on_with_the_same_updates(tmp_path, trainer_in, caplog):
    batches = runs.mel_batches(5, rows=8)
    plain = trainer_in(tmp_path / "plain", data={"batch_size": 8})
    plain.train(batches, epochs=2)
    halved = trainer_in(tmp_path / "halved", data={"batch_size": 8}, auto_batch=True)
    fail_above(halved, 2)
    result = halved.train(batches, epochs=2)
    assert result["steps"] == 10
    assert halved.step.updates == plain.step.updates == 10
    np.testing.assert_allclose(runs.weights(halved), runs.weights(plain), rtol=1e-4, atol=1e-6)
    shrunk = runs.events(tmp_path / "halved", "out_of_memory")
    assert [event["values"]["micro_batch"] for event in shrunk] == [4, 2]
    assert "Going on with 2 at a time, 4 times a batch: the effective batch stays" in caplog.text
    assert "traced again" not in caplog.text


def test_auto_batch_gives_up_where_one_clip_does_not_fit(run, trainer_in):
    trainer = trainer_in(run, data={"batch_size": 4}, auto_batch=True)
    fail_above(trainer, 0)
    with pytest.raises(MemoryBudgetError, match="working on 1 clips at a time") as end:
        trainer.train(runs.mel_batches(2, rows=4), epochs=1)
    assert "--batch-size" not in end.value.remedy


def test_memory_that_runs_out_in_an_update_leaves_no_half_changed_checkpoint(run, trainer_in):
    """Without XLA an update is many operations, and moments may have moved before the weights."""
    trainer = trainer_in(run, optimization_level="basic", checkpoint_steps=2, auto_batch=True)
    update, calls = trainer.step._update, iter(range(1, 100))

    def run_out_in_the_fourth(gradients, weight):
        if next(calls) == 4:
            trainer.step.weights.assign(trainer.step.weights * 2.0)  # the half that was done
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        return update(gradients, weight)

    trainer.step._update = run_out_in_the_fourth
    with pytest.raises(MemoryBudgetError, match="in the middle of an update") as end:
        trainer.train(runs.mel_batches(8, rows=4), epochs=1)
    assert "from the last checkpoint" in end.value.remedy
    assert trainer.step.updates == 3  # not tried again: moments would be applied twice
    assert [folder.name for folder in sorted((run / "checkpoints").glob("step*"))] == [
        "step_00000002"
    ]


# -- the disk --

FULL_DISK = """
import resource, signal
from myxtts.runs.checkpoints import CheckpointStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
save = CheckpointStore.save
def save_while_there_is_room(self, *, step, **rest):
    if step > 5:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))  # less than the optimiser needs
    return save(self, step=step, **rest)
CheckpointStore.save = save_while_there_is_room
"""


def test_a_full_disk_keeps_the_checkpoint_before_and_shows_in_the_exit_code(tmp_path, data):
    process, run, output = runs.start_small(
        tmp_path, data, "--max-steps", "12", code=FULL_DISK, checkpoint_steps=5
    )
    assert process.wait(200) == 2
    text = output.read_text()
    assert "WARNING: No checkpoint at step 10, training goes on" in text
    assert "error: The last 7 steps could not be saved" in text
    assert "then resume from step 5" in text
    assert "Traceback" not in text
    assert runs.last_step(run) == 12
    assert runs.latest(run).step == 5
    assert sorted(os.listdir(run / "checkpoints")) == ["step_00000005"]
    # The last one is tried once more after the last validation.
    assert [e["step"] for e in runs.events(run, "checkpoint_failed")] == [10, 12, 12]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, data):
    """A run of 9 steps with its last three checkpoints."""
    run = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patch:
        runs.share_device_stage(patch)
        config = runs.in_process(
            run, data={"train_data": data}, checkpoint_steps=3, max_steps=9, keep_checkpoints=3
        )
        with XTTSTrainer(config, model=runs.SmallModel) as trainer:
            trainer.train()
    return run


def truncate(folder):
    os.truncate(folder / "optimizer.safetensors", 1000)


def flip_a_bit(folder):
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-7] ^= 4
    (folder / "model.safetensors").write_bytes(content)


def lose_a_file(folder):
    (folder / "ema.safetensors").unlink()


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, lose_a_file])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    run, finished, trainer_in, data, caplog, damage
):
    shutil.copytree(finished, run)
    damage(run / "checkpoints" / "step_00000009")
    trainer = trainer_in(run, data={"train_data": data}, checkpoint_steps=3, max_steps=9)
    assert trainer.steps_done == 6
    assert "Skipped a damaged checkpoint" in caplog.text
    trainer.train()
    again, before = runs.latest(run), runs.latest(finished)
    assert again.step == 9
    for group, arrays in before.tensors.items():
        for name, array in arrays.items():
            np.testing.assert_array_equal(again.tensors[group][name], array, name)


def test_nothing_starts_over_in_silence_where_all_are_damaged(run, finished, trainer_in, data):
    shutil.copytree(finished, run)
    for folder in (run / "checkpoints").glob("step_*"):
        lose_a_file(folder)
    with pytest.raises(OSError, match="Every checkpoint in .* is damaged"):
        trainer_in(run, data={"train_data": data})


# -- two trainers, going on, and starting anew --


def test_a_second_trainer_is_refused_with_the_first_ones_name(tmp_path, trainer_in, data):
    trainer_in(tmp_path / "run")
    process, _, output = runs.start_small(tmp_path, data)
    assert process.wait(200) == 2
    text = output.read_text()
    assert f"process {os.getpid()} on {socket.gethostname()}" in text
    assert "Traceback" not in text


def test_insisting_on_a_checkpoint_that_is_not_there_is_an_error(run, trainer_in):
    with pytest.raises(ConfigError, match="--resume was given, but .* holds no checkpoint"):
        trainer_in(run, resume="require")
    assert not run.exists()


def test_reset_keeps_the_old_run_aside(run, finished, trainer_in):
    shutil.copytree(finished, run)
    trainer = trainer_in(run, resume="reset")
    assert trainer.steps_done == 0
    (aside,) = run.parent.glob("run.old-*")
    assert runs.latest(aside).step == 9
    assert not (run / "checkpoints").exists()


def test_a_changed_model_is_refused_with_the_way_out(run, finished, trainer_in, data):
    shutil.copytree(finished, run)
    with pytest.raises(ConfigError, match="The checkpoint is of another model") as refusal:
        trainer_in(run, model=lambda: runs.SmallModel(96), data={"train_data": data})
    assert "config.yaml" in refusal.value.remedy
    trainer_in(run, data={"train_data": data})  # the folder is free, and nothing has changed


@pytest.mark.parametrize("seconds", [0.6, 2.5], ids=["of known length", "longer than any before"])
def test_changed_data_starts_the_epoch_anew(
    tmp_path, run, finished, trainer_in, data, caplog, seconds
):
    shutil.copytree(finished, run)
    changed = shutil.copytree(data, tmp_path / "data")
    runs.make_clips(changed, 1, first=50, seconds=seconds)
    shutil.copy(run / "config.yaml", tmp_path)
    trainer = trainer_in(run, data={"train_data": changed}, max_steps=12)
    assert "The data or the batch settings changed since step 9" in caplog.text
    assert (trainer.state.step, trainer.state.epoch, trainer.state.position) == (9, 1, 0)
    assert trainer.train()["steps"] == 12


def test_data_changed_in_its_own_folder_is_noticed_too(tmp_path, run, trainer_in, caplog):
    data = runs.make_clips(tmp_path / "data", runs.TOO_FEW_TO_VALIDATE)
    trainer = trainer_in(run, data={"train_data": data}, max_steps=2)
    trainer.train()
    runs.make_clips(data, 1, first=50, seconds=2.5)
    trainer = trainer_in(run, data={"train_data": data}, max_steps=4)
    assert "The data or the batch settings changed since step 2" in caplog.text
    assert trainer.data.listed == runs.TOO_FEW_TO_VALIDATE + 1
    assert trainer.train()["steps"] == 4


# -- stages and signals --


class Source:
    """Batches, and then nothing more until released."""

    def __init__(self, count, *, then=None):
        self._batches, self._then = runs.mel_batches(count), then
        self.reached, self.released = threading.Event(), threading.Event()

    def __iter__(self):
        yield from self._batches
        self.reached.set()
        assert self.released.wait(60)
        if self._then is not None:
            raise self._then


def test_a_stuck_source_ends_the_run_with_its_name_and_saves(run, trainer_in):
    source = Source(3)
    trainer = trainer_in(run, data={"stall_timeout": 3.0})
    began = time.monotonic()
    with pytest.raises(StageStalledError, match="stage 'read' made no progress"):
        trainer.train(source, epochs=1)
    assert time.monotonic() - began < 30
    source.released.set()
    assert runs.latest(run).step == trainer.steps_done >= 1


def test_a_failing_source_ends_the_run_with_its_error_and_saves(run, trainer_in):
    source = Source(3, then=OSError("the disk is gone"))
    trainer = trainer_in(run)
    release = {3: source.released.set}
    with pytest.raises(OSError, match="the disk is gone"):
        trainer.train(source, epochs=1, on_step=lambda step, _: release.get(step, int)())
    assert runs.latest(run).step == 3
    assert not pipeline_threads()


def test_a_failing_stage_ends_the_run_with_its_error(run, trainer_in):
    trainer = trainer_in(run)

    def fail(batch):
        raise ValueError("no mels in here")

    trainer._preprocess_on_data_gpu = fail
    with pytest.raises(ValueError, match="no mels in here"):
        trainer.train(runs.mel_batches(3), epochs=1)
    assert not pipeline_threads()


def test_sigterm_ends_a_run_whose_source_is_stuck(run, trainer_in):
    source = Source(3)
    trainer = trainer_in(run)

    def ask_to_stop():
        assert source.reached.wait(60)
        while trainer.steps_done < 3:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    asker = threading.Thread(target=ask_to_stop)
    asker.start()
    began = time.monotonic()
    try:
        result = trainer.train(source, epochs=1)
    finally:
        source.released.set()
        asker.join()
    assert result["stopped_by"] == signal.SIGTERM
    assert time.monotonic() - began < 20
    assert runs.latest(run).step == 3


SLOW_DISK = """
import time
from myxtts.runs import checkpoints
sync = checkpoints._sync
def slowly(path):
    if "step_00000005" not in str(path):
        print("saving", flush=True)
        time.sleep(1)
    sync(path)
checkpoints._sync = slowly
"""


def test_a_second_ctrl_c_leaves_at_once_and_harms_nothing(tmp_path, data):
    process, run, output = runs.start_small(
        tmp_path, data, "--max-steps", "100000", code=SLOW_DISK, checkpoint_steps=5
    )
    runs.wait_for(lambda: runs.last_step(run) >= 6, process)
    process.send_signal(signal.SIGINT)
    runs.wait_for(lambda: "saving" in output.read_text(), process)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert process.wait(60) in (128 + signal.SIGINT, -signal.SIGINT)
    assert time.monotonic() - began < 2
    assert runs.latest(run).step == 5
    assert CheckpointStore(run / "checkpoints").steps() == [5]
    for line in (run / "events.jsonl").read_text().splitlines():
        json.loads(line)
