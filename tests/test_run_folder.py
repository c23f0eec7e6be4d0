"""The run folder: one trainer at a time, never the wrong folder, never a silent new start."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from myxtts.errors import ConfigError, MyXTTSError
from myxtts.runs import lock as run_lock
from myxtts.runs.checkpoints import CheckpointError
from myxtts.runs.folder import RunFolder
from myxtts.runs.lock import RunLockedError
from tests.support import ROOT

HOLD = """
import sys, time
from pathlib import Path
from myxtts.runs.folder import RunFolder
with RunFolder(Path(sys.argv[1]), resume=sys.argv[2]):
    print("held", flush=True)
    time.sleep(60)
"""
RACE = """
import sys, time
from pathlib import Path
from myxtts.runs.folder import RunFolder
from myxtts.runs.lock import RunLockedError
time.sleep(max(0, float(sys.argv[3]) - time.time()))
try:
    with RunFolder(Path(sys.argv[1]), resume=sys.argv[2]) as run:
        with (run.path / "trainers").open("a") as file:
            file.write("in\\n")
        time.sleep(1)
        print((run.path / "trainers").read_text().count("in"))
except RunLockedError:
    print("refused")
"""


@contextmanager
def holder(path: Path, resume: str = "auto") -> Iterator[subprocess.Popen[str]]:
    """Another process that trains in the folder until it is killed."""
    command = [sys.executable, "-c", HOLD, str(path), resume]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def save(run: RunFolder, step: int) -> Path:
    return run.checkpoints.save(
        step=step, tensors={"model": {"w": np.full(3, step)}}, state={"step": step}
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "first"


@pytest.fixture
def trained(path: Path) -> Path:
    with RunFolder(path) as run:
        run.config_file.write_text("model: {}\n")
        for step in (10, 20):
            save(run, step)
    return path


def old_folders(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.old-*"))


def test_a_new_run_is_made_with_its_places(path):
    with RunFolder(path) as run:
        assert run.checkpoint is None
        assert run.samples_dir.is_dir()
        assert run.tensorboard_dir.is_dir()
        places = (run.config_file, run.events_file, run.dropped_file, run.checkpoints.folder)
        assert [place.relative_to(path).as_posix() for place in places] == [
            "config.yaml", "events.jsonl", "dropped_clips.csv", "checkpoints",
        ]  # fmt: skip


@pytest.mark.parametrize("resume", ["auto", "require"])
def test_a_run_goes_on_from_its_latest_checkpoint(trained, resume):
    with RunFolder(trained, resume=resume) as run:
        assert run.checkpoint.step == 20
        assert run.checkpoint.state == {"step": 20}


def test_a_run_that_saved_nothing_yet_starts_again_in_its_folder(path):
    with RunFolder(path) as run:
        run.config_file.touch()
    with RunFolder(path) as run:
        assert run.checkpoint is None


def test_insisting_on_a_checkpoint_makes_no_folder_when_there_is_none(path):
    with pytest.raises(
        ConfigError, match="--resume was given, but .*first holds no checkpoint"
    ) as e:
        RunFolder(path, resume="require").__enter__()
    assert "leave out --resume" in e.value.remedy
    assert "--checkpoint-dir" in e.value.remedy
    assert not path.parent.exists()


def test_a_damaged_latest_is_skipped_for_the_one_before(trained, caplog):
    os.truncate(trained / "checkpoints" / "step_00000020" / "model.safetensors", 10)
    with RunFolder(trained) as run:
        assert run.checkpoint.step == 10
    assert "step_00000020/model.safetensors" in caplog.text


@pytest.mark.parametrize("resume", ["auto", "require"])
def test_when_all_are_damaged_nothing_starts_over_in_silence(trained, resume):
    for state_file in trained.glob("checkpoints/*/state.json"):
        state_file.unlink()
    run = RunFolder(trained, resume=resume)
    for _ in range(2):  # the second time too: the first let go of the lock
        with pytest.raises(CheckpointError, match="Every checkpoint in .* is damaged") as failure:
            run.__enter__()
        assert "--reset-training" in failure.value.remedy
    with RunFolder(trained, resume="reset") as run:
        assert run.checkpoint is None


@pytest.mark.parametrize("resume", ["auto", "reset"])
def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path, resume):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ConfigError, match=r"holds files \(thesis.txt.*none of a training run"):
        RunFolder(tmp_path, resume=resume).__enter__()
    assert os.listdir(tmp_path) == ["thesis.txt"]


@pytest.mark.parametrize("resume", ["auto", "reset"])
def test_an_empty_folder_will_do(path, resume):
    path.mkdir(parents=True)
    with RunFolder(path, resume=resume) as run:
        assert run.checkpoint is None
    assert not old_folders(path)


def test_a_file_in_the_way_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file is a file"):
        RunFolder(tmp_path / "file").__enter__()
    with pytest.raises(ConfigError, match="cannot be used: .*Not a directory"):
        RunFolder(tmp_path / "file" / "run").__enter__()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_said(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot be used: .*Permission denied"):
        RunFolder(tmp_path / "run").__enter__()


def test_a_kernel_file_system_that_takes_no_folder_is_said():
    with pytest.raises(ConfigError, match="The run folder /proc/run cannot be used"):
        RunFolder(Path("/proc/run")).__enter__()


def test_a_second_trainer_is_refused_and_told_who_holds_the_folder(path):
    with holder(path) as process:
        for resume in ("auto", "reset"):
            with pytest.raises(RunLockedError) as failure:
                RunFolder(path, resume=resume).__enter__()
            assert f"process {process.pid} on {socket.gethostname()}" in failure.value.problem
            for way_out in ("wait", "stop it", "--checkpoint-dir"):
                assert way_out in failure.value.remedy
        assert not old_folders(path)
        named = json.loads((path / "run.lock").read_text())
        assert (named["pid"], named["host"]) == (process.pid, socket.gethostname())
        assert named["started"].startswith("20")


def test_the_lock_goes_with_its_holder_however_it_ends(path):
    with holder(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        with RunFolder(path):
            assert json.loads((path / "run.lock").read_text())["pid"] == os.getpid()
            with pytest.raises(RunLockedError, match=f"process {os.getpid()} "):
                RunFolder(path).__enter__()
    with RunFolder(path):
        pass
    assert (path / "run.lock").exists()


def test_a_child_that_outlives_the_run_does_not_keep_the_lock(path):
    with RunFolder(path) as run:
        sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
        child = subprocess.Popen(sleep, pass_fds=run._lock._held.values())
    try:
        with RunFolder(path):
            pass
    finally:
        child.kill()
        child.wait()


def test_a_reset_keeps_the_old_run_aside(trained, caplog):
    with caplog.at_level(logging.INFO), RunFolder(trained, resume="reset") as run:
        assert run.checkpoint is None
        assert not run.config_file.exists()
        (aside,) = old_folders(trained)
        assert f"The old run is kept in {aside}" in caplog.text
        with pytest.raises(RunLockedError):
            RunFolder(trained).__enter__()
    with RunFolder(aside) as run:
        assert run.checkpoint.step == 20
        assert run.config_file.read_text() == "model: {}\n"


def test_resets_within_one_second_keep_every_run(path):
    for step in (1, 2, 3):
        with RunFolder(path, resume="reset") as run:
            save(run, step)
    assert len(old_folders(path)) == 2
    kept = []
    for aside in old_folders(path):
        with RunFolder(aside) as run:
            kept.append(run.checkpoint.step)
    assert sorted(kept) == [1, 2]


def test_a_reset_does_not_move_the_folder_one_stands_in(trained, monkeypatch):
    (trained / "notes").mkdir()
    for here in (trained, trained / "notes"):
        monkeypatch.chdir(here)
        with pytest.raises(ConfigError, match="would move the current folder"):
            RunFolder(Path(os.path.relpath(trained)), resume="reset").__enter__()
    assert not old_folders(trained)


def test_a_lock_file_that_a_reset_moved_away_is_not_taken_for_the_run(trained, monkeypatch):
    flock, moved = run_lock.fcntl.flock, trained.with_name("moved")

    def flock_late(descriptor, operation):
        if not moved.exists():  # between our opening the file and locking it
            trained.rename(moved)
        flock(descriptor, operation)

    monkeypatch.setattr(run_lock.fcntl, "flock", flock_late)
    with RunFolder(trained) as run:
        assert run.checkpoint is None
        held = run._lock._held
        assert held.keys() == {trained, trained / "run.lock"}
        for path, descriptor in held.items():
            assert os.path.samestat(path.stat(), os.fstat(descriptor))
    with RunFolder(moved) as run:
        assert run.checkpoint.step == 20


def test_a_lock_file_that_never_stays_is_given_up(path, monkeypatch):
    monkeypatch.setattr(run_lock, "_is_at", lambda *_: False)
    with pytest.raises(RunLockedError, match="keeps being moved"):
        RunFolder(path).__enter__()


def test_trainers_and_resets_that_start_together_end_with_one(trained):
    for modes in (["reset"] * 3, ["auto", "reset", "auto"]):
        start = str(time.time() + 1.5)
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", RACE, str(trained), mode, start],
                cwd=ROOT, stdout=subprocess.PIPE, text=True,
            )
            for mode in modes
        ]  # fmt: skip
        answers = sorted(racer.communicate(timeout=30)[0].strip() for racer in racers)
        assert answers == ["1", "refused", "refused"]
        (trained / "trainers").unlink()


def test_errors_are_for_people(path):
    assert issubclass(RunLockedError, MyXTTSError)
    assert issubclass(CheckpointError, MyXTTSError)
    assert str(RunLockedError("It is taken.", "wait")) == "It is taken.\n  try: wait"
    assert str(CheckpointError("It is gone.", "a copy")) == "It is gone.\n  try: a copy"
