"""What replicas tell each other in their sums; here they are threads, and the sum is NumPy's."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.errors import ReplicaError
from myxtts.replicas.agreement import OWN_MATTERS, check_agreement, settings_facts
from myxtts.replicas.cluster import Cluster
from myxtts.replicas.exchange import DONE, Exchange, StoppedTogetherError
from myxtts.replicas.parcels import pack, unpack
from myxtts.replicas.transport import Transport
from myxtts.runs.checkpoints import Checkpoint
from tests.support import simulated_plan

DEVICE = simulated_plan().model_device


class Room:
    """Where threads put what they add up."""

    def __init__(self, world: int) -> None:
        self.world, self.values = world, {}
        self.barrier = threading.Barrier(world, timeout=30)

    def sum(self, rank, values):
        self.values[rank] = np.asarray(values)
        self.barrier.wait()
        total = sum(self.values[r] for r in range(self.world))
        self.barrier.wait()
        return total


class ThreadTransport(Transport):
    def __init__(self, room: Room, rank: int) -> None:
        addresses = tuple(f"127.0.0.1:{n + 1}" for n in range(room.world))
        self.cluster, self.model_device = Cluster(addresses, rank, "TF_CONFIG"), DEVICE
        self._room = room

    def _sum(self, values, *, device, group, hint):
        with tf.device(device):
            return tf.constant(self._room.sum(self.cluster.rank, values))


def together(work, world=2):
    """`work(transport)` on each of so many replicas; what each returned, or raised."""
    room = Room(world)

    def one(rank):
        try:
            return work(ThreadTransport(room, rank))
        except (ReplicaError, StoppedTogetherError) as error:
            return error

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(one, range(world)))


def exchange(transport, weights=None):
    weights = np.arange(5, dtype=np.float32) if weights is None else weights
    with tf.device(DEVICE):
        held = tf.constant(weights)
    return Exchange(transport, lambda: held, compiled=False)


def losses(**values):
    return {name: tf.constant(value, tf.float32) for name, value in values.items()}


def test_gradients_and_weights_are_summed_and_losses_are_means_by_clips():
    def work(transport):
        rank = transport.cluster.rank
        found = exchange(transport)(
            tf.constant([1.0, 2.0, 3.0]) * (rank + 1),
            tf.constant(3.0 + rank),
            losses(loss=[1.0, 5.0][rank], mel=2.0, weight=[3.0, 1.0][rank]),
        )
        return [tf.nest.map_structure(lambda t: t.numpy().tolist(), part) for part in found]

    first, second = together(work)
    assert first == second
    gradients, weight, means = first
    assert (gradients, weight) == ([3.0, 6.0, 9.0], 7.0)
    assert means == {"loss": pytest.approx(2.0), "mel": pytest.approx(2.0), "weight": 4.0}


def test_a_gradient_that_is_not_finite_on_one_is_so_on_all():
    def work(transport):
        bad = [np.nan, 1.0][transport.cluster.rank]
        told = losses(loss=1.0, weight=2.0)
        gradients, weight, _ = exchange(transport)(tf.constant([bad, 1.0]), tf.constant(2.0), told)
        return gradients.numpy(), float(weight)

    for gradients, weight in together(work):
        assert np.isnan(gradients[0])
        assert (gradients[1], weight) == (2.0, 4.0)


def test_the_wish_of_one_stops_all_and_says_why():
    def work(transport):
        mine = exchange(transport)
        if transport.cluster.rank == 1:
            return mine.leave(wish=15)
        return mine(tf.zeros([5]), tf.constant(1.0), losses(loss=1.0, weight=1.0))

    for stopped in together(work, world=3):
        assert isinstance(stopped, StoppedTogetherError)
        assert stopped.wishes == {1: 15}
        assert stopped.signal == (1, 15)
    for stopped in together(lambda transport: exchange(transport).leave()):
        assert stopped.wishes == {0: DONE, 1: DONE}
        assert stopped.signal is None


@pytest.mark.parametrize("bit", [0, 12, 31])
@pytest.mark.parametrize("place", [0, 4])
def test_a_single_bit_of_difference_in_the_weights_is_seen_by_all(bit, place):
    def work(transport):
        weights = np.arange(1, 6, dtype=np.float32)
        if transport.cluster.rank == 2:
            weights.view(np.uint32)[place] ^= np.uint32(1 << bit)
        return exchange(transport, weights).leave()

    for refused in together(work, world=3):
        assert isinstance(refused, ReplicaError)
        assert "weights of replica 2 (127.0.0.1:3)" in refused.problem


def test_weights_that_changed_places_are_seen():
    def work(transport):
        weights = np.arange(1, 6, dtype=np.float32)
        return exchange(transport, weights[:: 1 if transport.cluster.rank else -1].copy()).leave()

    assert all("no longer those of replica 0" in str(error) for error in together(work))


def test_the_pace_leaves_out_what_came_before_the_first_sum():
    def work(transport):
        mine = exchange(transport)
        for _ in range(4):
            mine(tf.zeros([5]), tf.constant(1.0), losses(loss=1.0, weight=1.0))
        return mine.take_pace().as_dict(), mine.take_pace().as_dict()

    for pace, nothing in together(work):
        assert pace["steps"] == 3
        assert all(0 < s < 5 for s in pace["work_s"])
        assert nothing == {"steps": 0, "work_s": [0.0, 0.0], "sum_s": [0.0, 0.0]}


def test_bytes_of_the_first_reach_all_in_pieces(monkeypatch):
    monkeypatch.setattr("myxtts.replicas.transport.CHUNK", 8)
    content = bytes(range(256)) + b"\xff\xfe\x00"

    def work(transport):
        mine = content if transport.cluster.is_first else None
        return transport.broadcast(mine), transport.broadcast(b"" if mine else None)

    assert together(work, world=3) == [(content, b"")] * 3


def test_a_checkpoint_arrives_as_it_was():
    tensors = {
        "model": {"a/b": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(3, np.int64)},
        "optimizer": {},
    }
    saved = Checkpoint(Path("/runs/x"), 7, tensors, {"step": 7, "text": "گفتار"})
    found = unpack(pack(saved))
    assert (found.folder, found.step, found.state) == (saved.folder, 7, saved.state)
    assert found.tensors.keys() == tensors.keys()
    for name, array in tensors["model"].items():
        assert found.tensors["model"][name].dtype == array.dtype
        np.testing.assert_array_equal(found.tensors["model"][name], array)
    assert unpack(pack(None)) is None


def test_what_differs_is_named_and_who_has_it():
    def work(transport):
        facts = {"a": "1", "b": "x" if transport.cluster.rank == 1 else "y"}
        check_agreement(transport, facts, remedy="mend it")

    for refused in together(work, world=3):
        assert "replica 1 (127.0.0.1:2) has another b than replica 0" in refused.problem
        assert "replica 2" not in refused.problem.split("(here")[0]
        assert refused.remedy == "mend it"


def test_a_version_that_knows_other_settings_is_named():
    def work(transport):
        facts = {"a": "1"} if transport.cluster.rank else {"a": "1", "new": "2"}
        check_agreement(transport, facts, remedy="mend it")

    for refused in together(work):
        assert "replica 1 (127.0.0.1:2) knows other settings than replica 0" in refused.problem


def test_settings_of_the_training_must_agree_and_those_of_a_machine_need_not():
    one = XTTSConfig(training={"checkpoint_dir": "a"}, data={"num_workers": 2, "train_data": "x"})
    other = XTTSConfig(training={"checkpoint_dir": "b"}, data={"num_workers": 4, "train_data": "y"})
    assert settings_facts(one) == settings_facts(other)
    other.training.learning_rate = 0.5
    assert settings_facts(one) != settings_facts(other)
    known = {
        f"{s}.{n}" for s, f in XTTSConfig.model_fields.items() for n in f.annotation.model_fields
    }
    assert known >= OWN_MATTERS


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (
            "{{node x /job:worker/task:0}} from remote target /job:worker/replica:0/task:2: reset",
            [2],
        ),
        ("Deadline Exceeded RPC: /tensorflow.CoordinationService/Heartbeat", [0]),
        ("something else", [0, 2]),
    ],
)
def test_who_is_lost_is_told_from_what_tensorflow_says(monkeypatch, message, named):
    monkeypatch.setattr("myxtts.replicas.transport.answers", lambda address: True)
    lost = ThreadTransport(Room(3), 1).lost(RuntimeError(message))
    assert lost.problem.startswith(f"{ThreadTransport(Room(3), 1).cluster.names(named)} of 3")
    assert "{{" not in lost.problem


def test_one_whose_port_is_closed_is_the_lost_one(monkeypatch):
    monkeypatch.setattr("myxtts.replicas.transport.answers", lambda a: a != "127.0.0.1:3")
    lost = ThreadTransport(Room(3), 1).lost(RuntimeError("from task:0"))
    assert lost.problem.startswith("replica 2 (127.0.0.1:3) of 3 is gone or hangs")
