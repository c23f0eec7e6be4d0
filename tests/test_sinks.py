"""TensorBoard and Weights & Biases show what a run tells, and neither can end it."""

from __future__ import annotations

import io
import math
import struct
import sys
import textwrap
import types
import zlib
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

from myxtts.errors import ConfigError, MyXTTSError
from myxtts.runs.events import RunLog, read_events
from tests.support import run_python
from tests.test_run_log import metrics


def small_png() -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", 3, 2, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0\1\2\3" * 2)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


# -- TensorBoard, read with its own readers --


def read_board(folder: Path) -> event_accumulator.EventAccumulator:
    return event_accumulator.EventAccumulator(str(folder)).Reload()


def test_tensorboard_can_read_a_point_at_once(events_file, tmp_path):
    with RunLog(events_file, tensorboard_dir=tmp_path / "board") as log:
        log.scalars(3, {"loss": 0.5, "bad": math.nan})
        (file,) = (tmp_path / "board").iterdir()
        version, _, point = LegacyEventFileLoader(str(file)).Load()
    assert version.file_version == "brain.Event:2"
    loss, bad = point.summary.value
    assert (point.step, loss.tag, loss.simple_value) == (3, "loss", 0.5)
    assert math.isnan(bad.simple_value)


def test_writing_for_tensorboard_needs_no_tensorflow_and_no_thread(tmp_path):
    script = """
        import pathlib, sys, threading
        from myxtts.runs.events import RunLog

        folder = pathlib.Path(sys.argv[1])
        with RunLog(folder / "events.jsonl", tensorboard_dir=folder / "board") as log:
            log.scalars(1, {"loss": 1.0})
            assert threading.active_count() == 1
        assert "tensorflow" not in sys.modules
    """
    result = run_python(["-c", textwrap.dedent(script), str(tmp_path)])
    assert result.returncode == 0, result.stderr
    assert read_board(tmp_path / "board").Scalars("loss")[0].value == 1.0


def test_tensorboard_goes_on_when_a_full_disk_has_room_again(tmp_path):
    script = """
        import logging, pathlib, resource, sys
        from myxtts.runs.events import RunLog

        folder = pathlib.Path(sys.argv[1])
        log = RunLog(folder / "events.jsonl", tensorboard_dir=folder / "board")
        (file,) = (folder / "board").iterdir()
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 60, unlimited[1]))
        for step in range(1, 9):
            log.scalars(step, {"loss": 1.0})
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        log.scalars(9, {"loss": 9.0})
        log.close()
    """
    result = run_python(["-c", textwrap.dedent(script), str(tmp_path)])
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("TensorBoard: cannot write") == 1
    assert read_board(tmp_path / "board").Scalars("loss")[-1].value == 9.0


def test_tensorboard_shows_curves_pictures_and_sound(events_file, tmp_path):
    wave = np.sin(np.arange(800) / 10, dtype=np.float32)
    with RunLog(events_file, tensorboard_dir=tmp_path / "board") as log:
        log.scalars(1, {"loss": 0.5, "train/rate": 3})
        log.scalars(2, {"loss": 0.25})
        log.picture(2, "alignment", small_png())
        log.audio(2, "sample", tf.constant(wave[None]), 8000)
    board = read_board(tmp_path / "board")
    assert [(x.step, x.value) for x in board.Scalars("loss")] == [(1, 0.5), (2, 0.25)]
    assert board.Scalars("train/rate")[0].value == 3
    (picture,) = board.Images("alignment")
    assert (picture.step, picture.width, picture.height) == (2, 3, 2)
    assert picture.encoded_image_string == small_png()
    (sound,) = board.Audio("sample")
    assert (sound.step, sound.sample_rate, sound.length_frames) == (2, 8000, 800)
    heard, rate = soundfile.read(io.BytesIO(sound.encoded_audio_string))
    assert rate == 8000
    np.testing.assert_allclose(heard, wave, atol=1e-4)


def test_a_resume_drops_stale_points_from_tensorboard(events_file, tmp_path):
    board_dir = tmp_path / "board"
    with RunLog(events_file, tensorboard_dir=board_dir) as log:
        for step in range(1, 10):
            log.scalars(step, {"loss": float(step)})
        log.scalars(9, {"rare": 9.0})
    with RunLog(events_file, tensorboard_dir=board_dir, resumed_at=5) as log:
        log.scalars(6, {"loss": 60.0})
        log.scalars(7, {"loss": 70.0})
    served = plugin_event_accumulator.EventAccumulator(str(board_dir)).Reload()  # slow loader
    assert [x.step for x in served.Tensors("loss")] == [1, 2, 3, 4, 5, 6, 7]
    board = read_board(board_dir)
    assert [x.step for x in board.Scalars("loss")] == [1, 2, 3, 4, 5, 6, 7]
    assert [x.value for x in board.Scalars("loss")][-2:] == [60.0, 70.0]
    assert board.Scalars("rare") == []  # also of curves that have no new point yet


