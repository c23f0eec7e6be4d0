"""Small training runs: clips that need no speech engine, settings that trace fast, processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import soundfile
import tensorflow as tf
import yaml

from myxtts.config.config import XTTSConfig
from myxtts.features.audio import NUM_MELS, SAMPLE_RATE
from myxtts.features.device_stage import make_device_stage
from myxtts.runs.checkpoints import Checkpoint, CheckpointStore
from myxtts.runs.events import read_events
from myxtts.training import setup as setup_module
from myxtts.training.trainer import XTTSTrainer
from tests.support import ROOT
from tests.warm import WarmProcess

WORDS = "one two three four five six seven".split()
MODEL = {
    "encoder_dim": 16,
    "encoder_blocks": 1,
    "decoder_dim": 16,
    "decoder_blocks": 1,
    "voice_dim": 8,
}
TOO_FEW_TO_VALIDATE = 9  # clips: no validation, and so no samples, which take as long as training


def make_clips(folder: Path, count: int, *, first: int = 0, seconds: float = 0.6) -> Path:
    """Hums of a few lengths and two speakers, in an LJSpeech-like folder that may exist already."""
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    listed = folder / "metadata.csv"
    rows = [] if listed.exists() else ["audio_file|text|speaker_name\n"]
    for i in range(first, first + count):
        t = np.arange(int((seconds + 0.1 * (i % 3)) * SAMPLE_RATE)) / SAMPLE_RATE
        wave = 0.2 * sum(np.sin(2 * np.pi * k * (100 + 3 * i) * t) / k for k in (1, 2, 3))
        soundfile.write(folder / "wavs" / f"c{i:03d}.wav", wave, SAMPLE_RATE)
        rows.append(f"wavs/c{i:03d}.wav|{WORDS[i % 7]} {WORDS[i * 3 % 7]}.|s{i % 2}\n")
    with listed.open("a", encoding="utf-8") as file:
        file.writelines(rows)
    return folder


def settings(run: Path, *, data: dict[str, Any] | None = None, **training: Any) -> dict[str, Any]:
    """A small model on the simulated devices that all tests of a process share."""
    return {
        "model": dict(MODEL),
        "data": {
            "tokenizer": "characters",
            "batch_size": 2,
            "max_buckets": 1,
            "num_workers": 2,
            "pipeline_buffer_size": 8,
            "model_start_delay": 0,
            "simulate": True,
            **(data or {}),
        },
        "training": {
            "optimization_level": "basic",
            "checkpoint_dir": str(run),
            "log_steps": 1,
            **training,
        },
    }


def in_process(run: Path, *, data: dict[str, Any] | None = None, **training: Any) -> XTTSConfig:
    """The same for a trainer in this process, whose devices are isolated."""
    devices = {"data_gpu": 0, "model_gpu": 1, "enable_memory_isolation": True}
    devices |= {"data_gpu_memory": 8192, "model_gpu_memory": 16384}
    return XTTSConfig(**settings(run, data={**devices, **(data or {})}, **training))


class SmallModel(keras.Model):
    """One layer that copies mel frames: a step of it takes a millisecond."""

    def __init__(self, width: int = NUM_MELS) -> None:
        super().__init__()
        self.copy = keras.layers.Dense(width, name="copy")
        self(tf.zeros([1, 2, NUM_MELS]))

    def call(self, mels: tf.Tensor) -> tf.Tensor:
        return self.copy(mels)[..., :NUM_MELS]

    def compute_losses(self, batch: Any, *, step: tf.Tensor, training: bool) -> dict[str, Any]:
        mels = batch["mels"] if isinstance(batch, dict) else batch[1]
        lengths = batch.get("mel_lengths") if isinstance(batch, dict) else batch[3]
        clips = tf.shape(mels)[0] if lengths is None else tf.math.count_nonzero(lengths)
        weight = tf.cast(clips, tf.float32)
        return {"loss": tf.reduce_mean(tf.abs(self(mels) - mels)), "weight": weight}


def mel_batches(count: int, *, rows: int = 2, frames: int = 12) -> list[dict[str, np.ndarray]]:
    """Batches for `SmallModel` that differ from each other."""
    random = np.random.default_rng(0)
    return [
        {"mels": random.normal(size=[rows, frames, NUM_MELS]).astype(np.float32)}
        for _ in range(count)
    ]


def tuple_batches(count: int, *, rows: int = 2, frames: int = 24) -> list[tuple[np.ndarray, ...]]:
    """Features as another program's data set gives them."""
    random = np.random.default_rng(0)
    return [
        (
            random.integers(4, 20, size=[rows, 8]).astype(np.int32),
            random.normal(-5, 1, size=[rows, frames, NUM_MELS]).astype(np.float32),
            np.full([rows], 8, np.int32),
            np.full([rows], frames, np.int32),
        )
        for _ in range(count)
    ]


