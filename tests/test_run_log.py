"""What a run tells about itself survives kills, resumes, odd numbers and failing disks."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from myxtts.errors import MyXTTSError
from myxtts.runs.events import EventReader, RunLog, read_events
from myxtts.runs.history import RunHistory
from tests.support import ROOT, run_python


def metrics(events) -> list[tuple[int, float]]:
    return [(e["step"], e["values"]["loss"]) for e in events if e["kind"] == "metrics"]


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


def test_the_history_leaves_out_what_a_resume_undid(events_file):
    def losses():
        history = RunHistory()
        for event in read_events(events_file):
            history.add(event)
        return history.losses

    with RunLog(events_file, tensorboard_dir=None) as log:
        for step in range(1, 8):
            log.scalars(step, {"loss": float(step)})
    with RunLog(events_file, tensorboard_dir=None, resumed_at=5) as log:
        log.scalars(6, {"loss": 60.0})
    with RunLog(events_file, tensorboard_dir=None, resumed_at=2) as log:
        log.scalars(3, {"loss": 300.0})
    assert len(metrics(read_events(events_file))) == 9
    assert losses() == [(1, 1.0), (2, 2.0), (3, 300.0)]
    with RunLog(events_file, tensorboard_dir=None) as log:  # began anew: nothing was saved before
        log.scalars(1, {"loss": -1.0})
    assert losses() == [(1, -1.0)]


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
