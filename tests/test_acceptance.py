"""The acceptance kit: what it says of a machine, and that nothing of it can hang or pass unseen."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace

import pytest

from myxtts.checks import acceptance
from myxtts.checks.acceptance import Claim, write_results
from myxtts.checks.validators import Target
from tests.profiles import make_profile
from tests.support import ROOT, run_python

SIMULATED = Target(simulate=True)


def verdicts(claims) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in claims}


def test_rates_are_judged_on_gpus_and_only_shown_on_simulated_devices():
    dual = make_profile(seconds={"process": 0.08, "train": 0.1, "read": 0.01}, rate=9.9)
    single = make_profile(seconds={"process": 0.08, "train": 0.1, "read": 0.01}, rate=8.0)
    on_gpu = verdicts(acceptance._rate_claims(dual, single, simulated=False))
    assert on_gpu["Rate against one GPU run serially"] == "pass"
    assert on_gpu["Steps a second"] == "pass"
    slow = make_profile(seconds={"process": 0.08, "train": 0.1, "read": 0.01}, rate=4.0)
    refuted = verdicts(acceptance._rate_claims(slow, single, simulated=False))
    assert refuted["Rate against one GPU run serially"] == "FAIL"
    assert refuted["Overlap: measured rate over the slowest stage's"] == "FAIL"
    shown = verdicts(acceptance._rate_claims(slow, single, simulated=True))
    assert shown["Rate against one GPU run serially"] == "needs a GPU"


def test_what_a_claim_prints_is_what_it_tests():
    """At a bar's own value it passes, and just on the wrong side of what is printed it does not."""
    profile = make_profile(seconds={"process": 0.08, "train": 0.1, "read": 0.01})

    def claims(busy: float, variation: float) -> dict[str, Claim]:
        told = {n: replace(s, busy_s=busy, waiting_input_s=1 - busy) for n, s in stages.items()}
        bucket = replace(profile.together.buckets[0], variation=variation)
        together = replace(profile.together, stages=told, buckets=(bucket,))
        seen = replace(profile, together=together)
        found = acceptance._rate_claims(seen, seen, simulated=False)
        return {claim.name: claim for claim in found}

    stages = profile.together.stages
    for name, bar, worse in (
        ("Model GPU busy", 0.80, 0.79),
        ("One GPU with buffers busy", 0.75, 0.74),
        ("Data GPU busy", 0.95, 0.96),
        ("Step variation", 0.30, 0.31),
    ):
        here, beyond = (claims(value, value)[name] for value in (bar, worse))
        assert (here.verdict, beyond.verdict) == ("pass", "FAIL"), name
        assert here.expected.split()[-1] == f"{bar:.0%}"
        assert here.expected.startswith("at least" if worse < bar else "at most")
    assert claims(0.03, 0.1)["Data GPU busy"].verdict == "pass"  # a light load is no fault


def test_more_than_can_be_is_doubted():
    profile = make_profile(seconds={"train": 0.1}, rate=12.4)
    found = {c.name: c for c in acceptance._rate_claims(profile, profile, simulated=True)}
    assert "which cannot be" in found["Overlap: measured rate over the slowest stage's"].measured


def test_a_profile_that_failed_is_a_failed_claim():
    claims = verdicts(acceptance._rate_claims("exit code 2", make_profile(), simulated=True))
    assert claims == {"Profile of two devices": "FAIL"}


def _leave(target: Target) -> str:
    os._exit(3)


def _sleep(target: Target) -> str:
    time.sleep(600)
    return ""


def _pass(target: Target) -> str:
    return "well"


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (_leave, "its process ended with code 3"),
        pytest.param(_sleep, "did not end within", marks=pytest.mark.slow),
    ],
)
def test_a_check_that_crashes_or_hangs_is_a_failure_with_its_name(check, said, monkeypatch):
    monkeypatch.setattr(acceptance, "PART_TIMEOUT_S", 60)
    checks = (("First", _pass), ("Second", check), ("Third", _pass))
    first, second = acceptance._in_child(checks, SIMULATED)
    assert (first.name, first.passed, first.detail) == ("First", True, "well")
    assert (second.name, second.passed) == ("Second", False)
    assert said in second.detail


def test_results_are_written_as_json_and_as_text_to_paste(tmp_path):
    claims = [Claim("Overlap", "pass", "0.97", "at least 0.9"), Claim("Limits", "needs a GPU", "-")]
    text = write_results(tmp_path, claims, SIMULATED).read_text(encoding="utf-8")
    assert "nothing here was measured on a GPU" in text
    assert "pass        Overlap: 0.97 (expected at least 0.9)" in text
    assert "### Versions" in text
    stored = json.loads((tmp_path / "acceptance.json").read_text(encoding="utf-8"))
    assert stored["claims"][1]["verdict"] == "needs a GPU"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_whole_kit_runs_on_simulated_devices(tmp_path):
    result = run_python(
        ["-m", "myxtts", "validate", "--full", "--simulate", "--output-dir", str(tmp_path)],
        timeout=3500,
        PYTHONPATH=str(ROOT),
    )
    claims = json.loads((tmp_path / "acceptance.json").read_text(encoding="utf-8"))["claims"]
    found = {claim["name"]: claim["verdict"] for claim in claims}
    assert found["Training on two devices, isolated"] == "pass", result.stdout
    assert found["Memory limits are enforced"] == "needs a GPU"
    assert (result.returncode == 0) == ("FAIL" not in found.values()), result.stdout