class Trainers:
    """Makes trainers of the small model; one run folder has one at a time."""

    def __init__(self) -> None:
        self._made: dict[Path, XTTSTrainer] = {}

    def __call__(
        self,
        run: Path,
        *,
        model: Any = SmallModel,
        resume_checkpoint: Path | None = None,
        **values: Any,
    ) -> XTTSTrainer:
        if run in self._made:
            self._made[run].close()
        self._made[run] = XTTSTrainer(in_process(run, **values), model, resume_checkpoint)
        return self._made[run]

    def close(self) -> None:
        for trainer in self._made.values():
            trainer.close()


def weights(trainer: XTTSTrainer) -> np.ndarray[Any, Any]:
    return np.concatenate([np.ravel(v) for v in trainer.model.trainable_variables])


_STAGE = make_device_stage()


def share_device_stage(monkeypatch: Any) -> None:
    """One data stage for all trainers of a module: tracing it takes seconds, each time."""
    monkeypatch.setattr(setup_module, "make_device_stage", lambda *_, **__: _STAGE)


# -- runs in processes of their own --


def write_settings(path: Path, values: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def start(arguments: list[str], log_file: Path, **environment: str) -> WarmProcess:
    """Start Python from the checkout's root, its output behind what the file holds already."""
    env = {**os.environ, **environment}
    return WarmProcess(arguments, stdout=log_file, stderr=log_file, cwd=ROOT, env=env)


def wait_for(condition: Callable[[], Any], process: WarmProcess, *, seconds: float = 300) -> Any:
    """Poll until it is true, or the process is over."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if process.poll() is not None:
            return condition()
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)
    return result


def last_step(run: Path) -> int:
    """The newest step in the event file."""
    told = (event for event in events(run, "metrics") if "loss" in event["values"])
    return max((event["step"] for event in told), default=0)


def metrics(run: Path) -> list[tuple[int, dict[str, float]]]:
    """Training losses by step, without what a resume undid, nor what depends on the clock."""
    kept: list[tuple[int, dict[str, float]]] = []
    for event in read_events(run / "events.jsonl"):
        if event["kind"] == "resumed":
            kept = [old for old in kept if old[0] <= event["step"]]
        if event["kind"] == "metrics" and "loss" in event["values"]:
            values = {k: v for k, v in event["values"].items() if not k.endswith("per_second")}
            kept.append((event["step"], values))
    return kept


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_events(run / "events.jsonl") if event["kind"] == kind]


def latest(run: Path) -> Checkpoint:
    """The newest whole checkpoint."""
    checkpoint = CheckpointStore(run / "checkpoints").latest()
    assert checkpoint is not None
    return checkpoint


# The command line as it is, with the small model in place of ours: it starts in half the time.
SMALL_TRAINING = """
import sys
from tests.runs import SmallModel
import myxtts.training.trainer as trainer

class XTTS(SmallModel):
    def __init__(self, config, **training):
        super().__init__()

trainer.XTTS = XTTS
{code}
from myxtts.cli.app import main
main(["train", *sys.argv[1:]])
"""


def start_small(
    folder: Path, data: Path, *flags: str, code: str = "", **training: Any
) -> tuple[WarmProcess, Path, Path]:
    """Start `myxtts train` with the small model; the process, its run folder and its output."""
    folder.mkdir(exist_ok=True)
    run, log_file = folder / "run", folder / "output.txt"
    values = settings(run, data={"train_data": str(data)}, **training)
    config = write_settings(folder / "config.yaml", values)
    arguments = ["-c", SMALL_TRAINING.format(code=code), "--config", str(config), *flags]
    return start(arguments, log_file), run, log_file
