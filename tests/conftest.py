"""Devices are configured once, before any test makes a tensor."""

from __future__ import annotations

import os

import pytest

from myxtts.pipeline.devices import DevicePlan
from myxtts.pipeline.hardware import HARDWARE
from tests.support import simulated_plan

PLAN = simulated_plan()  # whichever test runs first


@pytest.fixture(scope="session")
def plan() -> DevicePlan:
    return PLAN


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is None or HARDWARE.cards():
        return
    reason = f"needs a GPU: {HARDWARE.missing_reason}"
    if os.environ.get("MYXTTS_REQUIRE_GPU") == "1":
        pytest.fail(reason)
    pytest.skip(f"{reason} (MYXTTS_REQUIRE_GPU=1 makes this a failure)")
