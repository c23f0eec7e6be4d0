"""Checkpoints: what is saved comes back, and no kill, full disk or flipped bit loses a run."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from myxtts.runs import checkpoints
from myxtts.runs.checkpoints import (
    Checkpoint,
    CheckpointError,
    CheckpointStore,
    load_checkpoint,
)
from tests.support import ROOT, run_python

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


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "run" / "checkpoints")


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


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def lengthen(file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"\n")


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[random.Random(file.name).randrange(len(content))] ^= 4
    file.write_bytes(content)


def fill_with_garbage(file: Path) -> None:
    file.write_bytes(b"[" * file.stat().st_size)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [truncate, lengthen, flip_a_bit, fill_with_garbage, Path.unlink])
def test_a_damaged_checkpoint_is_skipped_with_one_warning(store, caplog, damage, name):
    save(store, 1)
    damage(save(store, 2) / name)
    assert loaded(store.latest()).step == 1
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"step_00000002/{name} cannot be used: " in record.getMessage()


@pytest.mark.parametrize("name", FILES)
def test_every_single_bit_counts(tmp_path, name):
    small = {group: {"w": np.ones(2, np.float32)} for group in ("model", "optimizer", "ema")}
    folder = CheckpointStore(tmp_path).save(step=1, tensors=small, state={"rate": 1e-5, "s": "é"})
    content = (folder / name).read_bytes()
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << random.Random(position).randrange(8)
        (folder / name).write_bytes(flipped)
        with pytest.raises(CheckpointError, match=name):
            load_checkpoint(folder)
    # In text the case bit alone can leave the meaning as it was: 1e-05 and 1E-05.
    (folder / name).write_bytes(content.replace(b"1e-05", b"1E-05"))
    if name == "state.json":
        with pytest.raises(CheckpointError, match="checksum"):
            load_checkpoint(folder)


def test_nothing_whole_means_none_and_a_warning_for_each(store, caplog):
    for step in (1, 2, 3):
        (save(store, step) / "model.safetensors").unlink()
    assert store.latest() is None
    assert len(caplog.records) == 3
    assert store.steps() == [1, 2, 3]


def test_a_newer_format_is_named(store, monkeypatch):
    monkeypatch.setattr(checkpoints, "_FORMAT", 2)
    folder = save(store, 1)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="format 2, this version reads 1"):
        load_checkpoint(folder)


def test_a_folder_that_is_none_is_an_error_that_names_the_file(tmp_path):
    with pytest.raises(CheckpointError, match=r"nowhere/state\.json cannot be used: it is missing"):
        load_checkpoint(tmp_path / "nowhere")
    (tmp_path / "state.json").write_text(json.dumps({"step": 1}))
    with pytest.raises(CheckpointError, match="another program's"):
        load_checkpoint(tmp_path)


def test_a_writer_killed_at_any_moment_leaves_a_whole_latest(store):
    code = """
start = store.steps()[-1] + 1 if store.steps() else 1
for step in range(start, start + 100_000):
    store.save(step=step, tensors=tensors(step), state={"step": step}, best=step % 3 == 0)
    store.save(step=step, tensors=tensors(step), state={"step": step})  # replaced
"""
    save(store, 1, best=True)
    before = 1
    for seed in range(8):
        process = subprocess.Popen([sys.executable, "-c", CHILD + code, store.folder], cwd=ROOT)
        while store.steps()[-1] < before + 2:
            assert process.poll() is None
            time.sleep(0.005)
        time.sleep(random.Random(seed).uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        newest = store.steps()[-1]
        assert newest >= before + 2
        assert loaded(store.latest()).step == newest
        for folder in store.folder.glob("step_*"):
            loaded(load_checkpoint(folder))
        assert loaded(store.best()).step >= newest - 3
        before = newest
    save(store, before + 1)
    assert not any(name.startswith(".tmp") for name in names(store))


REPORT = """
try:
    store.save(step=2, tensors=tensors(2, 1_000_000), state={}, best=True)
except CheckpointError as error:
    print(error)
left = sorted(path.name for path in store.folder.iterdir())
print("left:", left, store.latest().step, store.best().step)
"""
LEFT = "left: ['best.json', 'step_00000001'] 1 1"


def test_a_failing_write_leaves_the_one_before_and_no_litter(store):
    code = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store.save(step=1, tensors=tensors(1), state={}, best=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
"""
    result = run_python(["-c", CHILD + code + REPORT, str(store.folder)])
    assert "step 2 could not be written" in result.stdout, result.stderr
    assert "File too large" in result.stdout
    assert "space needed: 16.0 MB" in result.stdout
    assert "try: free some space" in result.stdout
    assert result.stdout.splitlines()[-1] == LEFT


def on_a_small_disk(folder: Path, code: str) -> str:
    """Run on a tmpfs of 10 MB, mounted in a user namespace where no privilege is needed for it."""
    folder.mkdir()
    mount = 'mount -t tmpfs -o size=10m tmpfs "$1" && shift && exec "$@"'
    inside = [sys.executable, "-c", CHILD + code + REPORT, str(folder / "checkpoints")]
    command = ["unshare", "-Urm", "sh", "-c", mount, "sh", str(folder)]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"]).returncode:
        pytest.skip("this machine lets no user mount a small disk")
    result = subprocess.run([*command, *inside], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


FIRST = "store.save(step=1, tensors=tensors(1), state={}, best=True)\n"


def test_a_disk_with_too_little_space_is_noticed_first(tmp_path):
    output = on_a_small_disk(tmp_path / "disk", FIRST)
    assert "only 10.0 MB are free (space needed: 16.0 MB)" in output
    assert output.splitlines()[-1] == LEFT


def test_a_disk_that_fills_up_while_saving_leaves_the_one_before(tmp_path):
    # The check sees a roomy disk, as if others filled it afterwards.
    roomy = "checkpoints._MARGIN, checkpoints._MARGIN_BYTES = 0, 0\n"
    output = on_a_small_disk(tmp_path / "disk", FIRST + roomy)
    assert "No space left on device" in output
    assert output.splitlines()[-1] == LEFT


def test_a_folder_that_cannot_be_made_is_an_error_with_a_way_out(tmp_path):
    (tmp_path / "file").touch()
    store = CheckpointStore(tmp_path / "file" / "checkpoints")
    with pytest.raises(CheckpointError, match="could not be written") as failure:
        save(store, 1)
    assert "--checkpoint-dir" in failure.value.remedy


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
