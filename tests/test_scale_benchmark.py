"""The benchmark of replicas: it ends, whatever happens to one of them, and its table adds up."""

from __future__ import annotations

import os
import subprocess

import pytest

from benchmarks import scale
from myxtts.replicas.cost import Link, ring_s


def processes(*commands):
    return [subprocess.Popen(command.split()) for command in commands]


@pytest.mark.parametrize(
    ("commands", "timeout_s", "problem"),
    [
        (("sleep 60", "false"), 30.0, "replica 1 failed with code 1"),
        (("true", "sleep 60"), 0.3, r"replicas \[1\] of 2 did not end within 0.3 s"),
    ],
)
def test_a_replica_that_fails_or_hangs_is_named(commands, timeout_s, problem):
    started = processes(*commands)
    try:
        with pytest.raises(SystemExit, match=problem):
            scale._wait(started, timeout_s=timeout_s)
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_those_that_end_well_are_waited_for():
    scale._wait(processes("true", "true"), timeout_s=30)


def test_a_machine_that_keeps_to_the_model_is_predicted_to_the_millisecond(monkeypatch, capsys):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    link, parameters, work = Link(3e8, 2e-3), 1_000_000, 0.1
    sums = {str(size): ring_s(4 * size, 2, link) for size in scale.SIZES}

    def told(n, left):
        ring = ring_s(4 * parameters, n, link) if n > 1 else 0.0
        step = work * max(1.0, n / left) + ring
        wall, own = scale.STEPS * step, scale.STEPS * work
        busy = (2 - left) * wall + n * own
        clocks = {"wall_s": wall, "own_s": own, "busy_s": busy}
        return [
            {"parameters": parameters, "sums": sums, "step_s": step, "sum_s": [ring] * n, **clocks}
            for _ in range(n)
        ]

    scale.report({1: told(1, 2.0), 2: told(2, 1.25), 4: told(4, 0.8)}, "none")
    rows = capsys.readouterr().out.splitlines()[-3:]
    assert [row.split()[1] for row in rows] == ["2.00", "1.25", "0.80"]  # cores left
    assert all(row.endswith("+0%") or row.endswith("-0%") for row in rows)
