"""Checkpoints that survive kills, full disks and flipped bits: whole on disk, or not there."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  # teaches NumPy the name "bfloat16", which loading needs
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from myxtts.documents import parse_json, read_bounded, read_json
from myxtts.errors import MyXTTSError

STATE_FILE = "state.json"
BEST_FILE = "best.json"

_FORMAT = 1  # raised when older versions could not read the files any more
_FOLDER = re.compile(r"step_([0-9]{8,})(\.replaced)?")
_TEMPORARY = ".tmp-"  # no reader looks at these, and the next save removes them
_BLANK = b"0" * 64  # stands in the checksum's place while it is computed
_DIGEST = slice(len('{\n "checksum": "'), len('{\n "checksum": "') + len(_BLANK))
_MARGIN, _MARGIN_BYTES = 1.05, 4 << 20  # headers, whole blocks, and the logs written meanwhile
_DTYPES = {"bool", "bfloat16", "float16", "float32", "float64"}
_DTYPES |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}

Tensors = Mapping[str, Mapping[str, np.ndarray]]  # group -> name -> array
log = logging.getLogger(__name__)


class CheckpointError(MyXTTSError, OSError):
    """A checkpoint cannot be written, or the one there cannot be used."""


@dataclass(frozen=True)
class Checkpoint:
    """A saved step: `tensors` by group ("model", "optimizer", "ema") and name; `state` is JSON."""

    folder: Path
    step: int
    tensors: dict[str, dict[str, np.ndarray]]
    state: dict[str, Any]


class CheckpointStore:
    """The last `keep` checkpoints of a run and its best; the run's lock admits one writer."""

    def __init__(
        self, folder: Path, *, keep: int = 3, guard: Callable[[], None] = lambda: None
    ) -> None:
        assert keep >= 1, keep
        self.folder = Path(folder)
        self.keep = keep
        self.guard = guard  # raises where this process may no longer write here

    def save(
        self, *, step: int, tensors: Tensors, state: Mapping[str, Any], best: bool = False
    ) -> Path:
        """Write a checkpoint, then remove what is not kept; a failure harms no earlier one."""
        groups = {group: _storable(group, named) for group, named in tensors.items()}
        text = json.dumps(dict(state))  # what is no JSON fails here, before a file is touched
        num_bytes = len(text) + sum(a.nbytes for arrays in groups.values() for a in arrays.values())
        needed = int(num_bytes * _MARGIN) + _MARGIN_BYTES
        target = self.folder / f"step_{step:08d}"
        partial = self.folder / f"{_TEMPORARY}{target.name}-{os.getpid()}"
        try:
            self.guard()
            self.folder.mkdir(parents=True, exist_ok=True)
            if (free := shutil.disk_usage(self.folder).free) < needed:
                raise OSError(f"only {_mb(free)} are free")
            _write_checkpoint(partial, step=step, groups=groups, state=state)
            self.guard()  # once more: what is written is taken away again, what is removed is not
            self._record_best([step] if best else [], partial)
            self._put_in_place(partial, target)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"The checkpoint of step {step} could not be written to {self.folder}: {error} "
                f"(space needed: {_mb(needed)}).",
                "free some space, or another --checkpoint-dir; earlier checkpoints are untouched",
            ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)  # renamed by now, unless something failed
        self._clean(step)
        return target

    def steps(self) -> list[int]:
        """Return the steps saved, in order; a folder bears such a name only once it is whole."""
        return sorted({step for step, _ in self._folders()})

    def latest(self, groups: Collection[str] | None = None) -> Checkpoint | None:
        """Load the newest whole checkpoint; a damaged one is warned of and skipped."""
        return _first_whole((folder for _, folder in reversed(self._folders())), groups)

    def set_aside_after(self, step: int) -> None:
        """Let a run go on from an earlier step: those behind it are kept, under other names."""
        for later, folder in self._folders():
            if later <= step:
                continue
            aside = folder.with_name(f"abandoned-{folder.name}-{time.time_ns()}")
            folder.rename(aside)
            log.info("Set aside: the checkpoint %s is now %s", folder.name, aside.name)

    def adopt(self, other: Checkpoint) -> None:
        """Go on from another run's checkpoint alone: our own are kept, under other names."""
        place = CheckpointStore(self.folder / f"{_TEMPORARY}adopted-{os.getpid()}")
        try:
            whole = place.save(step=other.step, tensors=other.tensors, state=other.state)
            self.set_aside_after(-1)  # not before there is one to go on from
            (self.folder / BEST_FILE).unlink(missing_ok=True)
            os.rename(whole, self.folder / whole.name)
            _sync(self.folder)
        finally:
            shutil.rmtree(place.folder, ignore_errors=True)

    def best(self, groups: Collection[str] | None = None) -> Checkpoint | None:
        """Load the checkpoint last saved as the best."""
        folders = self._folders()[::-1]
        found = (f for best in self._best_steps() for s, f in folders if s == best)
        return _first_whole(found, groups)

    def _folders(self) -> list[tuple[int, Path]]:
        """Return steps and folders, oldest first; one being replaced comes before its successor."""
        paths = list(self.folder.iterdir()) if self.folder.is_dir() else []
        named = [(_FOLDER.fullmatch(path.name), path) for path in paths if path.is_dir()]
        found = sorted((int(match[1]), not match[2], path) for match, path in named if match)
        return [(step, path) for step, _, path in found]

    def _put_in_place(self, partial: Path, target: Path) -> None:
        if target.exists():  # a folder cannot be renamed over a full one: it steps aside,
            replaced = target.with_name(f"{target.name}.replaced")  # still where readers look
            if replaced.exists():
                self._discard(replaced)
            os.rename(target, replaced)
        os.rename(partial, target)
        _sync(self.folder)

    def _best_steps(self) -> list[int]:
        """Return the recorded steps that are there, the best first."""
        file = self.folder / BEST_FILE
        try:
            recorded = read_json(file)["steps"]
            return [step for step in recorded if step in self.steps()]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s cannot be read (%r): which checkpoint is best is lost", file, error)
            return []

    def _record_best(self, new: list[int], partial: Path) -> None:
        # Written before the checkpoint is renamed, so that the rename commits both: until then
        # the new step is not there, and the one recorded behind it is still the best.
        steps = list(dict.fromkeys(new + self._best_steps()))[:2]
        if new or (self.folder / BEST_FILE).exists():
            (partial / BEST_FILE).write_text(json.dumps({"steps": steps}), encoding="utf-8")
            _sync(partial / BEST_FILE)
            os.replace(partial / BEST_FILE, self.folder / BEST_FILE)

    def _clean(self, saved: int) -> None:
        """Remove what is not kept, and what killed writers left."""
        try:
            # Later steps stay: they are damaged, or someone went back on purpose.
            last = [step for step in self.steps() if step <= saved][-self.keep :]
            kept = last + self._best_steps()[:1]
            for step, folder in self._folders():
                successor = folder.with_suffix("")
                superseded = folder != successor and successor.exists()
                if superseded or (step < saved and step not in kept):
                    self._discard(folder)
            for leftover in self.folder.glob(f"{_TEMPORARY}*"):
                shutil.rmtree(leftover)
        except OSError as error:  # the new checkpoint is safe, so training need not stop
            log.warning("Old checkpoints could not be removed, the disk may fill up: %s", error)

    def _discard(self, folder: Path) -> None:
        # Renamed first: killed halfway, a removal must not leave half a folder named like a whole.
        condemned = self.folder / f"{_TEMPORARY}removed-{folder.name}-{os.getpid()}"
        shutil.rmtree(condemned, ignore_errors=True)
        os.rename(folder, condemned)
        shutil.rmtree(condemned)