def test_a_failing_tensorboard_is_told_once_and_the_events_go_on(events_file, tmp_path, warnings):
    with RunLog(events_file, tensorboard_dir=tmp_path / "board") as log:
        log._sinks[0]._writer.close()
        for step in range(1, 4):
            log.scalars(step, {"loss": 1.0})
    assert len(metrics(read_events(events_file))) == 3
    assert len([line for line in warnings() if line.startswith("TensorBoard: cannot")]) == 1
    assert log.lost_events == 0


# -- Weights & Biases --


class FakeWandB(types.ModuleType):
    """The few names of wandb that are used, and what was sent to them."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.inits: list[dict] = []
        self.sent: list[tuple[int, dict]] = []
        self.outage: Exception | None = None
        self.step = 0
        self.exit_code: int | None = None

    def init(self, **arguments):
        if self.outage is not None:
            raise self.outage
        self.inits.append(arguments)
        self.id = arguments["id"] or "abc123"
        return self

    def log(self, values: dict, *, step: int) -> None:
        if self.outage is not None:
            raise self.outage
        assert step >= self.step
        self.step = step
        self.sent.append((step, values))

    def finish(self, *, exit_code: int) -> None:
        self.exit_code = exit_code

    def Settings(self, **settings):
        return settings

    def Image(self, image):
        return ("image", image.size)

    def Audio(self, samples, *, sample_rate: int):
        return ("audio", len(samples), sample_rate)


@pytest.fixture
def wandb(monkeypatch) -> FakeWandB:
    fake = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


def test_wandb_gets_config_numbers_pictures_and_sound(events_file, wandb):
    pytest.importorskip("PIL")
    config = {"training": {"lr": np.float32(0.5), "dir": Path("runs")}}
    with RunLog(
        events_file, tensorboard_dir=None, wandb=True, config=config, run_name="demo"
    ) as log:
        log.scalars(1, {"loss": tf.constant(0.5)})
        log.picture(1, "mel", small_png())
        log.audio(1, "sample", np.zeros(10), 8000)
    assert wandb.inits[0]["config"] == {"training": {"lr": 0.5, "dir": "runs"}}
    assert wandb.inits[0]["name"] == "demo"
    assert wandb.sent == [
        (1, {"loss": 0.5}),
        (1, {"mel": ("image", (3, 2))}),
        (1, {"sample": ("audio", 10, 8000)}),
    ]
    assert wandb.exit_code == 0


def test_a_resumed_run_goes_on_in_the_same_wandb_run(events_file, wandb):
    with RunLog(events_file, tensorboard_dir=None, wandb=True) as log:
        log.scalars(1, {"loss": 1.0})
        log.scalars(8, {"loss": 8.0})
    with RunLog(events_file, tensorboard_dir=None, wandb=True, resumed_at=5) as log:
        log.scalars(6, {"loss": 6.0})  # W&B is past it already
        log.scalars(9, {"loss": 9.0})
    assert [arguments["id"] for arguments in wandb.inits] == [None, "abc123"]
    assert wandb.inits[1]["resume"] == "allow"
    assert [step for step, _ in wandb.sent] == [1, 8, 9]


def test_wandb_asked_for_but_not_installed_is_an_error_before_training(events_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match="not installed") as caught:
        RunLog(events_file, tensorboard_dir=None, wandb=True)
    assert "pip install wandb" in caught.value.remedy
    assert "--wandb" in caught.value.remedy
    assert not events_file.exists()


def test_wandb_that_cannot_start_names_the_way_out(events_file, wandb):
    wandb.outage = RuntimeError("api_key not configured (no-tty)")
    with pytest.raises(MyXTTSError, match="api_key not configured") as caught:
        RunLog(events_file, tensorboard_dir=None, wandb=True)
    assert "WANDB_MODE=offline" in caught.value.remedy


def test_a_wandb_outage_does_not_end_training(events_file, wandb, warnings):
    with RunLog(events_file, tensorboard_dir=None, wandb=True) as log:
        wandb.outage = ConnectionError("network is down")
        for step in range(1, 4):
            log.scalars(step, {"loss": 1.0})
        wandb.outage = None
        log.scalars(4, {"loss": 4.0})
    assert warnings() == ["W&B: cannot write (network is down); training goes on"]
    assert wandb.sent == [(4, {"loss": 4.0})]
    assert len(metrics(read_events(events_file))) == 4
