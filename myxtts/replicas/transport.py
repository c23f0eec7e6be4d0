"""Sums over all replicas, by TensorFlow's own collectives: NCCL between GPUs, gRPC between CPUs.

`MultiWorkerMirroredStrategy` sets up the servers and watches who is alive, and nothing else: model,
optimiser and every compiled function stay outside of it.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.errors import ReplicaLostError
from myxtts.replicas.cluster import Cluster
from myxtts.replicas.meeting import answers, wait_for_all

log = logging.getLogger(__name__)

HOST = "/CPU:0"
HOST_GROUP, MODEL_GROUP = 7001, 7002  # a group of collectives has one device of each replica
CHUNK = 1 << 24  # numbers sent at once, where there are many: 64 MB


class Transport:
    """Adds tensors up over all replicas. Every replica must call it in the same order."""

    def __init__(self, cluster: Cluster, *, model_device: str, join_timeout_s: float) -> None:
        self.cluster = cluster
        self.model_device = model_device
        self._calls = 0
        if model_device.startswith("/CPU"):
            cores = len(os.sched_getaffinity(0))  # shared out, or all would fight for all of them
            threads = max(1, cores // len(cluster.neighbours))
            tf.config.threading.set_intra_op_parallelism_threads(threads)
        wait_for_all(cluster, timeout_s=join_timeout_s)
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": list(cluster.addresses)}),
            task_type="worker",
            task_id=cluster.rank,
            num_accelerators={"GPU": 0},  # else it would take the data device for a replica too
            rpc_layer="grpc",
        )
        tf.get_logger().setLevel(logging.WARNING)
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
        log.info("Replica %d of %d (%s)", cluster.rank, cluster.world, cluster.source)

    def sum_on_model_device(self, values: tf.Tensor) -> tf.Tensor:
        """The sum of a tensor over all replicas, made where the model is."""
        hint = "nccl" if self.model_device.startswith("/GPU") else "ring"
        return self._sum(values, device=self.model_device, group=MODEL_GROUP, hint=hint)

    def sum(self, values: Any) -> Any:
        """The same for an array of the host."""
        return self._sum(values, device=HOST, group=HOST_GROUP, hint="ring").numpy()

    def gather(self, values: Any) -> Any:
        """The arrays of all replicas, in the order of their ranks."""
        slots = np.zeros([self.cluster.world, *np.shape(values)], np.asarray(values).dtype)
        slots[self.cluster.rank] = values
        return self.sum(slots)

    def broadcast(self, content: bytes | None) -> bytes:
        """What replica 0 gives, at all of them; the others give None."""
        mine = content if content is not None and self.cluster.is_first else b""
        size = int(self.sum(np.array([len(mine)], np.int64))[0])
        padded = np.frombuffer(mine + bytes(-len(mine) % 4), np.int32)
        parts = []
        for at in range(0, -(-size // 4), CHUNK):
            count = min(CHUNK, -(-size // 4) - at)
            part = padded[at : at + count] if self.cluster.is_first else np.zeros(count, np.int32)
            parts.append(self.sum(part).tobytes())  # whole numbers: every bit arrives as it was
        return b"".join(parts)[:size]

    def _sum(self, values: Any, *, device: str, group: int, hint: str) -> tf.Tensor:
        self._calls += 1
        try:
            with tf.device(device):
                return tf.raw_ops.CollectiveReduceV2(
                    input=values,
                    group_size=self.cluster.world,
                    group_key=group,
                    instance_key=self._calls,
                    ordering_token=[],
                    merge_op="Add",
                    final_op="Id",
                    communication_hint=hint,
                )
        except tf.errors.OpError as error:
            raise self.lost(error) from error

    def lost(self, error: Exception) -> ReplicaLostError:
        """Which replica does not answer any more, as far as can be told."""
        message = re.sub(r"\{\{.*?\}\}", "", str(error)).strip()
        told = {int(number) for number in re.findall(r"task:(\d+)", message)}
        if "CoordinationService" in message:  # which replica 0 runs
            told.add(0)
        others = [rank for rank in range(self.cluster.world) if rank != self.cluster.rank]
        # One that hangs still has its port open, one that died has not.
        gone = [rank for rank in others if not answers(self.cluster.addresses[rank])]
        gone = gone or [rank for rank in others if rank in told] or others
        message = message.splitlines()[0][:200].rstrip(" :.")
        return ReplicaLostError(
            f"{self.cluster.names(gone)} of {self.cluster.world} is gone or hangs ({message}).",
            "look at its output for the reason, then run the same command: it goes on from the "
            "last checkpoint; --max-restarts does that by itself",
        )
