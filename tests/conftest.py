"""Devices are configured once, before any test makes a tensor."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from myxtts.pipeline.devices import DevicePlan
from myxtts.pipeline.hardware import HARDWARE
from tests.support import simulated_plan

PLAN = simulated_plan()  # whichever test runs first


@pytest.fixture(scope="session")
def plan() -> DevicePlan:
    return PLAN


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """A command run inside the tests sets logging up for its process: undone after each test."""
    logger = logging.getLogger("myxtts")
    before = logger.handlers, logger.level, logger.propagate
    yield
    logger.handlers, logger.level, logger.propagate = before


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is None or HARDWARE.cards():
        return
    reason = f"needs a GPU: {HARDWARE.missing_reason}"
    if os.environ.get("MYXTTS_REQUIRE_GPU") == "1":
        pytest.fail(reason)
    pytest.skip(f"{reason} (MYXTTS_REQUIRE_GPU=1 makes this a failure)")
