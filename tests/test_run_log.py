"""What a run tells about itself survives kills, resumes, odd numbers and failing disks."""

from __future__ import annotations

import io
import json
import logging
import math
import os
import signal
import struct
import subprocess
import sys
import textwrap
import types
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

from myxtts.errors import ConfigError, MyXTTSError
from myxtts.runs.events import EventReader, RunLog, read_events
from tests.support import ROOT, run_python


@pytest.fixture
def events_file(tmp_path) -> Path:
    return tmp_path / "run" / "events.jsonl"


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, logger="myxtts")
    return lambda: [record.getMessage() for record in caplog.records]


def metrics(events) -> list[tuple[int, float]]:
    return [(e["step"], e["values"]["loss"]) for e in events if e["kind"] == "metrics"]


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


# -- the event file --


def test_a_run_starts_tells_and_ends(events_file):
    with RunLog(events_file, tensorboard_dir=None, config={"lr": 1e-3}, run_name="first") as log:
        log.scalars(1, {"loss": 0.5})
        log.event("checkpoint", step=1, path=Path("checkpoints") / "1", kind="best")
        assert len(list(read_events(events_file))) == 3  # each is on disk at once
    started, number, checkpoint, ended = read_events(events_file)
    assert (started["kind"], started["step"]) == ("started", 0)
    assert started["values"]["config"] == {"lr": 1e-3}
    assert started["values"]["pid"] == os.getpid()
    assert started["values"]["run"] == "first"
    assert number["values"] == {"loss": 0.5}
    assert checkpoint["values"] == {"path": "checkpoints/1", "kind": "best"}
    assert ended["values"] == {"error": "", "lost_events": 0}
    assert started["time"] <= ended["time"]


def test_a_run_that_fails_says_why_it_ended(events_file):
    def fail() -> None:
        with RunLog(events_file, tensorboard_dir=None):
            raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        fail()
    assert [*read_events(events_file)][-1]["values"]["error"] == "ValueError: no luck"


@dataclass(frozen=True)
class Busy:
    share: float
    occupancy: tuple[int, ...]


def test_numpy_tensorflow_and_nested_values_become_plain(events_file):
    with RunLog(events_file, tensorboard_dir=None) as log:
        log.event(
            "odd",
            step=np.int64(7),
            numpy=np.float32(0.5),
            flag=np.bool_(True),
            tensor=tf.constant(1.5),
            half=tf.constant(2.5, tf.bfloat16),
            array=np.arange(3),
            stats={"train": Busy(0.5, (1, 2))},
            unicode="سلام",
            undecodable=b"\xff.wav".decode(errors="surrogateescape"),
        )
        log.scalars(8, {"loss": tf.constant(3.0)})
    odd = next(event for event in read_events(events_file) if event["kind"] == "odd")
    assert odd["step"] == 7
    assert odd["values"].pop("undecodable").startswith("\udcff")
    assert odd["values"] == {
        "numpy": 0.5,
        "flag": True,
        "tensor": 1.5,
        "half": 2.5,
        "array": [0, 1, 2],
        "stats": {"train": {"share": 0.5, "occupancy": [1, 2]}},
        "unicode": "سلام",
    }


def test_numbers_that_are_none_stay_valid_json_and_come_back(events_file):
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    with RunLog(events_file, tensorboard_dir=None) as log:
        log.scalars(1, {"loss": math.nan, "high": np.float32(np.inf), "low": -math.inf})
    lines = [json.loads(x, parse_constant=refuse) for x in events_file.read_text().splitlines()]
    assert lines[1]["values"] == {"loss": "NaN", "high": "Infinity", "low": "-Infinity"}
    values = [*read_events(events_file)][1]["values"]
    assert math.isnan(values["loss"])
    assert (values["high"], values["low"]) == (math.inf, -math.inf)


def test_half_a_last_line_is_skipped_and_the_next_event_is_not_lost(events_file):
    with RunLog(events_file, tensorboard_dir=None) as log:
        log.scalars(1, {"loss": 1.0})
        log.scalars(2, {"loss": 2.0})
    whole = events_file.read_bytes().splitlines(keepends=True)
    events_file.write_bytes(b"".join(whole[:2]) + whole[2][:25])
    assert [event["kind"] for event in read_events(events_file)] == ["started", "metrics"]
    with RunLog(events_file, tensorboard_dir=None, resumed_at=1) as log:
        log.scalars(2, {"loss": 2.5})
    kinds = [event["kind"] for event in read_events(events_file)]
    assert kinds == ["started", "metrics", "resumed", "metrics", "ended"]
    assert metrics(read_events(events_file)) == [(1, 1.0), (2, 2.5)]


