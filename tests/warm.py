"""Python processes that start with TensorFlow loaded: forks of a server that imported it once.

Loading it is most of what a short training run costs, and it is the same each time. Nothing runs
before the fork, so the process sets up its devices as any other does.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tensorflow", "tests.warm_modules"])


class WarmProcess:
    """Runs Python with arguments as the interpreter takes them; as much of a Popen as tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stdout: Path,
        stderr: Path,
        cwd: Path,
        env: Mapping[str, str],
    ) -> None:
        given = (list(arguments), str(stdout), str(stderr), str(cwd), dict(env))
        self._process = _context.Process(target=_run, args=given, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired("a warm process", timeout or 0.0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


def _run(
    arguments: list[str], stdout: str, stderr: str, cwd: str, environment: dict[str, str]
) -> None:
    # It ends with the tests, but unlike a daemon of multiprocessing it may have children.
    multiprocessing.current_process()._config["daemon"] = False
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, path in ((1, stdout), (2, stderr)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), descriptor)
    kind, *rest = arguments
    sys.path.insert(0, cwd)
    if kind == "-c":
        code, *words = rest
        sys.argv = ["-c", *words]
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(code, "<string>", "exec"), main.__dict__)
    elif kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(kind, run_name="__main__")
