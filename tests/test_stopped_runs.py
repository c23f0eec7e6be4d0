"""A run asked to stop has its checkpoint within seconds, whatever it is busy with."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from myxtts.models.weights import named_weights
from myxtts.runs.checkpoints import CheckpointStore
from tests import runs
from tests.support import ROOT

SOON_S = 5.0


def saved_steps(run: Path) -> list[int]:
    return CheckpointStore(run / "checkpoints").steps()


class Stopper(threading.Thread):
    """Asks this process to stop once `ready` is set, and looks when the checkpoint is there."""

    def __init__(self, run: Path, *, number: int = signal.SIGTERM) -> None:
        super().__init__(daemon=True)
        self.ready, self.seen = threading.Event(), threading.Event()
        self.took = float("inf")
        self._run, self._number = run, number
        self.start()

    def run(self) -> None:
        if not self.ready.wait(60):
            return
        asked = time.monotonic()
        os.kill(os.getpid(), self._number)
        while time.monotonic() - asked < 30:
            if saved_steps(self._run):
                self.took = time.monotonic() - asked
                break
            time.sleep(0.02)
        self.seen.set()


def test_the_checkpoint_is_there_before_the_source_is_closed(run, trainer_in):
    found = []

    def source():
        try:
            while True:
                yield from runs.mel_batches(10)
        finally:
            found.append(saved_steps(run))

    trainer = trainer_in(run)
    stop = {3: lambda: os.kill(os.getpid(), signal.SIGHUP)}
    result = trainer.train(source(), epochs=1, on_step=lambda step, _: stop.get(step, int)())
    assert result["stopped_by"] == signal.SIGHUP
    assert found == [[3]]


class Waits(runs.SmallModel):
    """Stays in TensorFlow at its fourth step, where no signal's handler can run."""

    stopper: Stopper

    def compute_losses(self, batch, *, step, training):
        losses = super().compute_losses(batch, step=step, training=training)
        wait = tf.cond(
            step >= 3, lambda: tf.numpy_function(self._wait, [], tf.float32), lambda: 0.0
        )
        return {**losses, "loss": losses["loss"] + wait}

    def _wait(self):
        self.stopper.ready.set()
        self.stopper.seen.wait(40)
        return np.float32(0)


def test_a_step_that_lasts_does_not_hold_up_the_checkpoint(run, trainer_in, caplog, monkeypatch):
    caplog.set_level("INFO", "myxtts")
    # The step goes on as soon as the checkpoint can be seen; the thread that saves is not done yet.
    monkeypatch.setattr(CheckpointStore, "_clean", lambda *_: time.sleep(0.5))
    trainer = trainer_in(run, model=Waits)
    trainer.model.stopper = stopper = Stopper(run)
    trainer.train(runs.mel_batches(20), epochs=1)
    assert stopper.took < SOON_S
    assert "Asked to stop: all that is done is saved" in caplog.text
    assert saved_steps(run) == [3, 4]  # the step under way was done after all
    assert [event["step"] for event in runs.events(run, "checkpoint")] == [3, 4]
    assert runs.latest(run).state["position"] == 4


def test_what_is_saved_during_a_validation_are_the_trained_weights(run, trainer_in):
    stopper = Stopper(run)

    class Held:
        """A validation that lasts, with the model's averaged weights in place."""

        def __iter__(self):
            stopper.ready.set()
            stopper.seen.wait(40)
            yield from runs.mel_batches(1)

    trainer = trainer_in(run, validation_steps=3, ema_decay=0.9, learning_rate=0.01)
    trainer.train(runs.mel_batches(20), val_dataset=Held(), epochs=1)
    assert stopper.took < SOON_S
    assert saved_steps(run) == [3]
    saved = runs.latest(run).tensors
    for name, trained in named_weights(trainer.model).items():
        np.testing.assert_array_equal(saved["model"][name], trained)
        assert not np.array_equal(saved["ema"][name], trained)


def test_a_closed_terminal_stops_a_run_which_saves_and_says_nothing_more(tmp_path):
    data = runs.make_clips(tmp_path / "data", runs.TOO_FEW_TO_VALIDATE)
    run = tmp_path / "run"
    values = runs.settings(run, data={"train_data": str(data)}, checkpoint_steps=10**6)
    config = runs.write_settings(tmp_path / "config.yaml", values)
    command = [sys.executable, "-c", runs.SMALL_TRAINING.format(code="")]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [*command, "--config", str(config), "--max-steps", "1000000"])
    deadline = time.monotonic() + 120
    while runs.last_step(run) < 3:
        assert time.monotonic() < deadline
        if select.select([terminal], [], [], 0.05)[0]:
            os.read(terminal, 65536)
    os.close(terminal)
    closed = time.monotonic()
    while not saved_steps(run):
        assert time.monotonic() - closed < SOON_S
        time.sleep(0.02)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGHUP
    assert (run / "report.html").exists()
