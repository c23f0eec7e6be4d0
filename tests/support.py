"""What several test modules share. One process has one device plan: two isolated simulated GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from myxtts.pipeline import THREAD_PREFIX
from myxtts.pipeline.devices import DevicePlan
from myxtts.pipeline.hardware import Card, Hardware
from myxtts.utils.gpu_memory import setup_gpu_memory_isolation
from tests.warm import WarmProcess

ROOT = Path(__file__).resolve().parent.parent


def simulated_plan() -> DevicePlan:
    """Two logical CPU devices with the default limits; the same plan however often it is called."""
    return setup_gpu_memory_isolation(0, 1, simulate=True)


def pipeline_threads() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if thread.name.startswith(THREAD_PREFIX)
    ]


def run_warm(
    arguments: Sequence[str], *, timeout: float = 300, cwd: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The same as `run_python`, by a process that has TensorFlow loaded already."""
    with tempfile.TemporaryDirectory() as folder:
        stdout, stderr = Path(folder) / "stdout", Path(folder) / "stderr"
        env = {**os.environ, **environment}
        process = WarmProcess(arguments, stdout=stdout, stderr=stderr, cwd=cwd, env=env)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        said = [path.read_text(encoding="utf-8") for path in (stdout, stderr)]
    return subprocess.CompletedProcess(arguments, code, *said)


def run_python(
    arguments: Sequence[str], *, timeout: float = 180, cwd: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python from the root of the checkout, as a user would."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


class FakeHardware(Hardware):
    """A machine with the given cards, which notes what would have been done to them."""

    def __init__(
        self, *total_mb: int, free_mb: int | None = None, tensorflow_sees: int | None = None
    ):
        super().__init__()
        self._cards = [
            Card(i, f"Fake {total}", total, total if free_mb is None else free_mb, token=str(i))
            for i, total in enumerate(total_mb)
        ]
        self._tensorflow_sees = tensorflow_sees
        self.missing_reason = "" if total_mb else "no NVIDIA driver answers (fake)"
        self.shown: list[int] = []
        self.growth: list[int] = []
        self.limits: dict[int, list[int]] = {}
        self.cpu_parts = 0
        self.hidden = False
        self.kept_first = False

    def cards(self) -> list[Card]:
        return list(self._cards)

    def show_only(self, cards: Sequence[Card]) -> None:
        self.shown = [card.index for card in cards]

    def tensorflow_gpus(self) -> int:
        return len(self.shown) if self._tensorflow_sees is None else self._tensorflow_sees

    def hide_gpus(self) -> None:
        self.hidden = True

    def keep_first_gpu(self) -> None:
        self.kept_first = True

    def set_growth(self, gpu: int) -> None:
        self.growth.append(gpu)

    def set_tf32(self, on: bool) -> None:
        self.tf32 = on

    def set_limits(self, gpu: int, limits_mb: Sequence[int]) -> None:
        self.limits[gpu] = list(limits_mb)

    def split_cpu(self, parts: int) -> None:
        self.cpu_parts = parts

    def allocated_mb(self, device: str) -> float:
        return {"/GPU:0": 1000.0, "/GPU:1": 2000.0}[device]

    @property
    def untouched(self) -> bool:
        return not (self.shown or self.growth or self.limits or self.cpu_parts or self.hidden)


def check_flags(command: list[str]) -> None:
    """Let the parser of the command read all of it; nothing is run."""
    import typer

    from myxtts.cli.app import app

    parser, rest = typer.main.get_command(app), list(command)
    while hasattr(parser, "commands") and rest and not rest[0].startswith("-"):
        parser = parser.commands[rest.pop(0)]
    parser.make_context("myxtts", rest)
