"""The launcher: what replicas say is joined, and they end together, however one of them ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from myxtts.replicas.launcher import Launcher, own_command
from tests.support import ROOT

RANK = """
import json, os, signal, sys, time
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
world = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
started = int(os.environ["MYXTTS_LAUNCHED"])
"""
# A replica that stops in good order when asked to, as the trainer does.
STOPS = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\ntime.sleep(60)\n"


def launcher(code, replicas=2):
    return Launcher([sys.executable, "-c", RANK + code], replicas=replicas)


def test_every_line_bears_its_number_and_each_knows_its_place(capfd):
    code = "print('out of', world)\nprint('no newline', end='', file=sys.stderr)\n"
    assert launcher(code, replicas=3).run() == 0
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == [f"[{rank}] out of 3" for rank in range(3)]
    assert sorted(err.splitlines()) == [f"[{rank}] no newline" for rank in range(3)]


def test_one_that_dies_is_named_and_the_others_are_ended(caplog, monkeypatch):
    monkeypatch.setattr("myxtts.replicas.launcher.GRACE_S", 0.3)
    began = time.monotonic()
    code = f"if rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n{STOPS}"
    assert launcher(code).run() == 128 + signal.SIGKILL
    assert time.monotonic() - began < 10
    assert "Replica 1 (process " in caplog.text
    assert "was ended by SIGKILL; the others end too" in caplog.text


def test_who_only_lost_sight_of_another_is_not_blamed():
    # 75 is how a replica ends that lost another; the other's own code is the reason.
    code = "time.sleep(0.3 * rank)\nsys.exit(75 if rank == 0 else 7)\n"
    assert launcher(code).run() == 7


@pytest.mark.parametrize(
    ("code", "restarts", "runs"),
    [
        ("sys.exit(7)", 2, 3),
        ("sys.exit(7 if started < 1 else 0)", 2, 2),
        ("sys.exit(2)", 2, 1),  # a wrong setting stays wrong
        ("sys.exit(143)", 2, 1),  # asked to stop
        ("sys.exit(7)", 0, 1),
    ],
)
def test_all_are_started_again_when_one_is_lost_and_only_then(code, restarts, runs, tmp_path):
    note = f"open({str(tmp_path / 'starts')!r}, 'a').write(f'{{rank}}')\n"
    launcher(note + code).run(max_restarts=restarts)
    starts = (tmp_path / "starts").read_text()
    assert sorted(starts) == sorted("01" * runs)


LAUNCH = """
import sys
from myxtts.replicas.launcher import Launcher
sys.exit(Launcher([sys.executable, "-c", sys.argv[1]], replicas=2).run(max_restarts=3))
"""


def start(code):
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, RANK + "print(os.getpid(), flush=True)\n" + code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    pids = [int(process.stdout.readline().split()[1]) for _ in range(2)]
    return process, pids


def gone(pids):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        alive = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
        if not alive:
            return True
        time.sleep(0.05)
    return False


def test_a_signal_goes_to_all_of_them_and_none_is_started_again():
    process, pids = start(STOPS)
    time.sleep(0.2)  # their handlers are set by then
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 128 + signal.SIGTERM
    assert gone(pids)


def test_a_second_ctrl_c_does_not_wait():
    process, pids = start("signal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)\n")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 128 + signal.SIGINT
    assert gone(pids)


def test_replicas_whose_launcher_was_killed_stop_by_themselves():
    code = "from myxtts.replicas.launcher import stop_with_launcher\nstop_with_launcher()\n" + STOPS
    process, pids = start(code)
    time.sleep(0.5)
    process.kill()
    process.wait(5)
    assert gone(pids)
    assert threading.active_count() < 50


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["train_main.py", "--epochs", "3"], ["train_main.py", "--epochs", "3"]),
        (["/env/bin/myxtts", "train"], ["/env/bin/myxtts", "train"]),
        (["/site/myxtts/__main__.py", "train", "-x"], ["-m", "myxtts", "train", "-x"]),
        (["-c", "--epochs", "3"], ["-c", "import x", "--epochs", "3"]),
    ],
)
def test_a_replica_runs_the_program_that_started_it(monkeypatch, argv, command):
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "import x", *argv[1:]])
    assert own_command() == [sys.executable, *command]
