"""No kill, full disk or flipped bit loses a run: there is always a whole checkpoint before."""

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

import numpy as np
import pytest

from myxtts.runs import checkpoints
from myxtts.runs.checkpoints import CheckpointError, CheckpointStore, load_checkpoint
from tests.support import ROOT, run_python
from tests.test_checkpoints import CHILD, FILES, loaded, names, save


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
