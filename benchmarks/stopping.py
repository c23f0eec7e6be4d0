"""From the signal to the saved checkpoint: `myxtts train` stopped at random moments.

Each row is a process of its own that trains a small voice on two simulated devices: SIGTERM,
SIGINT, SIGHUP or a closed terminal comes while it compiles a further shape, trains, validates or
saves. Measured is the time until a checkpoint is on disk that holds every update done when the
signal came, and until the process has ended. Half of the rows have two busy loops beside them. The
bar is 5 s for the worst, and exit codes of 128 + the signal. Takes half an hour on two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import random
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import yaml

from myxtts.runs.checkpoints import CheckpointStore
from myxtts.runs.events import read_events

BAR_S = 5.0
RUNS = 20
LOADS = {"quiet": 0, "loaded": 2}  # busy loops
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "closed terminal")
MOMENTS = ("compiling", "training", "validating", "saving")
MOST_S = {"to the moment": 400.0, "to the checkpoint": 60.0, "to the end": 200.0}
CLIPS, RATE = 60, 22_050
CHECKPOINT_STEPS, VALIDATION_STEPS = 7, 9
SETTINGS = {
    "model": {
        **dict.fromkeys(("encoder_dim", "decoder_dim", "voice_dim"), 16),
        **dict.fromkeys(("encoder_blocks", "decoder_blocks"), 1),
    },
    "data": {"tokenizer": "characters", "batch_size": 4, "max_buckets": 3, "simulate": True},
    "training": {
        "log_steps": 1,
        "checkpoint_steps": CHECKPOINT_STEPS,
        "validation_steps": VALIDATION_STEPS,
        "max_steps": 1_000_000,
    },
}


@dataclass(frozen=True)
class Stop:
    """How one run took being stopped."""

    step: int
    to_checkpoint_s: float
    to_end_s: float
    code: int


def make_corpus(folder: Path) -> Path:
    """Hums of three lengths, so that there are shapes to compile after the first step."""
    (folder / "wavs").mkdir(parents=True)
    rows = []
    for i in range(CLIPS):
        seconds = (0.7, 1.6, 3.2)[i % 3]
        t = np.arange(int(seconds * RATE)) / RATE
        wave = 0.2 * sum(np.sin(2 * np.pi * k * (100 + 3 * i) * t) / k for k in (1, 2, 3))
        soundfile.write(folder / "wavs" / f"c{i:03d}.wav", wave, RATE)
        rows.append(f"c{i:03d}|{'one two three four. ' * (1 + i % 3)}\n")
    (folder / "metadata.csv").write_text("".join(rows), encoding="utf-8")
    return folder


class Training:
    """One process that trains, on a terminal of its own, which is read and kept."""

    def __init__(self, folder: Path, data: Path, *, level: str) -> None:
        self.run = folder / "run"
        settings = {name: dict(section) for name, section in SETTINGS.items()}
        settings["data"]["train_data"] = str(data)
        settings["training"] |= {"checkpoint_dir": str(self.run), "optimization_level": level}
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        self.shown = b""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", TF_CPP_MIN_LOG_LEVEL="3")
            command = [sys.executable, "-m", "myxtts", "train", "--config", str(config)]
            os.execv(sys.executable, command)
        self._hang_up = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._code: int | None = None

    def _read(self) -> None:
        # One thread reads and closes: while a read waits, a terminal is not really closed.
        with contextlib.suppress(OSError):  # the other end is closed
            while not self._hang_up.is_set():
                if select.select([self._terminal], [], [], 0.02)[0]:
                    self.shown += os.read(self._terminal, 65536)
        os.close(self._terminal)

    def stop(self, how: str) -> None:
        """Ask it to, or close its terminal."""
        if how == "closed terminal":
            self._hang_up.set()
            self._reader.join()
        else:
            os.kill(self.pid, getattr(signal, how))

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def kill(self) -> None:
        """Leave nothing behind."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    @property
    def last_step(self) -> int:
        """The newest update it has told of."""
        steps = [event["step"] for event in read_events(self.run / "events.jsonl")]
        return max((step for step in steps if step), default=0)

    @property
    def saved_step(self) -> int:
        """The newest that is on disk."""
        return max(CheckpointStore(self.run / "checkpoints").steps(), default=-1)

    def wait_for(self, what: Callable[[], bool], *, most_s: float, name: str) -> float:
        """Seconds until it is true."""
        began = time.monotonic()
        while not what():
            if time.monotonic() - began > most_s:
                raise TimeoutError(f"{name} took more than {most_s:.0f} s: {self.shown[-2000:]!r}")
            if self.poll() is not None and not what():
                raise ChildProcessError(f"it ended ({self.poll()}): {self.shown[-2000:]!r}")
            time.sleep(0.01)
        return time.monotonic() - began


