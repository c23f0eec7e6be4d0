"""Runs of several replicas of the small model: processes that find each other by TF_CONFIG."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.replicas.cluster import tf_config
from myxtts.replicas.meeting import free_ports
from tests import runs
from tests.warm import WarmProcess

CLIPS = runs.TOO_FEW_TO_VALIDATE  # five batches of two, the last not full: no even number
# In the place of the data device's work, which takes seconds to trace in every process.
QUICK_STAGE = """
import tensorflow as tf
from myxtts.training import setup

@tf.function
def stage(batch):
    waves = tf.cast(batch["waves"][:, :960], tf.float32) / 32768.0
    spoken = tf.cast(batch["wave_lengths"] > 0, tf.int32)
    kept = {name: batch[name] for name in ("tokens", "token_lengths", "seed")}
    return {"mels": tf.reshape(waves, [-1, 12, 80]), "mel_lengths": 12 * spoken, **kept}

setup.make_device_stage = lambda *_, **__: stage
"""


@dataclass
class Replicas:
    """The processes of a run, what each says, and the folder that replica 0 writes."""

    run: Path
    processes: list[WarmProcess] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)

    def wait(self, timeout: float = 900) -> list[int]:
        """Their exit codes."""
        return [process.wait(timeout) for process in self.processes]

    def said(self, rank: int) -> str:
        return self.logs[rank].read_text(encoding="utf-8") if self.logs[rank].exists() else ""

    def wait_for_step(self, step: int) -> None:
        runs.wait_for(lambda: runs.last_step(self.run) >= step, self.processes[0])
        assert runs.last_step(self.run) >= step, self.everything()

    def everything(self) -> str:
        return "\n".join(f"--- {rank}\n{self.said(rank)}" for rank in range(len(self.logs)))

    def end(self) -> None:
        for process in self.processes:
            process.kill()


def start(
    folder: Path,
    data: Path,
    *flags: str,
    world: int = 2,
    code: str = "",
    own: dict[int, dict[str, Any]] | None = None,
    real: bool = False,
    devices: dict[str, Any] | None = None,
    **training: Any,
) -> Replicas:
    """Start them; `own` are settings of single ranks: {1: {"learning_rate": 0.1}}.

    `real` takes our own model and features, not the small and quick ones.
    """
    folder.mkdir(exist_ok=True)
    found = Replicas(folder / "run", addresses=[f"127.0.0.1:{p}" for p in free_ports(world)])
    for rank in range(world):
        mine = dict((own or {}).get(rank, {}))
        given = {"train_data": str(mine.pop("train_data", data)), **(devices or {})}
        values = runs.settings(found.run, data=given, **{"seed": 3, **training, **mine})
        config = runs.write_settings(folder / f"config{rank}.yaml", values)
        log_file = folder / f"output{rank}.txt"
        small = ["-c", runs.SMALL_TRAINING.format(code=QUICK_STAGE + code)]
        program = ["train_main.py"] if real else small
        told = {"TF_CONFIG": tf_config(found.addresses, rank)} if world > 1 else {}
        words = ["--config", str(config), *flags]
        found.processes.append(runs.start([*program, *words], log_file, **told))
        found.logs.append(log_file)
    return found


def finish(*arguments: Any, **values: Any) -> Replicas:
    """Start them and wait until all have ended well."""
    found = start(*arguments, **values)
    try:
        assert found.wait() == [0] * len(found.processes), found.everything()
    finally:
        found.end()
    return found


def tensors(run: Path) -> dict[str, np.ndarray]:
    saved = runs.latest(run)
    return {f"{g}/{name}": a for g, arrays in saved.tensors.items() for name, a in arrays.items()}


def assert_same(ours: Path, theirs: Path) -> None:
    """Bit for bit, and at the same place."""
    a, b = tensors(ours), tensors(theirs)
    assert a.keys() == b.keys()
    for name, value in b.items():
        assert a[name].tobytes() == value.tobytes(), name
    first, second = runs.latest(ours).state, runs.latest(theirs).state
    for name in ("step", "epoch", "position", "fingerprint"):
        assert first[name] == second[name], name


def assert_near(ours: Path, theirs: Path, *, tolerance: float = 1e-5) -> None:
    """Weights and averages to this share of the largest of each tensor."""
    a, b = tensors(ours), tensors(theirs)
    for name, value in b.items():
        if name.startswith(("model/", "ema/")):
            off = np.abs(a[name].astype(float) - value).max()
            # These move every score of a softmax alike, so they have no gradient but rounding.
            floor = 1e-6 if name.endswith(("key/bias", "latent_score/bias")) else 0.0
            assert off <= max(floor, tolerance * np.abs(value).max()), (name, off)