def load_checkpoint(folder: Path, groups: Collection[str] | None = None) -> Checkpoint:
    """Load one checkpoint, every byte of it checked; nothing is ever unpickled.

    With `groups` only these files are read: who speaks has no use for the optimiser's.
    """
    file = Path(folder) / STATE_FILE
    try:
        record = _read_state(file)
        tensors = {}
        for group, facts in record["files"].items():
            if groups is not None and group not in groups:
                continue
            file = Path(folder) / f"{group}.safetensors"
            if (size := file.stat().st_size) != facts["size"]:
                raise ValueError(f"{size} bytes long instead of {facts['size']}")
            if _sha256(file) != facts["sha256"]:
                raise ValueError("its checksum does not match")
            tensors[group] = load_file(file)
        return Checkpoint(Path(folder), record["step"], tensors, record["state"])
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        reason = "it is missing" if isinstance(error, FileNotFoundError) else error
        remedy = "an earlier checkpoint, or a copy of this one"
        raise CheckpointError(f"{file} cannot be used: {reason}.", remedy) from error


def _first_whole(folders: Iterable[Path], groups: Collection[str] | None) -> Checkpoint | None:
    for folder in folders:
        try:
            return load_checkpoint(folder, groups)
        except CheckpointError as error:
            log.warning("Skipped a damaged checkpoint: %s", error.problem)
    return None


def _storable(group: str, named: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    assert group.isidentifier(), group  # it becomes a file name
    # safetensors writes a strided array's memory as it lies, that is wrongly, without a word.
    arrays = {name: np.asarray(array, order="C") for name, array in named.items()}
    if foreign := {name: a.dtype for name, a in arrays.items() if a.dtype.name not in _DTYPES}:
        raise TypeError(f"These tensors of {group!r} cannot be stored: {foreign}")
    return arrays


def _write_checkpoint(
    folder: Path, *, step: int, groups: dict[str, dict[str, np.ndarray]], state: Mapping[str, Any]
) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # of a killed process that had our number
    folder.mkdir()
    files = {}
    for group, arrays in groups.items():
        file = folder / f"{group}.safetensors"
        save_file(arrays, file)
        file.chmod(folder.stat().st_mode & 0o666)  # safetensors shuts out all but the owner
        _sync(file)
        files[group] = {"size": file.stat().st_size, "sha256": _sha256(file)}
    record = {"checksum": _BLANK.decode(), "format": _FORMAT, "step": step, "files": files}
    text = json.dumps({**record, "state": dict(state)}, indent=1).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    (folder / STATE_FILE).write_bytes(text.replace(_BLANK, digest, 1))
    _sync(folder / STATE_FILE)
    _sync(folder)


def _read_state(file: Path) -> dict[str, Any]:
    raw = read_bounded(file)
    # Over the bytes as they are: a bit flipped in 1e5 to give 1E5 is damage too.
    blanked = raw[: _DIGEST.start] + _BLANK + raw[_DIGEST.stop :]
    if hashlib.sha256(blanked).hexdigest().encode() != raw[_DIGEST]:
        raise ValueError("its checksum does not match, or it is another program's")
    record: dict[str, Any] = parse_json(raw)
    if record["format"] != _FORMAT:
        raise ValueError(f"it has format {record['format']}, this version reads {_FORMAT}")
    return record


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(file: Path) -> str:
    digest, block = hashlib.sha256(), memoryview(bytearray(1 << 20))
    with file.open("rb", buffering=0) as stream:
        while count := stream.readinto(block):
            digest.update(block[:count])
    return digest.hexdigest()


def _mb(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:.1f} MB"