def reach(training: Training, moment: str, chance: random.Random) -> None:
    """Let a run come to the moment at which it is to be stopped."""

    def wait(what: Callable[[], bool]) -> None:
        training.wait_for(what, most_s=MOST_S["to the moment"], name=moment)

    after = chance.randint(1, 25)
    wait(lambda: training.last_step >= (1 if moment == "compiling" else after))
    if moment == "compiling":
        wait(lambda: re.search(rb"Compiling shape [23] of", training.shown) is not None)
    elif moment == "validating":
        wait(lambda: training.last_step % VALIDATION_STEPS == 0)
    elif moment == "saving":
        wait(lambda: any((training.run / "checkpoints").glob(".tmp-*")))
    time.sleep(chance.uniform(0, 2.0 if moment == "compiling" else 0.2))


def stop_once(folder: Path, data: Path, how: str, moment: str, chance: random.Random) -> Stop:
    folder.mkdir()
    # XLA where its compiling is what is to be interrupted; else a run is at its moment sooner.
    level = "enhanced" if moment == "compiling" else "basic"
    training = Training(folder, data, level=level)
    try:
        reach(training, moment, chance)
        done = training.last_step
        asked = time.monotonic()
        training.stop(how)
        to_checkpoint = training.wait_for(
            lambda: training.saved_step >= done,
            most_s=MOST_S["to the checkpoint"],
            name="the checkpoint",
        )
        while training.poll() is None and time.monotonic() - asked < MOST_S["to the end"]:
            time.sleep(0.01)
        code = training.poll()
        if code is None:
            raise TimeoutError(f"it has not ended: {training.shown[-2000:]!r}")
        return Stop(training.saved_step, to_checkpoint, time.monotonic() - asked, code)
    finally:
        training.kill()


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """Processes that want a core each."""
    command = [sys.executable, "-c", "while True: pass"]
    started = [subprocess.Popen(command) for _ in range(loops)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def measure(load: str, data: Path, folder: Path, *, runs: int, seed: int) -> tuple[str, bool]:
    """Stop so many runs; a row of the table, and whether it is under the bar."""
    chance = random.Random(seed)
    cases = [(how, moment) for moment in MOMENTS for how in SIGNALS]
    chance.shuffle(cases)
    stops, wrong = [], 0
    with busy(LOADS[load]):
        for number in range(runs):
            how, moment = cases[number % len(cases)]
            at = f"{load} {number + 1}/{runs}, {how} while {moment}"
            try:
                stop = stop_once(folder / f"{load}-{number}", data, how, moment, chance)
            except (TimeoutError, ChildProcessError) as error:
                print(f"{at}: {error}", flush=True)
                wrong += 1
                continue
            expected = 128 + (signal.SIGHUP if how == "closed terminal" else getattr(signal, how))
            wrong += stop.code != expected
            stops.append(stop)
            print(
                f"{at}: step {stop.step} saved after {stop.to_checkpoint_s:.2f} s, "
                f"ended after {stop.to_end_s:.1f} s with {stop.code}",
                flush=True,
            )
    saved = sorted(stop.to_checkpoint_s for stop in stops) or [float("inf")]
    ended = sorted(stop.to_end_s for stop in stops) or [float("inf")]
    good = not wrong and saved[-1] < BAR_S
    row = (
        f"{load:8s}{statistics.median(saved):14.2f}{saved[-1]:14.2f}"
        f"{statistics.median(ended):14.1f}{ended[-1]:14.1f}   "
        + ("ok" if good else f"{wrong} went wrong" if wrong else f"OVER {BAR_S:.0f} s")
    )
    return row, good


def main() -> None:
    """Print the table; exit 1 where the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="for each load (20)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    asked = parser.parse_args()
    rows, all_good = [], True
    with tempfile.TemporaryDirectory() as scratch:
        data = make_corpus(Path(scratch) / "data")
        for load in LOADS:
            row, good = measure(load, data, Path(scratch), runs=asked.runs, seed=asked.seed)
            rows.append(row)
            all_good = all_good and good
    print(f"\n{'':8s}{'signal to checkpoint':>28s}{'signal to end':>28s}")
    print(f"{'':8s}" + f"{'p50 s':>14s}{f'worst of {asked.runs}':>14s}" * 2)
    print("\n".join(rows))
    sys.exit(0 if all_good else 1)


if __name__ == "__main__":
    main()
