"""Reads the variables that `srun` gives to each task of a step."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

from myxtts.errors import ConfigError

FIRST_PORT, NUM_PORTS = 20_000, 10_000  # jobs that share a node get ports of their own
MOST_TASKS = 4096

_REMEDY = (
    "start it with srun, or set TF_CONFIG for each process; a task's variables are SLURM_PROCID, "
    "SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE"
)


def slurm_addresses(environment: Mapping[str, str]) -> tuple[tuple[str, ...], int] | None:
    """The address of each task of this step, and which of them this process is.

    Only srun sets the variables of a step: a batch script that starts Python itself is one process,
    however many tasks its job may have.
    """
    if "SLURM_STEP_NUM_TASKS" not in environment:
        return None
    try:
        tasks, rank = int(environment["SLURM_STEP_NUM_TASKS"]), int(environment["SLURM_PROCID"])
        nodes = expand_hosts(environment["SLURM_STEP_NODELIST"])
        counts = list(_counts(environment["SLURM_STEP_TASKS_PER_NODE"]))
        job = int(environment.get("SLURM_JOB_ID", 0)) + int(environment.get("SLURM_STEP_ID", 0))
    except (KeyError, ValueError) as error:
        raise ConfigError(f"SLURM's variables cannot be read: {error!r}", _REMEDY) from error
    if len(counts) != len(nodes) or sum(counts) != tasks or not 0 <= rank < tasks:
        raise ConfigError(
            f"SLURM's variables contradict each other: {tasks} tasks, of which this is {rank}, and "
            f"{counts} on {len(nodes)} nodes.",
            _REMEDY,
        )
    port = FIRST_PORT + job % NUM_PORTS
    addresses = [f"{n}:{port + i}" for n, c in zip(nodes, counts, strict=True) for i in range(c)]
    if environment.get("SLURM_DISTRIBUTION", "block").startswith(("cyclic", "plane", "arbitrary")):
        raise ConfigError(
            f"SLURM deals tasks out by {environment['SLURM_DISTRIBUTION']}: then a task's number "
            "does not tell its node.",
            "srun --distribution=block, or set TF_CONFIG for each process",
        )
    return tuple(addresses), rank


def expand_hosts(listed: str) -> list[str]:
    """`gpu[01-03,7],big` as names: gpu01, gpu02, gpu03, gpu7, big."""
    return [name for part in _split(listed) for name in _expand(part)]


def _split(listed: str) -> list[str]:
    """At the commas that are not inside brackets."""
    parts = re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", listed)
    if ",".join(parts) != listed:
        raise ValueError(f"a list of nodes like {listed!r}")
    return parts


def _expand(part: str) -> Iterator[str]:
    pieces = re.split(r"\[([^\]]*)\]", part)  # text, ranges, text, ranges, ..., text
    choices = [list(_range(p)) if i % 2 else [p] for i, p in enumerate(pieces)]
    return ("".join(chosen) for chosen in itertools.islice(itertools.product(*choices), MOST_TASKS))


def _range(text: str) -> Iterator[str]:
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not dash:
            yield first
            continue
        for number in range(int(first), min(int(last), int(first) + MOST_TASKS) + 1):
            yield f"{number:0{len(first)}d}"


def _counts(text: str) -> Iterator[int]:
    """`2(x3),1` as 2, 2, 2, 1."""
    for part in text.split(","):
        count, _, times = part.partition("(x")
        yield from [int(count)] * min(int(times.rstrip(")")) if times else 1, MOST_TASKS)
