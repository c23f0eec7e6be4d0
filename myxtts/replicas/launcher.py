"""Starts the replicas of one machine, joins what they say, and ends them together."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import IO

from myxtts.errors import ReplicaLostError
from myxtts.replicas.cluster import tf_config
from myxtts.replicas.meeting import free_ports

log = logging.getLogger(__name__)

LAUNCHED = "MYXTTS_LAUNCHED"  # how often before; a replica that finds it was started from here
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STOPPED = tuple(128 + number for number in STOP_SIGNALS)  # how a run ends that was asked to
POLL_S = 0.05
# Once one is lost the others notice, save, and end by themselves: within a second where it died,
# in about ten where it hangs.
GRACE_S = 45.0
END_S = 10.0  # after SIGTERM


class Launcher:
    """The replicas of one run on this machine, all running the same command.

    A signal to the launcher goes to all of them, so that they stop at the same update with one
    checkpoint; a second Ctrl-C ends them at once.
    """

    def __init__(
        self, command: Sequence[str], *, replicas: int, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._command, self._replicas = list(command), replicas
        self._environment = dict(environment)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pumps: list[threading.Thread] = []
        self._asked: list[int] = []  # signals, as they came

    def run(self, *, max_restarts: int = 0) -> int:
        """Run them to their end, and again when one is lost; the exit code of it all."""
        with self._catching_signals():
            for started in range(max_restarts + 1):
                code = self._run_once(started)
                if code in (0, 2, *STOPPED) or self._asked or started == max_restarts:
                    break  # done, or asked to; or a problem that another try would meet again
                log.warning(
                    "Starting all replicas again from the last checkpoint (%d of %d)",
                    started + 1,
                    max_restarts,
                )
        return 128 + self._asked[0] if self._asked and code != 0 else code

    def _run_once(self, started: int) -> int:
        try:
            self._start(started)
            code = self._watch()
        finally:
            self._end_all()
        return code

    # -- starting --

    def _start(self, started: int) -> None:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(self._replicas)]
        self._processes, self._pumps = [], []
        for rank in range(self._replicas):
            environment = {
                **self._environment,
                "TF_CONFIG": tf_config(addresses, rank),
                LAUNCHED: str(started),
                "PYTHONUNBUFFERED": "1",
            }
            process = subprocess.Popen(
                self._command,
                env=environment,
                stdin=subprocess.PIPE,  # closed when the launcher dies, however it does
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # a terminal's Ctrl-C comes to us alone
            )
            self._processes.append(process)
            for stream, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
                assert stream is not None
                pump = threading.Thread(target=_copy, args=(rank, stream, target), daemon=True)
                pump.start()
                self._pumps.append(pump)
        log.info("Started %d replicas: %s", self._replicas, ", ".join(addresses))

    # -- watching --

    def _watch(self) -> int:
        """Wait until all have ended, and tell of the first that should not have."""
        lost: tuple[int, int] | None = None
        deadline = float("inf")
        signalled = 0
        while any(process.poll() is None for process in self._processes):
            while signalled < len(self._asked):
                self._pass_on(signalled)
                signalled += 1
            lost = lost or self._first_lost()
            if lost is not None and deadline == float("inf"):
                log.error("%s; the others end too", self._describe(*lost))
                found = lost[1] == ReplicaLostError.exit_code  # by the others, all at once
                deadline = time.monotonic() + (END_S if found else GRACE_S)
            if time.monotonic() >= deadline:
                break
            time.sleep(POLL_S)
        lost = self._first_lost()  # by now the one that lost another may have company
        if lost is not None:
            return 128 - lost[1] if lost[1] < 0 else lost[1]
        return max(process.poll() or 0 for process in self._processes)

    def _pass_on(self, number: int) -> None:
        hurry = number > 0 and self._asked[number] == signal.SIGINT
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL if hurry else self._asked[number])

    def _first_lost(self) -> tuple[int, int] | None:
        """A replica that ended with an error, the one that others only lost sight of last."""
        codes = [(rank, process.poll() or 0) for rank, process in enumerate(self._processes)]
        failed = [(rank, code) for rank, code in codes if code and code not in STOPPED]
        failed.sort(key=lambda found: found[1] == ReplicaLostError.exit_code)
        return failed[0] if failed else None

    def _describe(self, rank: int, code: int) -> str:
        how = f"ended with exit code {code}"
        if code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        return f"Replica {rank} (process {self._processes[rank].pid}) {how}"

    # -- ending --

    def _end_all(self) -> None:
        for number, patience in ((signal.SIGTERM, END_S), (signal.SIGKILL, END_S)):
            alive = [process for process in self._processes if process.poll() is None]
            for process in alive:
                process.send_signal(number)
                process.send_signal(signal.SIGCONT)  # one that is stopped hears nothing else
            deadline = time.monotonic() + patience
            for process in alive:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
        for pump in self._pumps:
            pump.join(END_S)
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()

    @contextlib.contextmanager
    def _catching_signals(self) -> Iterator[None]:
        def ask(number: int, _: FrameType | None) -> None:
            self._asked.append(number)

        # Under nohup a run is meant to outlive its terminal.
        numbers = [n for n in STOP_SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
        before = {number: signal.signal(number, ask) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _copy(rank: int, stream: IO[bytes], target: IO[str]) -> None:
    """What a replica says, each line with its number in front."""
    with stream:
        for line in stream:
            text = line.decode(errors="replace").rstrip("\n")
            with contextlib.suppress(OSError, ValueError):  # nobody may be there any more
                target.write(f"[{rank}] {text}\n")
                target.flush()


def own_command() -> list[str]:
    """The command that runs this very program again, with the words it was given."""
    program, *words = sys.argv
    if program == "-c":
        return [sys.executable, *sys.orig_argv[1:]]  # the code stands nowhere else
    if os.path.basename(program) == "__main__.py":
        return [sys.executable, "-m", "myxtts", *words]
    return [sys.executable, program, *words]


def stop_with_launcher() -> None:
    """In a replica: end as if asked to, once whoever started it is gone."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1024):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="launcher-watch", daemon=True).start()
