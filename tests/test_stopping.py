"""Signals ask a run to stop and a second Ctrl-C insists; a loss that no longer falls ends it."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from myxtts.training.stopping import STOP_SIGNALS, EarlyStopping, StopRequest
from tests.support import ROOT

LOOP = """
    import sys, time
    from myxtts.training.stopping import StopRequest

    with StopRequest() as stop:
        print("ready", flush=True)
        while not stop:
            time.sleep(0.01)
        print("stopping", stop.signal_name, flush=True)
        {after}
    sys.exit(128 + stop.signal_number)
"""
IGNORE_HANGUP = "import signal, sys, time; signal.signal(signal.SIGHUP, signal.SIG_IGN)"


@pytest.fixture
def start():
    """Starts a script that says it is ready; none outlives its test."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_lets_the_step_end_and_gives_128_plus_n(start, number, code):
    process = start(LOOP.format(after="time.sleep(0.1); print('saved', flush=True)"))
    process.send_signal(number)
    output, errors = process.communicate(timeout=10)
    assert output == f"stopping {signal.Signals(number).name}\nsaved\n"
    assert process.returncode == code
    assert errors == ""


def test_a_second_sigterm_does_not_disturb_the_saving(start):
    process = start(LOOP.format(after="time.sleep(0.5); print('saved', flush=True)"))
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "stopping SIGTERM\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=10)[0] == "saved\n"
    assert process.returncode == 143


def test_a_second_ctrl_c_leaves_at_once(start):
    process = start(LOOP.format(after="time.sleep(60)"))
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopping SIGINT\n"
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == -signal.SIGINT  # died of it: a shell says 130
    assert time.monotonic() - asked < 2
    assert process.communicate()[1] == ""


def test_a_second_ctrl_c_leaves_at_once_also_from_a_long_native_call(start):
    # As compiling a step does, this call goes on at a signal and lets no Python handler run.
    process = start("""
        import hashlib
        from myxtts.training.stopping import StopRequest

        with StopRequest():
            print("ready", flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)
    """)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130
    assert time.monotonic() - asked < 2


def test_what_is_to_be_done_meanwhile_is_done_during_a_long_native_call(start):
    process = start("""
        import hashlib, time
        from myxtts.training.stopping import StopRequest

        tries = []
        def save():
            tries.append(1)
            print("saved" if len(tries) == 3 else "not yet", flush=True)
            return len(tries) == 3

        with StopRequest(meanwhile=save):
            print("ready", flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)
    """)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    asked = time.monotonic()
    assert [process.stdout.readline() for _ in range(3)] == ["not yet\n", "not yet\n", "saved\n"]
    assert 0.9 < time.monotonic() - asked < 4
    assert process.poll() is None


def test_nothing_is_done_meanwhile_where_the_loop_ends_by_itself():
    called = []
    with StopRequest(meanwhile=lambda: bool(called.append(1))) as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.signal_name == "SIGHUP"
    assert not called
    assert not [t.name for t in threading.enumerate() if t.name.startswith("stop-request")]


def test_under_nohup_a_hangup_stops_nothing(start):
    script = LOOP.format(after="pass").replace("import sys, time", IGNORE_HANGUP)
    process = start(script)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=10)[0] == "stopping SIGTERM\n"


def test_what_was_there_before_is_put_back():
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    with StopRequest() as stop:
        assert not stop
        assert stop.signal_name == ""
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)  # the first one counts
        assert stop.signal_number == signal.SIGTERM
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before
    assert signal.set_wakeup_fd(-1) == -1
    assert "stop-request" not in [thread.name for thread in threading.enumerate()]


def test_outside_the_main_thread_it_does_nothing_and_says_so(caplog):
    caplog.set_level(logging.DEBUG, logger="myxtts.training.stopping")
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work() -> None:
        with StopRequest() as stop:
            seen.append((bool(stop), signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, before)]
    assert "Not the main thread" in caplog.text


def test_patience_is_counted_in_validations_since_the_last_gain():
    stopping = EarlyStopping(2)
    assert [stopping.update(loss, step=i) for i, loss in enumerate([3.0, 2.0, 2.5])] == [
        True,
        True,
        False,
    ]
    assert not stopping.should_stop
    assert not stopping.update(2.0, step=3)  # as good is not better
    assert stopping.should_stop
    assert (stopping.best, stopping.best_step) == (2.0, 1)


def test_gains_below_min_delta_are_best_but_use_up_patience_unless_they_add_up():
    stopping = EarlyStopping(3, min_delta=0.1)
    assert stopping.update(1.0)
    assert stopping.update(0.96)
    assert stopping.validations_without_gain == 1
    assert stopping.update(0.92)
    assert stopping.validations_without_gain == 2
    assert stopping.update(0.88)  # 0.12 below the 1.0 that counted last
    assert stopping.validations_without_gain == 0


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_never_best(loss):
    stopping = EarlyStopping(2)
    assert not stopping.update(loss)
    assert stopping.update(1.0)
    assert not stopping.update(loss)
    assert stopping.best == 1.0
    stopping.update(loss)
    assert stopping.should_stop


def test_without_patience_it_never_stops():
    stopping = EarlyStopping()
    assert [stopping.update(1.0) for _ in range(100)].count(True) == 1
    assert not stopping.should_stop


def test_a_resumed_run_decides_as_the_uninterrupted_one():
    losses = [2.0, 1.9, math.nan, 1.95, 1.5, 1.49, 1.48, 1.6, 1.7, 1.8]
    whole = EarlyStopping(4, min_delta=0.05)
    expected = [(whole.update(x, step=i), whole.should_stop) for i, x in enumerate(losses)]
    for cut in range(len(losses)):
        first, second = EarlyStopping(4, min_delta=0.05), EarlyStopping(4, min_delta=0.05)
        got = [(first.update(x, step=i), first.should_stop) for i, x in enumerate(losses[:cut])]
        state = json.dumps(first.state_dict(), allow_nan=False)
        second.load_state_dict(json.loads(state))
        for i, x in enumerate(losses[cut:], start=cut):
            got.append((second.update(x, step=i), second.should_stop))
        assert got == expected
        assert second.state_dict() == whole.state_dict()