def test_a_killed_writer_leaves_whole_lines(events_file):
    script = """
        import itertools, pathlib, sys
        from myxtts.runs.events import RunLog

        log = RunLog(pathlib.Path(sys.argv[1]), tensorboard_dir=None)
        for step in itertools.count():
            log.scalars(step, {"loss": 1.0})
            if step == 200:
                print("busy", flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(events_file)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"busy\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    *whole, rest = events_file.read_bytes().split(b"\n")
    assert len([json.loads(line) for line in whole]) > 200
    steps = [step for step, _ in metrics(read_events(events_file))]
    assert steps == list(range(len(steps)))
    assert len(rest) < len(whole[-1])


def test_a_reader_follows_a_growing_file(events_file):
    reader = EventReader(events_file)
    assert list(reader.poll()) == []  # not there yet
    log = RunLog(events_file, tensorboard_dir=None)
    assert [event["kind"] for event in reader.poll()] == ["started"]
    log.scalars(1, {"loss": 1.0})
    assert metrics(reader.poll()) == [(1, 1.0)]
    assert list(reader.poll()) == []
    with events_file.open("ab") as file:
        file.write(b'{"time": 1, "kind": "late", ')
        file.flush()
        assert list(reader.poll()) == []
        file.write(b'"step": null, "values": {}}\n')
    assert [event["kind"] for event in reader.poll()] == ["late"]
    log.close()
    log.close()
    assert [event["kind"] for event in reader.poll()] == ["ended"]


def test_the_effective_history_leaves_out_what_a_resume_undid(events_file):
    with RunLog(events_file, tensorboard_dir=None) as log:
        for step in range(1, 8):
            log.scalars(step, {"loss": float(step)})
        log.event("checkpoint", step=7)
    with RunLog(events_file, tensorboard_dir=None, resumed_at=5) as log:
        log.scalars(6, {"loss": 60.0})
    with RunLog(events_file, tensorboard_dir=None, resumed_at=2) as log:
        log.scalars(3, {"loss": 300.0})
    assert len(metrics(read_events(events_file))) == 9
    effective = list(read_events(events_file, effective=True))
    assert metrics(effective) == [(1, 1.0), (2, 2.0), (3, 300.0)]
    assert "checkpoint" not in [event["kind"] for event in effective]
    with RunLog(events_file, tensorboard_dir=None) as log:  # began anew: nothing was saved before
        log.scalars(1, {"loss": -1.0})
    assert metrics(read_events(events_file, effective=True)) == [(1, -1.0)]


def test_reading_events_loads_no_tensorflow():
    script = "import sys, myxtts.runs.events; sys.exit('tensorflow' in sys.modules)"
    assert run_python(["-c", script]).returncode == 0


# -- failures --


def test_a_full_disk_is_told_once_counted_and_survived(events_file, warnings, monkeypatch):
    log = RunLog(events_file, tensorboard_dir=None)
    real = log._file._file

    class FullDisk(io.RawIOBase):
        room = 20

        def write(self, line: bytes) -> int:
            if not self.room:
                raise OSError(28, "No space left on device")
            written, self.room = real.write(line[: self.room]), 0
            return written

    log._file._file = FullDisk()
    for step in range(1, 6):
        log.scalars(step, {"loss": 1.0})
    assert log.lost_events == 5
    assert len(warnings()) == 1
    assert "training goes on" in warnings()[0]
    log._file._file = real  # somebody made room
    log.scalars(6, {"loss": 6.0})
    log.close()
    assert metrics(read_events(events_file)) == [(6, 6.0)]
    assert [*read_events(events_file)][-1]["values"]["lost_events"] == 5
    assert warnings()[1:] == ["5 events of this run could not be written"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_disk_without_room_at_all_ends_nothing(warnings):
    with RunLog(Path("/dev/full"), tensorboard_dir=None) as log:
        log.scalars(1, {"loss": 1.0})
    assert log.lost_events == 3
    assert "No space left on device" in warnings()[0]


def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(MyXTTSError, match="log cannot be written"):
        RunLog(tmp_path / "taken" / "events.jsonl", tensorboard_dir=None)
    with pytest.raises(MyXTTSError, match="log cannot be written"):
        RunLog(tmp_path / "events.jsonl", tensorboard_dir=tmp_path / "taken" / "board")


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
