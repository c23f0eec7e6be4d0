"""A validator turns whatever goes wrong into a failed check with a reason."""

from __future__ import annotations

import pytest

from myxtts.checks.validators import Target, run_checks
from myxtts.config.config import DataConfig
from myxtts.errors import DeviceError


def explode(target: Target) -> str:
    raise OSError("CUDA_ERROR_UNKNOWN\nsecond line")


def refuse(target: Target) -> str:
    raise DeviceError("It is not there.", "buy one")


def test_every_kind_of_failure_is_a_result_and_keeps_the_rest_from_running():
    checks = (("A", lambda target: "fine"), ("B", explode), ("C", lambda target: "never"))
    first, second, third = run_checks(checks, Target(DataConfig()))
    assert (first.passed, first.detail) == (True, "fine")
    assert (second.passed, second.detail) == (False, "OSError: CUDA_ERROR_UNKNOWN")
    assert third.passed is None
    assert "'B' failed" in third.detail


def test_a_refusal_keeps_its_remedy():
    (result,) = run_checks((("A", refuse),), Target(DataConfig()))
    assert (result.detail, result.remedy) == ("It is not there.", "buy one")


def test_our_own_stop_signals_are_not_swallowed():
    def interrupt(target: Target) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_checks((("A", interrupt),), Target(DataConfig())))
