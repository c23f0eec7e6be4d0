"""A run that is killed again and again ends bit for bit like one that never was."""

from __future__ import annotations

import random
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from tests import runs

STEPS = 120
ACCUMULATED_STEPS = 40
VOICE_STEPS = 24
CHECKPOINT_STEPS = 7


@dataclass
class Outcome:
    """A run folder, how its processes ended, and the step each of them had reached."""

    folder: Path
    codes: list[int] = field(default_factory=list)
    reached: list[int] = field(default_factory=list)
    output: str = ""


def train(
    folder: Path,
    data: Path,
    *,
    stops: int = 0,
    by: signal.Signals = signal.SIGKILL,
    steps: int = STEPS,
    grad_accum: int = 1,
    seed: int = 0,
    small: bool = False,
) -> Outcome:
    """Train to the end, stopped so many times on the way at moments drawn from the seed.

    All that is drawn while it trains is on. With a `small` model a process starts in half the
    time; the rest of the run is the same.
    """
    chance = random.Random(seed)
    config = runs.settings(
        folder / "run",
        data={"train_data": str(data), "augment_speed": 0.15},
        sharpness=0.2,
        dropout=0.1,
        grad_accum=grad_accum,
        checkpoint_steps=CHECKPOINT_STEPS,
    )
    folder.mkdir()
    runs.write_settings(folder / "config.yaml", config)
    log_file = folder / "output.txt"
    outcome = Outcome(folder / "run")
    program = ["-c", runs.SMALL_TRAINING.format(code="")] if small else ["train_main.py"]
    command = [*program, "--config", str(folder / "config.yaml"), "--max-steps", str(steps)]
    # One draw in each part of the run, so that no process is stopped before it has done anything.
    bounds = [round(steps * i / (stops + 1)) for i in range(stops + 1)]
    targets = [chance.randint(a + 2, b - 8) for a, b in pairwise(bounds)]
    for target in targets:
        process = runs.start(command, log_file)
        runs.wait_for(lambda t=target: runs.last_step(outcome.folder) >= t, process)
        time.sleep(chance.uniform(0, 0.2))
        process.send_signal(by)
        outcome.codes.append(process.wait(60))
        outcome.reached.append(runs.last_step(outcome.folder))
    process = runs.start(command, log_file)
    outcome.codes.append(process.wait(500))
    outcome.output = log_file.read_text(encoding="utf-8")
    return outcome


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return runs.make_clips(tmp_path_factory.mktemp("data"), runs.TOO_FEW_TO_VALIDATE)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, data):
    """All runs of the quick tests, side by side: starting a process is most of the work."""
    folder = tmp_path_factory.mktemp("resume")
    accumulating = {"grad_accum": 4, "steps": ACCUMULATED_STEPS, "small": True}
    plans = {
        "voice, killed": {"stops": 1, "seed": 1, "steps": VOICE_STEPS},
        "voice": {"steps": VOICE_STEPS},
        "killed": {"stops": 3, "seed": 1, "small": True},
        "small": {"small": True},
        "terminated": {"stops": 1, "by": signal.SIGTERM, "seed": 2, "small": True},
        "accumulating": accumulating,
        "accumulating, killed": {"stops": 2, "seed": 3, **accumulating},
    }
    with ThreadPoolExecutor(3) as pool:
        yield {
            name: pool.submit(train, folder / name, data, **plan) for name, plan in plans.items()
        }


def result(future: Future[Outcome]) -> Outcome:
    outcome = future.result()
    assert outcome.codes[-1] == 0, outcome.output
    return outcome


def assert_same(outcome: Outcome, whole: Outcome, *, steps: int) -> None:
    """Weights, optimiser and average bit for bit, the same losses of the same clips, and place."""
    ours, theirs = runs.latest(outcome.folder), runs.latest(whole.folder)
    assert ours.step == theirs.step == steps
    assert set(ours.tensors) == {"model", "optimizer", "ema"}
    for group, arrays in theirs.tensors.items():
        assert ours.tensors[group].keys() == arrays.keys()
        for name, array in arrays.items():
            assert ours.tensors[group][name].tobytes() == array.tobytes(), (group, name)
    for name in ("epoch", "position", "fingerprint", "buckets", "tokenizer", "early_stopping"):
        assert ours.state[name] == theirs.state[name], name
    # Every batch has its own loss, so equal losses mean the same clips in the same order.
    ours, theirs = list(runs.metrics(outcome.folder)), list(runs.metrics(whole.folder))
    assert [step for step, _ in theirs] == list(range(1, steps + 1))
    assert len({values["loss"] for _, values in theirs}) > steps * 0.9
    assert ours == theirs


def assert_stopped_on_the_way(outcome: Outcome, *, steps: int) -> None:
    assert outcome.reached == sorted(outcome.reached)
    assert all(0 < step < steps for step in outcome.reached)
    resumed = [event["step"] for event in runs.events(outcome.folder, "resumed")]
    assert len(resumed) == len(outcome.reached)


@pytest.mark.timeout(900)
def test_a_kill_changes_nothing_of_a_real_voice(outcomes):
    killed, whole = result(outcomes["voice, killed"]), result(outcomes["voice"])
    assert killed.codes == [-signal.SIGKILL, 0], killed.output
    assert_stopped_on_the_way(killed, steps=VOICE_STEPS)
    assert_same(killed, whole, steps=VOICE_STEPS)


@pytest.mark.timeout(900)
def test_kill_upon_kill_changes_nothing(outcomes):
    killed, whole = result(outcomes["killed"]), result(outcomes["small"])
    assert killed.codes == [-signal.SIGKILL] * 3 + [0], killed.output
    assert_stopped_on_the_way(killed, steps=STEPS)
    for reached, event in zip(killed.reached, runs.events(killed.folder, "resumed"), strict=True):
        assert event["step"] % CHECKPOINT_STEPS == 0
        assert 0 <= reached - event["step"] <= CHECKPOINT_STEPS  # no more than this is done twice
    assert_same(killed, whole, steps=STEPS)


@pytest.mark.timeout(900)
def test_sigterm_saves_the_very_step_and_changes_nothing(outcomes):
    stopped, whole = result(outcomes["terminated"]), result(outcomes["small"])
    assert stopped.codes == [128 + signal.SIGTERM, 0], stopped.output
    assert_stopped_on_the_way(stopped, steps=STEPS)
    (resumed,) = runs.events(stopped.folder, "resumed")
    assert resumed["step"] == stopped.reached[0]
    assert f"Stopped by SIGTERM at step {resumed['step']}" in stopped.output
    assert f"Stopped at step {resumed['step']}; the same command goes on" in stopped.output
    assert_same(stopped, whole, steps=STEPS)


@pytest.mark.timeout(900)
def test_kills_between_accumulated_batches_change_nothing(outcomes):
    killed, whole = result(outcomes["accumulating, killed"]), result(outcomes["accumulating"])
    assert killed.codes == [-signal.SIGKILL] * 2 + [0], killed.output
    assert_stopped_on_the_way(killed, steps=ACCUMULATED_STEPS)
    assert_same(killed, whole, steps=ACCUMULATED_STEPS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("grad_accum", [1, 4])
def test_twenty_kills_change_nothing(tmp_path, data, grad_accum):
    steps = 420
    whole = train(tmp_path / "whole", data, steps=steps, grad_accum=grad_accum)
    killed = train(
        tmp_path / "killed", data, steps=steps, grad_accum=grad_accum, stops=20, seed=grad_accum
    )
    assert killed.codes == [-signal.SIGKILL] * 20 + [0], killed.output
    assert_same(killed, whole, steps=steps)
