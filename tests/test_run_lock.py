"""The run folder's lock holds whatever is deleted; and a run whose files are gone says so."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from myxtts.runs import lock as run_lock
from myxtts.runs.checkpoints import CheckpointError
from myxtts.runs.events import RunLog
from myxtts.runs.folder import RunFolder
from myxtts.runs.lock import RunLockedError
from tests.test_run_folder import holder, save


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run"


def refused(path: Path) -> str:
    with pytest.raises(RunLockedError) as failure:
        RunFolder(path).__enter__()
    return failure.value.problem


def test_deleting_the_lock_file_admits_nobody(path):
    with holder(path):
        (path / "config.yaml").touch()
        (path / "run.lock").unlink()
        for _ in range(2):  # nor does the file that the first try may have left
            assert "Another process is training" in refused(path)


def test_a_deleted_lock_file_is_put_back_with_the_next_checkpoint(path, caplog):
    with RunFolder(path) as run:
        (path / "run.lock").unlink()
        save(run, 1)
        assert "run.lock was moved or deleted" in caplog.text
        assert json.loads((path / "run.lock").read_text())["pid"] == os.getpid()
        assert f"process {os.getpid()} " in refused(path)
        caplog.clear()
        save(run, 2)
        assert not caplog.text
    with RunFolder(path):
        pass


@pytest.fixture
def _no_locks_on_folders(monkeypatch):
    """As NFS has it, where only what is open for writing can be locked."""
    flock = fcntl.flock

    def files_alone(descriptor, operation):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(descriptor, operation)

    monkeypatch.setattr(run_lock.fcntl, "flock", files_alone)


@pytest.mark.usefixtures("_no_locks_on_folders")
def test_where_only_files_can_be_locked_the_first_trainer_stops_for_the_second(path):
    with RunFolder(path) as first:
        save(first, 1)
        assert f"process {os.getpid()} " in refused(path)
        (path / "run.lock").unlink()
        with RunFolder(path) as second:
            save(second, 2)
            for _ in range(2):
                with pytest.raises(RunLockedError, match="Another process"):
                    save(first, 3)
            assert second.checkpoints.steps() == [1, 2]
        save(first, 3)  # the other is gone: the folder is ours again
        assert refused(path)


def test_a_folder_deleted_in_mid_run_is_made_anew_and_held(path, caplog):
    with RunFolder(path) as run:
        shutil.rmtree(path)
        save(run, 1)
        assert "was moved or deleted while this run trains" in caplog.text
        assert refused(path)
    with RunFolder(path) as run:
        assert run.checkpoint.step == 1


def test_a_folder_that_another_run_took_over_is_not_written_to(path):
    with RunFolder(path) as first:
        path.rename(path.with_name("elsewhere"))
        with holder(path):
            with pytest.raises(RunLockedError, match="Another process"):
                save(first, 1)
            assert not (path / "checkpoints").exists()


def test_a_forked_child_that_cleans_up_does_not_unlock_its_parents_folder(path):
    with RunFolder(path) as run:
        if (child := os.fork()) == 0:
            run.__exit__(None, None, None)
            os._exit(0)
        os.waitpid(child, 0)
        assert refused(path)


@pytest.mark.parametrize("gone", ["all", "the folder"])
def test_a_run_whose_checkpoints_are_gone_does_not_start_over_in_silence(path, gone):
    with RunFolder(path) as run, RunLog(run.events_file, tensorboard_dir=None) as log:
        for step in (10, 20):
            log.event("checkpoint", step=step, folder=save(run, step), best=False)
    shutil.rmtree(path / "checkpoints")
    if gone == "all":
        (path / "checkpoints").mkdir()
    with pytest.raises(CheckpointError, match="the last at step 20; none of them is in") as failure:
        RunFolder(path).__enter__()
    assert "--reset-training" in failure.value.remedy
    with RunFolder(path, resume="reset") as run:
        assert run.checkpoint is None
    with RunFolder(path) as run:  # and the new one is new
        assert run.checkpoint is None
