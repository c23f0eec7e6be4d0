"""The acceptance kit: what it says of a machine, and that nothing of it can hang or pass unseen."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace

import pytest

from myxtts.checks import acceptance, device_proofs, stage_proofs
from myxtts.checks.acceptance import Claim, write_results
from myxtts.checks.soak import judge_events, soak
from myxtts.checks.validators import Target
from myxtts.config.config import DataConfig
from myxtts.errors import DeviceError
from tests.profiles import make_profile
from tests.support import ROOT, FakeHardware, run_python

SIMULATED = Target(DataConfig(data_gpu=0, model_gpu=1, enable_memory_isolation=True, simulate=True))


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
    assert shown["Overlap: measured rate over the slowest stage's"] == "needs a GPU"


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


# -- what the device itself tells --


def test_the_features_of_the_data_device_are_held_against_the_cpus(plan, monkeypatch):
    monkeypatch.setattr(stage_proofs, "ROWS", 2)
    monkeypatch.setattr(stage_proofs, "FRAMES", 60)
    assert "differ by" in stage_proofs.prove_features(SIMULATED)
    call = stage_proofs._call

    def rounded(stage, batch, device):
        made = call(stage, batch, device)
        return {**made, "mels": made["mels"] * 1.001}  # as ten bits would

    monkeypatch.setattr(stage_proofs, "_call", rounded)
    with pytest.raises(DeviceError, match="differ by 0.0"):
        stage_proofs.prove_features(SIMULATED)


def test_a_slow_way_between_the_cards_is_a_failure(plan, monkeypatch):
    machine = FakeHardware(24_576, 24_576)
    real = Target(SIMULATED.settings.model_copy(update={"simulate": False}), machine)
    monkeypatch.setattr(Target, "configure", lambda self: replace(plan, simulated=False))
    machine.bus_gb_s = lambda index: 1e-6
    assert "the bus carries" in device_proofs.prove_bandwidth(real)
    machine.bus_gb_s = lambda index: 1e6
    with pytest.raises(DeviceError, match="far below the bus"):
        device_proofs.prove_bandwidth(real)


def pipeline_events(rates, **more):
    return [
        {"kind": "pipeline", "step": n, "values": {"steps_per_second": rate}, **more}
        for n, rate in enumerate(rates)
    ]


def test_a_long_run_is_judged_by_its_own_events():
    assert judge_events(pipeline_events([1.0] * 4 + [5.0] * 12)).good  # the start warms up
    slower = judge_events(pipeline_events([5.0] * 8 + [3.0] * 8))
    assert (slower.good, slower.told) == (
        False,
        "5.00 steps a second, 3.00 at its end, no memory that grows",
    )
    leak = {"kind": "leak", "step": 9, "values": {"warning": "Data GPU 0 grows"}}
    assert "Data GPU 0 grows" in judge_events([*pipeline_events([5.0] * 16), leak]).told
    assert not judge_events([*pipeline_events([5.0] * 16), leak]).good
    assert "too few" in judge_events(pipeline_events([5.0] * 3)).told


PRETENDER = """
import json, pathlib, signal, sys, time
run = pathlib.Path(sys.argv[1]); run.mkdir()
event = {"kind": "pipeline", "time": 1.0, "step": 1, "values": {"steps_per_second": 5.0}}
(run / "events.jsonl").write_text((json.dumps(event) + "\\n") * 16)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[2])))
if sys.argv[2] == "3": sys.exit(3)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("code", "good", "told"),
    [(143, True, "stopped in"), (0, False, "ended with code 0"), (3, False, "by itself")],
)
def test_a_long_run_must_go_on_and_must_stop_when_asked(tmp_path, code, good, told):
    command = [sys.executable, "-c", PRETENDER, str(tmp_path / "run"), str(code)]
    done = soak(command, tmp_path / "run", minutes=0.05, log_file=tmp_path / "log.txt")
    assert (done.good, told in done.told) == (good, True), done


@pytest.mark.parametrize(
    ("limit", "simulated", "verdict"),
    [(1000.0, False, "pass"), (800.0, False, "FAIL"), (1000.0, True, "needs a GPU")],
)
def test_an_isolated_runs_memory_is_held_against_its_limits(tmp_path, limit, simulated, verdict):
    memory = {role: {"used_mb": 900.0, "limit_mb": limit} for role in ("data", "model")}
    event = {"kind": "pipeline", "time": 1.0, "step": 1, "values": {"memory": memory}}
    (tmp_path / "events.jsonl").write_text(json.dumps(event) + "\n", encoding="utf-8")
    claim = acceptance._limit_claim(tmp_path, simulated=simulated)
    assert claim.verdict == verdict
    assert "data 900 of" in claim.measured
    assert acceptance._limit_claim(tmp_path / "none", simulated=False).verdict == "not run"
