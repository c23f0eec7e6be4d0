"""The acceptance kit: every claim made of MyXTTS, proved or refuted on this machine.

Each part runs in a process of its own, since devices are settled once a process. What only a GPU
can show is marked so on simulated devices, and never counted as passed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

from myxtts.checks.device_proofs import prove_bandwidth, prove_limits
from myxtts.checks.environment import as_markdown, describe_environment
from myxtts.checks.soak import RATE_KEPT, soak
from myxtts.checks.stage_proofs import prove_features, prove_forms, prove_launches
from myxtts.checks.validators import (
    ISOLATION_CHECKS,
    PIPELINE_CHECKS,
    Check,
    Result,
    Target,
    run_checks,
)
from myxtts.errors import DataError
from myxtts.pipeline.telemetry import PROCESS, READ, TRAIN
from myxtts.profiling.measurements import Profile, read_profile
from myxtts.runs.events import read_events
from myxtts.runs.folder import EVENTS_FILE

Verdict = Literal["pass", "FAIL", "needs a GPU", "not run"]
Bar = tuple[str, float, Literal[">=", "<="], float, str]  # what, its value, its bar, as written

PROFILE_STEPS = 40
TRAINING_STEPS = 12
CORPUS_CLIPS = 64
PART_TIMEOUT_S = 1800  # a part that takes longer hangs: it is ended, and named
EFFICIENCY_BAR = 0.90
ONE_DEVICE: list[str] = []  # flags: none, so that the first GPU does both jobs, or the CPU
GROWTH_BARS_MB = {"data": 200.0, "model": 500.0}

WHERE_TO_PASTE = (
    "Paste this file into a new issue of the project ('Results of a machine'); its numbers stand "
    "beside the expected ones, so nothing needs to be added. The JSON beside it holds the same."
)
RESULTS_JSON, RESULTS_TEXT = "acceptance.json", "acceptance.txt"


@dataclass(frozen=True)
class Claim:
    """One thing that is said of MyXTTS, and what this machine says to it."""

    name: str
    verdict: Verdict
    measured: str
    expected: str = ""


def run_acceptance(
    target: Target, folder: Path, train_data: Path | None, *, soak_minutes: float = 0.0
) -> Iterator[Claim]:
    """Prove what can be proved here, claim by claim as each is settled; logs go to the folder."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    yield from _device_claims(target)
    data = train_data or _speak_corpus(folder / "corpus")
    dual = _profile("two devices", _dual_flags(target), data, folder)
    single = _profile("one device", ONE_DEVICE, data, folder)
    yield from _rate_claims(dual, single, simulated=target.simulate)
    yield from _memory_claims(dual, simulated=target.simulate)
    modes = {
        "Training on one device": ONE_DEVICE,
        "Training on two devices": _dual_flags(target),
        "Training on two devices, isolated": [*_dual_flags(target), "--enable-memory-isolation"],
    }
    for name, flags in modes.items():
        yield _training_claim(name, flags, data, folder)
    yield _limit_claim(_run_folder(name, folder), simulated=target.simulate)  # the isolated run's
    if soak_minutes or target.simulate:  # who has GPUs may do without
        yield _soak_claim(flags, data, folder, minutes=soak_minutes)


def write_results(folder: Path, claims: list[Claim], target: Target) -> Path:
    """Both results files; the text is what to paste."""
    sections = describe_environment(lambda: "see the checks above", hardware=target.hardware)
    values = {
        "simulated": target.simulate,
        "claims": [asdict(claim) for claim in claims],
        "environment": {section.title: dict(section.rows) for section in sections},
    }
    text = json.dumps(values, indent=1, ensure_ascii=False)
    (folder / RESULTS_JSON).write_text(text + "\n", encoding="utf-8")
    lines = ["# MyXTTS acceptance results", "", WHERE_TO_PASTE, ""]
    if target.simulate:
        lines += ["On simulated devices: nothing here was measured on a GPU.", ""]
    lines += [describe(claim) for claim in claims]
    path = folder / RESULTS_TEXT
    path.write_text("\n".join(lines) + "\n\n" + as_markdown(sections) + "\n", encoding="utf-8")
    return path


def describe(claim: Claim) -> str:
    """A claim in one line."""
    expected = f" (expected {claim.expected})" if claim.expected else ""
    return f"{claim.verdict:12s}{claim.name}: {claim.measured}{expected}"


# -- devices --

_PROOFS: tuple[Check, ...] = (
    *ISOLATION_CHECKS,
    *PIPELINE_CHECKS[1:],
    ("Bandwidth between the devices", prove_bandwidth),
    ("Precision of the features", prove_features),
    ("The data stage with and without XLA", prove_forms),
)
_LIMITS: Check = ("Memory limits are enforced", prove_limits)
_LAUNCHES: Check = ("The data stage is not bound by launches", prove_launches)


