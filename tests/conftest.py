"""What tests of several modules are given. Devices are configured once, before the first tensor."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from myxtts.cli.app import main
from myxtts.pipeline.devices import DevicePlan
from myxtts.pipeline.hardware import HARDWARE
from myxtts.runs.checkpoints import CheckpointStore
from tests.support import simulated_plan

PLAN = simulated_plan()  # whichever test runs first
# A file is one process's work. The longest begin, so that none is left to run alone at the end.
LONGEST_FILES = (
    *("exact_resume", "next_steps", "synthesize", "lost_data", "demo", "replicas", "trainer"),
    *("documented_commands", "trainer_settings", "failures", "training_data", "loader", "step"),
    *("examples", "profiler", "kept_tokenizer", "evaluate", "recognition", "leaks", "web"),
)


def pytest_configure(config: pytest.Config) -> None:
    # In the background of a shell script Ctrl-C is ignored, also by all that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Under nohup a closed terminal is, too: whoever starts the tests shall survive it, and not
    # those who do them, for what they start is told of one.
    if hasattr(config, "workerinput") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {f"test_{name}": place for place, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


@pytest.fixture(scope="session")
def plan() -> DevicePlan:
    return PLAN


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """A command run inside the tests sets logging up for its process: undone after each test."""
    logger = logging.getLogger("myxtts")
    before = logger.handlers, logger.level, logger.propagate
    yield
    logger.handlers, level, logger.propagate = before
    logger.setLevel(level)


# -- training in this process --


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def trainer_in() -> Iterator[Callable[..., Any]]:
    from tests import runs  # late: most tests need no trainer

    trainers = runs.Trainers()
    yield trainers
    trainers.close()


@pytest.fixture
def one_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests import runs

    runs.share_device_stage(monkeypatch)


@pytest.fixture
def every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "myxtts")


# -- what a run leaves --


@pytest.fixture
def store(run: Path) -> CheckpointStore:
    return CheckpointStore(run / "checkpoints")


@pytest.fixture
def events_file(run: Path) -> Path:
    return run / "events.jsonl"


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, logger="myxtts")
    return lambda: [record.getMessage() for record in caplog.records]


# -- the command line --


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, capsysbinary: Any) -> Callable[..., Any]:
    """`myxtts ARGUMENTS` in this process: exit code, standard output, standard error."""

    def run(*arguments: object, stdin: bytes = b"") -> tuple[Any, bytes, str]:
        monkeypatch.setattr(sys, "argv", ["myxtts", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as over:
            main()
        out, err = capsysbinary.readouterr()
        return over.value.code, out, err.decode()

    return run


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is None or HARDWARE.cards():
        return
    reason = f"needs a GPU: {HARDWARE.missing_reason}"
    if os.environ.get("MYXTTS_REQUIRE_GPU") == "1":
        pytest.fail(reason)
    pytest.skip(f"{reason} (MYXTTS_REQUIRE_GPU=1 makes this a failure)")
