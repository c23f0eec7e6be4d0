"""Replicas wait for each other at the start: whoever is missing is named, with the address.

TensorFlow would wait too, without a word on who is missing.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import time
from collections.abc import Iterator

from myxtts.errors import ReplicaError
from myxtts.replicas.cluster import Cluster

log = logging.getLogger(__name__)

LOOK_S = 0.2  # between two looks at the others
TELL_S = 10.0
CONNECT_S = 2.0  # for one try


def wait_for_all(cluster: Cluster, *, timeout_s: float) -> None:
    """Return when every replica is there; its port is ours to use from then on."""
    deadline = time.monotonic() + timeout_s
    told_at = time.monotonic()
    with _listening(cluster):
        missing = [rank for rank in range(cluster.world) if rank != cluster.rank]
        while True:
            missing = [rank for rank in missing if not answers(cluster.addresses[rank])]
            if not missing:
                return
            now = time.monotonic()
            if now >= deadline:
                raise ReplicaError(
                    f"After {timeout_s:.0f} s {cluster.names(missing)} of {cluster.world} replicas "
                    f"had not come ({cluster.source} names them).",
                    "look why it did not start, and whether this machine reaches that address; "
                    "training.join_timeout is how long they wait for each other",
                )
            if now - told_at >= TELL_S:
                told_at = now
                log.info("Waiting for %s …", cluster.names(missing))
            time.sleep(LOOK_S)


def answers(address: str) -> bool:
    """Whether somebody listens there."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):  # refused, unreachable, or a name not known yet
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
        return True
    return False


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses at this moment."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


@contextlib.contextmanager
def _listening(cluster: Cluster) -> Iterator[None]:
    """Hold our own port, so that the others see that we are there, until TensorFlow takes it."""
    host, _, port = cluster.addresses[cluster.rank].rpartition(":")
    local = host in ("127.0.0.1", "localhost")
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind(("127.0.0.1" if local else "", int(port)))
            door.listen(128)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise ReplicaError(
                f"Port {port} of {cluster.name(cluster.rank)} cannot be used: {error.strerror}.",
                f"end the program that has it, or give another port ({cluster.source})",
            ) from error
        yield