def _device_claims(target: Target) -> Iterator[Claim]:
    checks = _PROOFS if target.simulate else (*_PROOFS, _LIMITS, _LAUNCHES)
    for result in _in_child(checks, target):
        verdict: Verdict = "not run" if result.passed is None else _judge(result.passed)
        remedy = f"; try: {result.remedy}" if result.remedy else ""
        yield Claim(result.name, verdict, result.detail + remedy)
    if target.simulate:
        yield Claim(_LIMITS[0], "needs a GPU", "TensorFlow limits no CPU device")
        yield Claim(_LAUNCHES[0], "needs a GPU", "a CPU launches no kernels")


def _in_child(checks: tuple[Check, ...], target: Target) -> Iterator[Result]:
    """Run checks in a process of their own, never forked; a crash or a hang is a result too."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send_results, args=(sender, checks, target), daemon=True)
    child.start()
    sender.close()  # so that the end of the child is the end of the results
    try:
        for name, _ in checks:
            if not receiver.poll(PART_TIMEOUT_S):
                yield Result(name, False, f"did not end within {PART_TIMEOUT_S} s")
                return
            try:
                yield receiver.recv()
            except EOFError:
                child.join(PART_TIMEOUT_S)
                yield Result(name, False, f"its process ended with code {child.exitcode}")
                return
    finally:
        child.kill()
        child.join()


def _send_results(sender: Connection, checks: tuple[Check, ...], target: Target) -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    for result in run_checks(checks, target):
        sender.send(result)


# -- rates --


def _rate_claims(dual: Profile | str, single: Profile | str, *, simulated: bool) -> Iterator[Claim]:
    """What is claimed of two devices against one; a number of simulated devices proves nothing."""
    for name, profile in (("Profile of two devices", dual), ("Profile of one device", single)):
        if isinstance(profile, str):
            yield Claim(name, "FAIL", profile)
    if isinstance(dual, str) or isinstance(single, str):
        return

    diagnosis, together = dual.diagnosis, dual.together
    doubt = "" if diagnosis.doubt is None else f". {diagnosis.doubt}"
    yield Claim(
        "Overlap: measured rate over the slowest stage's",
        # Simulated devices are the same cores: each stage slows the other, overlapped or not.
        "needs a GPU" if simulated else _judge(dual.efficiency >= EFFICIENCY_BAR),
        f"{dual.efficiency:.2f}, bottleneck '{diagnosis.bottleneck}', grade {diagnosis.grade}"
        + doubt,
        f"at least {EFFICIENCY_BAR}",
    )
    yield Claim("No retrace after warm-up", _judge(together.retraces == 0), str(together.retraces))
    serial = 1.0 / sum(single.stage_s(stage) for stage in (READ, PROCESS, TRAIN))
    bars: tuple[Bar, ...] = (
        ("Model GPU busy", together.stages[TRAIN].busy_share, ">=", 0.80, "{:.0%}"),
        # A light load there is no fault; at its limit it holds the model back.
        ("Data GPU busy", together.stages[PROCESS].busy_share, "<=", 0.95, "{:.0%}"),
        (
            "One GPU with buffers busy",
            single.together.stages[TRAIN].busy_share,
            ">=",
            0.75,
            "{:.0%}",
        ),
        ("Rate against one GPU run serially", together.rate / serial, ">=", 1.5, "{:.2f}x"),
        ("Steps a second", together.rate, ">=", 6.0, "{:.1f}"),
        ("Step variation", together.variation, "<=", 0.30, "{:.0%}"),
    )
    for name, value, sign, bar, form in bars:
        good = value >= bar if sign == ">=" else value <= bar
        verdict: Verdict = "needs a GPU" if simulated else _judge(good)
        expected = f"{'at least' if sign == '>=' else 'at most'} {form.format(bar)}"
        yield Claim(name, verdict, form.format(value), expected)


def _memory_claims(dual: Profile | str, *, simulated: bool) -> Iterator[Claim]:
    if isinstance(dual, str):
        return
    for role, bar in GROWTH_BARS_MB.items():
        seen = [getattr(sample, f"{role}_memory_mb") for sample in dual.together.samples]
        quarter = max(1, len(seen) // 4)
        growth = statistics.fmean(seen[-quarter:]) - statistics.fmean(seen[:quarter])
        source = " of the whole process" if simulated else ""
        yield Claim(
            f"No memory growth of the {role} device",
            _judge(growth < bar),
            f"{growth:+.0f} MB{source} over {dual.together.steps} steps",
            f"under {bar:.0f} MB",
        )


def _profile(name: str, flags: list[str], data: Path, folder: Path) -> Profile | str:
    """A profile, or why there is none."""
    path = folder / f"profile-{name.replace(' ', '-')}.json"
    flags = ["--num-steps", str(PROFILE_STEPS), "--json", str(path), *flags]
    failure = _run("profile", flags, data, folder, log_name=path.stem)
    return failure or read_profile(path)


# -- training --


def _training_claim(name: str, flags: list[str], data: Path, folder: Path) -> Claim:
    run = _run_folder(name, folder)
    shutil.rmtree(run, ignore_errors=True)  # of the last time
    flags = ["--max-steps", str(TRAINING_STEPS), "--checkpoint-dir", str(run), *flags]
    failure = _run("train", flags, data, folder, log_name=run.name)
    return Claim(name, _judge(not failure), failure or f"{TRAINING_STEPS} steps, no OOM, no hang")


def _run_folder(name: str, folder: Path) -> Path:
    return folder / name.lower().replace(",", "").replace(" ", "-")


def _limit_claim(run: Path, *, simulated: bool) -> Claim:
    """What the allocators held in an isolated run, against their limits."""
    name = "Memory of an isolated run inside its limits"
    events = read_events(run / EVENTS_FILE) if (run / EVENTS_FILE).is_file() else ()
    seen = [event["values"].get("memory", {}) for event in events if event["kind"] == "pipeline"]
    used = {
        role: max(
            ((each[role]["used_mb"], each[role]["limit_mb"]) for each in seen if each.get(role)),
            default=None,
        )
        for role in GROWTH_BARS_MB
    }
    known = {role: pair for role, pair in used.items() if pair is not None}
    if len(known) < len(used):
        return Claim(name, "not run", "the isolated run wrote no memory")
    told = ", ".join(f"{role} {mb:.0f} of {limit:.0f} MB" for role, (mb, limit) in known.items())
    if simulated:
        return Claim(name, "needs a GPU", f"the process holds {told}")
    inside = all(mb <= limit for mb, limit in known.values())
    return Claim(name, _judge(inside), told, "at most the limits")


def _soak_claim(flags: list[str], data: Path, folder: Path, *, minutes: float) -> Claim:
    name = f"{minutes:.0f} minutes without growth or loss of speed"
    if not minutes:
        return Claim(name, "needs a GPU", "asked for with --soak-minutes")
    run = _run_folder("soak", folder)
    shutil.rmtree(run, ignore_errors=True)  # of the last time
    given = _command("train", data, folder)
    command = [*given, "--max-steps", "100000000", "--checkpoint-dir", str(run), *flags]
    done = soak(command, run, minutes=minutes, log_file=folder / "logs" / "soak.txt")
    return Claim(
        name, _judge(done.good), done.told, f"at least {RATE_KEPT:.0%} of the rate is left"
    )


def _settings(folder: Path) -> Path:
    """One shape, because each takes a compilation; clips in memory, as a fast disk would be."""
    path = folder / "settings.yaml"
    path.write_text("data:\n  static_shapes: one\n  cache: memory\n", encoding="utf-8")
    return path


def _speak_corpus(folder: Path) -> Path:
    from myxtts.corpora.demo import make_demo_corpus

    try:
        make_demo_corpus(folder, sentences=CORPUS_CLIPS, held_out=4)
    except DataError as error:
        remedy = f"give recordings with --train-data, or {error.remedy}"
        raise DataError(error.problem, remedy) from error
    return folder


# -- processes --


def _dual_flags(target: Target) -> list[str]:
    asked = target.settings
    flags = ["--data-gpu", str(asked.data_gpu), "--model-gpu", str(asked.model_gpu)]
    return [*flags, "--simulate"] if asked.simulate else flags


def _command(command: str, data: Path, folder: Path) -> list[str]:
    given = ["--train-data", str(data), "--model-size", "tiny", "--config", str(_settings(folder))]
    return [sys.executable, "-m", "myxtts", command, *given]


def _run(command: str, flags: list[str], data: Path, folder: Path, *, log_name: str) -> str:
    """Run a command of ours; nothing if it worked, else why not, with where to read more."""
    log_file = folder / "logs" / f"{log_name}.txt"
    with log_file.open("wb") as output:
        try:
            done = subprocess.run(
                [*_command(command, data, folder), *flags],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=PART_TIMEOUT_S,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            )
        except subprocess.TimeoutExpired:
            return f"did not end within {PART_TIMEOUT_S} s; see {log_file}"
    return "" if done.returncode == 0 else f"exit code {done.returncode}; see {log_file}"


def _judge(good: bool) -> Verdict:
    return "pass" if good else "FAIL"
