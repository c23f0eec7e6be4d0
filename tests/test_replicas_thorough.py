"""Replicas under every disturbance: killed, stopped, asked to end, restarted, poisoned."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests import replica_runs, runs
from tests.support import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

STEPS = 50
FLAGS = ("--max-steps", str(STEPS))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return runs.make_clips(tmp_path_factory.mktemp("data"), replica_runs.CLIPS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    """Two replicas, never disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "two"
    return replica_runs.finish(folder, data, *FLAGS, checkpoint_steps=20)


def compare(folder, data, *flags, tolerance=1e-5, **values):
    """Two replicas, and one process that adds up two batches: near, and at the same place."""
    two = replica_runs.finish(folder / "two", data, *flags, **values)
    one = replica_runs.finish(folder / "one", data, *flags, world=1, grad_accum=2, **values)
    replica_runs.assert_near(two.run, one.run, tolerance=tolerance)
    ours, theirs = runs.latest(two.run).state, runs.latest(one.run).state
    for name in ("step", "epoch", "position"):
        assert ours[name] == theirs[name], name
    return two, one


def test_two_runs_are_bit_equal(tmp_path, data, whole):
    again = replica_runs.finish(tmp_path / "two", data, *FLAGS, checkpoint_steps=20)
    replica_runs.assert_same(again.run, whole.run)
    assert list(runs.metrics(again.run)) == list(runs.metrics(whole.run))


def test_compiled_with_xla_they_are_one_process_too(tmp_path, data):
    compare(tmp_path, data, *FLAGS, xla=True)


def test_the_voice_itself_compiled_with_xla(tmp_path, data):
    compare(tmp_path, data, "--max-steps", "12", xla=True, real=True, tolerance=1e-4)


def test_to_the_end_of_the_data_with_a_last_step_that_is_not_full(tmp_path, data):
    two, _ = compare(tmp_path, data, "--epochs", "3")
    state = runs.latest(two.run).state
    assert (state["step"], state["epoch"], state["position"]) == (8, 2, 5)  # of 15 batches


def batch_seed(position, *, rows=2, seed=3):
    """What the loader gives the batch at this place of the first epoch."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 0, position])))
    random.random((rows, 2))
    return random.integers(0, 2**31 - 1, 2, dtype=np.int32).tolist()


POISONED = """
class Poisoned(XTTS):
    def compute_losses(self, batch, *, step, training):
        losses = super().compute_losses(batch, step=step, training=training)
        bad = tf.reduce_all(batch["seed"] == tf.constant({seed}))
        return {{**losses, "loss": tf.where(bad, float("nan"), losses["loss"])}}

trainer.XTTS = Poisoned
"""


def test_a_batch_that_is_not_finite_on_one_is_skipped_on_all(tmp_path, data):
    code = POISONED.format(seed=batch_seed(3))  # the second step's batch of replica 1
    two, one = compare(tmp_path, data, "--max-steps", "20", code=code)
    for found in (two, one):
        skipped = {step: values["skipped"] for step, values in runs.metrics(found.run)}
        assert (skipped[1], skipped[2], skipped[20]) == (0, 1, 1)


DRIFTS = """
import os
if '"index": 1' in os.environ["TF_CONFIG"]:
    after = trainer.XTTSTrainer._after_step
    def drift(self):
        if self.steps_done == 5:
            self.step.weights.assign(self.step.weights * 1.0000001)
        after(self)
    trainer.XTTSTrainer._after_step = drift
