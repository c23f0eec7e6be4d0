"""The published helpers, and the trainer's published names."""

from __future__ import annotations

import logging
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from myxtts.training.memory_isolated_trainer import MemoryIsolatedDualGPUTrainer
from myxtts.training.tracing import TraceWatch, planned_shape
from myxtts.utils import commons
from tests import runs
from tests.support import run_warm

TRAIN = """
    import sys
    from pathlib import Path
    from tests import runs
    from myxtts.training.trainer import XTTSTrainer
    {before}
    for _ in range(2):
        config = runs.XTTSConfig(**runs.settings(Path(sys.argv[1])))
        with XTTSTrainer(config, runs.SmallModel) as trainer:
            trainer.train(runs.mel_batches(2), epochs=1)
"""


def shown(tmp_path, before: str = "") -> str:
    script = textwrap.dedent(TRAIN.format(before=before))
    result = run_warm(["-c", script, str(tmp_path / "run")])
    assert result.returncode == 0, result.stderr
    return result.stderr


def test_a_program_without_a_log_is_told_once_how_to_see_it(tmp_path):
    said = shown(tmp_path)
    assert said.count("from myxtts.utils.commons import setup_logging; setup_logging()") == 1
    assert "Model training starting now" not in said


@pytest.mark.parametrize(
    "before",
    [
        "from myxtts.utils.commons import setup_logging; setup_logging()",
        "import logging; logging.basicConfig(level='INFO', format='%(message)s')",
    ],
)
def test_a_program_with_a_log_sees_every_line_once(tmp_path, before):
    said = shown(tmp_path, before).splitlines()
    assert said.count("Model training starting now (simulated)") == 1  # then it is finished
    assert not [line for line in said if "setup_logging" in line]


def test_setting_logging_up_twice_shows_lines_once(capsys):
    for _ in range(2):
        logger = commons.setup_logging("WARNING")
    logger.info("too quiet")
    logging.getLogger("myxtts.anything").warning("look")
    assert capsys.readouterr().err == "WARNING: look\n"


def test_without_a_gpu_tensors_stay_where_they_are_and_it_is_said_once(caplog, monkeypatch):
    monkeypatch.setattr(commons, "_said", set())
    with tf.device("/CPU:1"):
        nest = {"a": tf.ones([2]), "b": (np.zeros(3), tf.constant("text"))}
    for _ in range(2):
        placed = commons.ensure_gpu_placement(nest)
    assert placed["a"] is nest["a"]
    assert placed["b"][0] is nest["b"][0]
    assert caplog.text.count("tensors stay on the CPU") == 1


@pytest.mark.gpu
def test_with_a_gpu_tensors_are_put_on_the_first():
    placed = commons.ensure_gpu_placement({"a": np.ones([2], np.float32), "b": tf.ones([2])})
    for tensor in placed.values():
        assert tensor.device.endswith("GPU:0")


# -- the trainer --


@pytest.fixture
def isolated(tmp_path):
    config = runs.in_process(tmp_path / "run")
    with MemoryIsolatedDualGPUTrainer(config, 0, 1, simulate=True) as trainer:
        yield trainer


def test_a_trainer_tells_its_logger_its_device_and_that_nothing_else_distributes(isolated):
    assert isolated.logger is logging.getLogger("myxtts.training.trainer")
    assert isolated.device == isolated.model_device == "/CPU:1"
    assert isolated.strategy is None


def test_a_step_takes_the_four_parts_of_features_as_published_or_one_batch(isolated):
    parts = runs.tuple_batches(1)[0]
    first = isolated._train_step_impl(*parts)
    names = ("text_sequences", "mel_spectrograms", "text_lengths", "mel_lengths")
    second = isolated._train_step_impl(**dict(zip(names, parts, strict=True)))
    third = isolated._train_step_impl(isolated._prepare(parts))
    losses = [float(each["loss"]) for each in (first, second, third)]
    assert losses[0] > losses[1] > losses[2] > 0  # each was an update on the same clips
    assert isolated.step.updates == 3
    assert first["loss"].device.endswith("CPU:1")


# -- which shape is compiled --


def batch(frames: int) -> dict[str, np.ndarray]:
    return {"mels": np.zeros([2, frames, 80]), "tokens": np.zeros([2, 16])}


def test_each_planned_shape_is_announced_once_with_its_number_and_time(caplog):
    caplog.set_level(logging.INFO, "myxtts")
    watch = TraceWatch({planned_shape(2, frames, 16) for frames in (64, 128, 256)})
    for traces, frames in enumerate((128, 64, 128, 64, 256), start=1):
        watch.announce(f"2x{frames}", batch(frames))
        watch.check(traces, batch(frames))
    lines = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert lines[::2] == [
        "Compiling shape 1 of 3 (2 x 128 frames x 16 tokens) …",
        "Compiling shape 2 of 3 (2 x 64 frames x 16 tokens) …",
        "Compiling shape 3 of 3 (2 x 256 frames x 16 tokens) …",
    ]
    assert lines[1::2] == ["Compiled in 0.0 s"] * 3


def test_shapes_without_end_are_not_announced_without_end(caplog):
    caplog.set_level(logging.INFO, "myxtts")
    watch = TraceWatch()
    for frames in range(1, 100):
        watch.announce(f"2x{frames}", batch(frames))
        watch.check(frames, batch(frames))
    assert caplog.text.count("Compiling shape") == 5


def test_a_run_says_that_it_compiles(tmp_path, caplog):
    caplog.set_level(logging.INFO, "myxtts")
    trainers = runs.Trainers()
    trainers(tmp_path / "run").train(runs.mel_batches(3), epochs=1)
    trainers.close()
    lines = [record.getMessage() for record in caplog.records]
    started = lines.index("Model training starting now (simulated)")
    assert lines[started + 1] == "Compiling shape 1 (2x12x80) …"
    assert lines[started + 2].startswith("Compiled in ")
    assert caplog.text.count("Compiling") == 1
