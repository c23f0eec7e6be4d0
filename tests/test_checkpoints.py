"""Checkpoints: what is saved comes back, and the last ones and the best are kept."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from myxtts.runs import checkpoints
from myxtts.runs.checkpoints import Checkpoint, CheckpointStore, load_checkpoint
from tests.support import run_python

FILES = ("model.safetensors", "optimizer.safetensors", "ema.safetensors", "state.json")

CHILD = """
import sys
from pathlib import Path
import numpy as np
from myxtts.runs import checkpoints
from myxtts.runs.checkpoints import CheckpointError, CheckpointStore
def tensors(step, size=1000):
    return {g: {"w": np.full(size, step, np.float32)} for g in ("model", "optimizer", "ema")}
store = CheckpointStore(Path(sys.argv[1]), keep=2)
"""


def tensors(step: int) -> dict[str, dict[str, np.ndarray]]:
    return {g: {"w": np.full(1000, step, np.float32)} for g in ("model", "optimizer", "ema")}


def save(store: CheckpointStore, step: int, *, best: bool = False) -> Path:
    return store.save(step=step, tensors=tensors(step), state={"epoch": step // 10}, best=best)


def loaded(checkpoint: Checkpoint | None) -> Checkpoint:
    """Give it back if every value in it is the one saved for its step."""
    assert checkpoint is not None
    assert set(checkpoint.tensors) == {"model", "optimizer", "ema"}
    for group in checkpoint.tensors.values():
        np.testing.assert_array_equal(group["w"], np.full(1000, checkpoint.step, np.float32))
    return checkpoint


def names(store: CheckpointStore) -> set[str]:
    return set(os.listdir(store.folder))


def test_arrays_come_back_bit_for_bit_in_their_types_and_shapes(store):
    values = np.random.default_rng(0).normal(size=[3, 4])
    arrays = {
        "text_encoder/block_0/kernel:0": values.astype(np.float32),
        "half": values.astype(np.float16),
        "brain": values.astype(ml_dtypes.bfloat16),
        "steps": np.array(2**40, np.int64),
        "scale": np.array(0.5, np.float32),
        "flags": np.array([True, False]),
        "bytes": np.arange(5, dtype=np.uint8),
        "nan": np.array([np.nan, -0.0, np.inf]),
        "empty": np.zeros([0, 3], np.float32),
        "strided": values.astype(np.float32).T[::2],
    }
    store.save(step=7, tensors={"model": arrays, "optimizer": {}}, state={})
    back = store.latest()
    assert back.tensors["optimizer"] == {}
    assert back.tensors["model"].keys() == arrays.keys()
    for name, array in arrays.items():
        found = back.tensors["model"][name]
        assert (found.dtype, found.shape) == (array.dtype, array.shape), name
        assert found.tobytes() == array.tobytes(), name


def test_bfloat16_is_read_by_a_process_that_never_used_it_and_tensorflow_stays_unloaded(store):
    ones = np.ones(2, ml_dtypes.bfloat16)
    store.save(step=1, tensors={"model": {"w": ones}}, state={})
    code = "print(store.latest().tensors['model']['w'].dtype, 'tensorflow' in sys.modules)"
    result = run_python(["-c", CHILD + code, str(store.folder)])
    assert result.stdout.split() == ["bfloat16", "False"], result.stderr


def test_state_comes_back(store):
    state = {"epoch": 3, "position": [1, 2], "best": float("inf"), "clips": "سلام", "none": None}
    folder = store.save(step=123, tensors=tensors(1), state=state)
    assert folder.name == "step_00000123"
    assert sorted(os.listdir(folder)) == sorted(FILES)
    back = load_checkpoint(folder)
    assert (back.folder, back.step, back.state) == (folder, 123, state)


def test_files_are_as_readable_as_the_folder(store):
    folder = save(store, 1)
    assert {(folder / name).stat().st_mode & 0o777 for name in FILES} == {
        folder.stat().st_mode & 0o666
    }


def test_what_cannot_be_stored_is_refused_before_a_file_is_touched(store):
    with pytest.raises(TypeError, match="'odd'.*complex128"):
        store.save(step=1, tensors={"model": {"odd": np.zeros(1, np.complex128)}}, state={})
    with pytest.raises(TypeError, match="JSON"):
        store.save(step=1, tensors={}, state={"array": np.zeros(1)})
    assert not store.folder.exists()


def test_an_empty_store_has_nothing(store):
    assert (store.latest(), store.best(), store.steps()) == (None, None, [])


def test_the_last_ones_and_the_best_are_kept(store):
    for step in range(10, 80, 10):
        save(store, step, best=step in (10, 20))
    assert store.steps() == [20, 50, 60, 70]
    assert loaded(store.latest()).step == 70
    assert loaded(store.best()).step == 20
    save(store, 80, best=True)
    assert store.steps() == [60, 70, 80]
    assert loaded(store.best()).step == 80
    assert names(store) == {"best.json", *(f"step_000000{step}" for step in (60, 70, 80))}


def test_a_best_that_was_recorded_but_never_arrived_leaves_the_former_best(store, monkeypatch):
    save(store, 1, best=True)

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "_put_in_place", die)  # killed between the two renames
        with pytest.raises(KeyboardInterrupt):
            save(store, 2, best=True)
    assert loaded(store.best()).step == 1
    for step in (2, 3, 4, 5):
        save(store, step)
    assert loaded(store.best()).step == 1


def test_an_unreadable_record_of_the_best_is_warned_of(store, caplog):
    save(store, 1, best=True)
    (store.folder / "best.json").write_text("{")
    assert store.best() is None
    assert "best.json cannot be read" in caplog.text
    save(store, 2, best=True)
    assert loaded(store.best()).step == 2


def test_going_back_behind_a_damaged_step_removes_neither(store):
    store.keep = 1
    (save(store, 20) / "state.json").unlink()
    save(store, 10)
    assert store.steps() == [10, 20]
    assert loaded(store.latest()).step == 10
    save(store, 20)
    assert store.steps() == [20]
    assert loaded(store.latest()).step == 20


def test_a_step_is_replaced_and_readable_at_every_moment_of_it(store, monkeypatch):
    save(store, 5)
    seen = []
    rename = os.rename

    def watched(source, target):
        seen.append(store.latest().state)
        rename(source, target)
        seen.append(store.latest().state)

    monkeypatch.setattr(checkpoints.os, "rename", watched)
    for value in ("second", "third"):
        store.save(step=5, tensors=tensors(5), state={"value": value})
    assert [state.get("value", "first") for state in seen] == [
        *["first"] * 3, *["second"] * 6, *["third"] * 3,
    ]  # fmt: skip
    assert names(store) == {"step_00000005"}


def test_a_save_killed_while_replacing_is_completed_by_the_next(store):
    folder = save(store, 5)
    folder.rename(folder.with_name("step_00000005.replaced"))
    assert loaded(store.latest()).step == 5
    save(store, 6)
    assert store.steps() == [5, 6]  # it has no successor, so it counts
    save(store, 5)
    assert names(store) == {"step_00000005", "step_00000006"}


def test_a_removal_killed_halfway_leaves_no_half_checkpoint(store, monkeypatch):
    store.keep = 1
    save(store, 1)
    rmtree = shutil.rmtree

    def die_halfway(folder, **options):
        if (folder / "model.safetensors").exists():
            (folder / "model.safetensors").unlink()
            raise KeyboardInterrupt
        rmtree(folder, **options)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.shutil, "rmtree", die_halfway)
        with pytest.raises(KeyboardInterrupt):
            save(store, 2)
    assert store.steps() == [2]
    save(store, 3)
    assert names(store) == {"step_00000003"}


def test_leftovers_of_killed_writers_are_not_read_and_go_with_the_next_save(store):
    save(store, 1)
    for name in (".tmp-step_00000002-99", ".tmp-removed-step_00000000-99"):
        shutil.copytree(store.folder / "step_00000001", store.folder / name)
    assert store.steps() == [1]
    save(store, 2)
    assert names(store) == {"step_00000001", "step_00000002"}


def test_going_back_keeps_the_later_steps_under_other_names(tmp_path):
    store = CheckpointStore(tmp_path)
    for step in (10, 20, 30):
        save(store, step)
    store.set_aside_after(10)
    assert loaded(store.latest()).step == 10
    aside = sorted(path.name for path in tmp_path.glob("abandoned-*"))
    assert [name[:22] for name in aside] == ["abandoned-step_0000002", "abandoned-step_0000003"]
    save(store, 15)
    assert loaded(store.latest()).step == 15
    assert len(list(tmp_path.glob("abandoned-*"))) == 2
