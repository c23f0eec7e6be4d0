"""Replicas that train together: the same voice as one process, whatever happens to them."""

from __future__ import annotations

import signal

import pytest

from tests import replica_runs, runs

STEPS = 50


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return runs.make_clips(tmp_path_factory.mktemp("data"), replica_runs.CLIPS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    """Two replicas, never disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "two"
    return replica_runs.finish(folder, data, "--max-steps", str(STEPS), checkpoint_steps=20)


def test_two_replicas_are_one_process_that_adds_up_two_batches(tmp_path, data, whole):
    alone = replica_runs.finish(
        tmp_path / "one", data, "--max-steps", str(STEPS), world=1, grad_accum=2
    )
    replica_runs.assert_near(whole.run, alone.run)
    ours, theirs = runs.latest(whole.run).state, runs.latest(alone.run).state
    assert (ours["step"], ours["epoch"], ours["position"]) == (STEPS, 19, 5)
    assert (theirs["epoch"], theirs["position"]) == (ours["epoch"], ours["position"])


def test_only_replica_0_writes_and_tells_how_they_kept_step(whole):
    assert "Step 50/50" in whole.said(0)
    assert whole.said(1).strip() == ""
    told = runs.events(whole.run, "replicas")
    assert sum(event["values"]["steps"] for event in told) == STEPS - 1
    last = told[-1]["values"]
    assert len(last["work_s"]) == len(last["sum_s"]) == 2
    assert all(s > 0 for s in (*last["work_s"], *last["sum_s"]))


def test_a_signal_to_one_stops_all_at_the_same_step_and_they_go_on(tmp_path, data, whole):
    flags = ("--max-steps", str(STEPS))
    some = replica_runs.start(tmp_path / "two", data, *flags, checkpoint_steps=10**6)
    try:
        some.wait_for_step(9)
        some.processes[1].send_signal(signal.SIGTERM)
        assert some.wait(60) == [128 + signal.SIGTERM] * 2, some.everything()
    finally:
        some.end()
    stopped = runs.latest(some.run)
    assert len(runs.events(some.run, "checkpoint")) == 1
    assert f"Stopped by SIGTERM at step {stopped.step}" in some.said(0)
    assert "replica 1 (127.0.0.1:" in some.said(0)
    replica_runs.finish(tmp_path / "two", data, *flags, checkpoint_steps=10**6)
    replica_runs.assert_same(some.run, whole.run)


def test_a_killed_replica_is_named_and_nothing_is_lost(tmp_path, data, whole):
    flags = ("--max-steps", str(STEPS))
    some = replica_runs.start(tmp_path / "two", data, *flags, checkpoint_steps=20)
    try:
        some.wait_for_step(9)
        some.processes[1].send_signal(signal.SIGKILL)
        codes = some.wait(60)
    finally:
        some.end()
    assert codes == [75, -signal.SIGKILL], some.everything()
    assert f"replica 1 ({some.addresses[1]}) of 2 is gone or hangs" in some.said(0)
    assert "try: look at its output" in some.said(0)
    assert runs.latest(some.run).step >= 9  # replica 0 lives, and has saved its last update
    replica_runs.finish(tmp_path / "two", data, *flags, checkpoint_steps=20)
    replica_runs.assert_same(some.run, whole.run)


OTHER_VERSION = """
import os
if '"index": 1' in os.environ["TF_CONFIG"]:
    import myxtts.replicas.agreement
    myxtts.replicas.agreement.__version__ = "0.0.1"
"""


def test_a_replica_with_other_settings_data_or_version_is_refused_by_name(tmp_path, data):
    rate = replica_runs.start(tmp_path / "rate", data, own={1: {"learning_rate": 0.5}})
    other = runs.make_clips(tmp_path / "other", replica_runs.CLIPS, seconds=0.7)
    clips = replica_runs.start(tmp_path / "clips", data, own={1: {"train_data": other}})
    version = replica_runs.start(tmp_path / "version", data, code=OTHER_VERSION)
    try:
        for some in (rate, clips, version):
            assert some.wait(60)[0] == 2, some.everything()
    finally:
        for some in (rate, clips, version):
            some.end()
    assert "has another MyXTTS than replica 0" in version.said(0)
    named = f"replica 1 ({rate.addresses[1]}) has another training.learning_rate than replica 0"
    assert named in rate.said(0)
    assert "try: give every replica the same --config file and flags" in rate.said(0)
    assert "has another clips, their lengths or texts than replica 0" in clips.said(0)