"""


def test_weights_that_drift_apart_are_refused(tmp_path, data):
    some = replica_runs.start(tmp_path / "two", data, *FLAGS, code=DRIFTS)
    try:
        assert some.wait() == [2, 2], some.everything()
    finally:
        some.end()
    named = f"The weights of replica 1 ({some.addresses[1]}) are no longer those of replica 0"
    assert named in some.said(0)
    assert runs.latest(some.run).step == 5


def test_each_has_its_own_model_card_and_a_share_of_the_data_card(tmp_path, data):
    cards = {"data_gpu": 0, "model_gpu": [1, 2], "enable_memory_isolation": True}
    found = replica_runs.finish(tmp_path / "two", data, "--max-steps", "3", devices=cards)
    assert "Data GPU 0 is shared: 8192 MB for this replica" in found.said(0)
    assert "Model Training GPU: 1 (simulated GPU 1 = CPU:1)" in found.said(0)
    (started,) = runs.events(found.run, "started")
    assert started["values"]["devices"]["data_limit_mb"] == 8192


def test_early_stopping_ends_all_at_the_same_step(tmp_path):
    some = runs.make_clips(tmp_path / "data", 12)
    patience = {"early_stopping_patience": 2, "early_stopping_min_delta": 1000.0}
    two, one = compare(tmp_path, some, validation_steps=4, **patience)
    assert runs.latest(two.run).step == runs.latest(one.run).step == 12
    assert "Stopping early" in two.said(0)


@pytest.mark.parametrize(
    ("rank", "number"),
    [(0, signal.SIGKILL), (1, signal.SIGKILL), (0, signal.SIGSTOP), (1, signal.SIGSTOP)],
)
def test_whoever_is_lost_is_named_and_the_run_goes_on_bit_equal(
    tmp_path, data, whole, rank, number
):
    some = replica_runs.start(tmp_path / "two", data, *FLAGS, checkpoint_steps=7)
    other = 1 - rank
    try:
        some.wait_for_step(10)
        os.kill(some.processes[rank].pid, number)
        lost_at = time.monotonic()
        assert some.processes[other].wait(60) == 75, some.everything()
        assert time.monotonic() - lost_at < 30
    finally:
        some.end()
    assert f"replica {rank} ({some.addresses[rank]}) of 2 is gone or hangs" in some.said(other)
    some.wait(30)
    replica_runs.finish(tmp_path / "two", data, *FLAGS, checkpoint_steps=7)
    replica_runs.assert_same(some.run, whole.run)


def test_a_run_goes_on_with_another_number_of_replicas_at_the_same_clip(tmp_path, data):
    folder = tmp_path / "run"
    for world, steps in ((2, 7), (1, 11), (3, 14), (2, 16)):
        found = replica_runs.finish(folder, data, "--max-steps", str(steps), world=world)
    state = runs.latest(found.run).state
    batches = 7 * 2 + 4 * 1 + 3 * 3 + 2 * 2
    assert state["epoch"] * 5 + state["position"] == batches


def launch(folder, data, *flags, **training):
    """`myxtts train --replicas 2` with the small model, as a process of its own."""
    folder.mkdir()
    values = runs.settings(folder / "run", data={"train_data": str(data)}, seed=3, **training)
    config = runs.write_settings(folder / "config.yaml", values)
    code = runs.SMALL_TRAINING.format(code=replica_runs.QUICK_STAGE)
    command = [sys.executable, "-c", code, "--config", str(config), "--replicas", "2", *flags]
    out = (folder / "output.txt").open("w")
    return subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out), folder / "run"


def children(process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        return [int(pid) for pid in file.read().split()]


def wait_for_step(process, run, step):
    runs.wait_for(lambda: runs.last_step(run) >= step, process)
    assert runs.last_step(run) >= step, (run.parent / "output.txt").read_text()


def test_a_signal_to_the_launcher_stops_all_with_one_checkpoint(tmp_path, data, whole):
    process, run = launch(tmp_path / "two", data, *FLAGS, checkpoint_steps=10**6)
    wait_for_step(process, run, 9)
    pids = children(process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    assert len(runs.events(run, "checkpoint")) == 1
    replica_runs.finish(tmp_path / "two", data, *FLAGS, checkpoint_steps=10**6)
    replica_runs.assert_same(run, whole.run)


def test_all_are_started_again_after_one_was_killed(tmp_path, data, whole):
    flags = (*FLAGS, "--max-restarts", "1", "--reset-training")
    process, run = launch(tmp_path / "two", data, *flags, checkpoint_steps=7)
    wait_for_step(process, run, 10)
    os.kill(children(process)[0], signal.SIGKILL)
    said = tmp_path / "two" / "output.txt"
    assert process.wait(300) == 0, said.read_text()
    assert "was ended by SIGKILL; the others end too" in said.read_text()
    assert "Starting all replicas again from the last checkpoint (1 of 1)" in said.read_text()
    replica_runs.assert_same(run, whole.run)


def test_a_second_launcher_on_the_same_folder_is_refused(tmp_path, data):
    first, run = launch(tmp_path / "two", data, "--max-steps", "100000")
    try:
        wait_for_step(first, run, 2)
        (tmp_path / "other").mkdir()
        again = [sys.executable, "train_main.py", "--config", str(tmp_path / "two/config.yaml")]
        second = subprocess.run(
            [*again, "--replicas", "2"], cwd=ROOT, capture_output=True, text=True, timeout=300
        )
    finally:
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 128 + signal.SIGTERM
    assert second.returncode == 2, second.stderr
    assert f"Another process is training in {run}" in second.stderr
