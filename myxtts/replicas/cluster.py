"""Which processes train together, as the environment tells it: TF_CONFIG, or SLURM's variables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from myxtts.documents import parse_json
from myxtts.errors import ConfigError
from myxtts.replicas.slurm import slurm_addresses

JOBS = ("chief", "worker")  # in TF_CONFIG; the chief, where there is one, is replica 0
MOST_REPLICAS = 4096


@dataclass(frozen=True)
class Cluster:
    """The replicas of a run, each a process with an address, and which of them this one is."""

    addresses: tuple[str, ...]  # host:port, in the order of their ranks
    rank: int
    source: str  # who told: "TF_CONFIG" or "SLURM"

    @property
    def world(self) -> int:
        """How many there are."""
        return len(self.addresses)

    @property
    def is_first(self) -> bool:
        """Whether this is the replica that writes checkpoints, logs and samples."""
        return self.rank == 0

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The ranks on this machine, this one included."""
        own = _host(self.addresses[self.rank])
        return tuple(r for r, address in enumerate(self.addresses) if _host(address) == own)

    @property
    def local_rank(self) -> int:
        """Which of the replicas on its machine this one is."""
        return self.neighbours.index(self.rank)

    def name(self, rank: int) -> str:
        """A replica as messages name it."""
        return f"replica {rank} ({self.addresses[rank]})"

    def names(self, ranks: list[int]) -> str:
        """Several of them."""
        return ", ".join(map(self.name, ranks))


def find_cluster(environment: Mapping[str, str] = os.environ) -> Cluster | None:
    """The cluster that the environment tells of; None where this process trains alone."""
    if environment.get("TF_CONFIG", "").strip():
        found = _from_tf_config(environment["TF_CONFIG"])
    else:
        told = slurm_addresses(environment)
        if told is None:
            return None
        found = Cluster(told[0], told[1], "SLURM")
    _check(found)
    return found if found.world > 1 else None


def tf_config(addresses: tuple[str, ...] | list[str], rank: int) -> str:
    """What `find_cluster` reads."""
    task = {"type": "worker", "index": rank}
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": task})


def _from_tf_config(text: str) -> Cluster:
    try:
        told: Any = parse_json(text.encode())
        jobs, task = dict(told.get("cluster") or {}), dict(told.get("task") or {})
        # TensorBoard's evaluator trains nothing, and is no member.
        addresses = {job: [str(address) for address in jobs.get(job) or ()] for job in JOBS}
        index = int(task.get("index", 0))
        kind = str(task.get("type", "worker"))
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"TF_CONFIG cannot be read: {error}", _TF_CONFIG_FORM) from error
    if not any(addresses.values()):
        return Cluster(("",), 0, "TF_CONFIG")  # a cluster of nobody: this process is alone
    if jobs.get("ps"):
        raise ConfigError(
            "TF_CONFIG names parameter servers, and MyXTTS has none: its replicas add up their "
            "gradients among themselves.",
            _TF_CONFIG_FORM,
        )
    if kind not in JOBS or not 0 <= index < len(addresses[kind]):
        raise ConfigError(
            f"TF_CONFIG says that this process is {kind} {index}, and lists "
            f"{len(addresses.get(kind, ()))} of that kind.",
            _TF_CONFIG_FORM,
        )
    rank = index + (len(addresses["chief"]) if kind == "worker" else 0)
    return Cluster((*addresses["chief"], *addresses["worker"]), rank, "TF_CONFIG")


_TF_CONFIG_FORM = (
    'give it as {"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", '
    '"index": 0}}, with an entry for each replica, or unset it to train with one process'
)


def _check(cluster: Cluster) -> None:
    if cluster.world == 1:
        return
    if cluster.world > MOST_REPLICAS:
        raise ConfigError(
            f"{cluster.source} lists {cluster.world} replicas.", f"list {MOST_REPLICAS} at most"
        )
    for address in cluster.addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(
                f"{cluster.source} gives the address {address!r}, which is not host:port.",
                "give every replica a host name and a port, such as node1:2222",
            )
    twice = {a for a in cluster.addresses if cluster.addresses.count(a) > 1}
    if twice:
        raise ConfigError(
            f"{cluster.source} lists {min(twice)} more than once.",
            "give each replica a port of its own, also where several share a machine",
        )


def _host(address: str) -> str:
    return address.rpartition(":")[0]
