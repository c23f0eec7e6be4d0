"""Who trains together, as TF_CONFIG and SLURM tell it, and how they find each other."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest

from myxtts.errors import ConfigError, ReplicaError
from myxtts.replicas.cluster import Cluster, find_cluster, tf_config
from myxtts.replicas.meeting import free_ports, wait_for_all
from myxtts.replicas.slurm import expand_hosts


def config(cluster, **task):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def test_tf_config_tells_ranks_and_the_chief_is_the_first():
    cluster = {"chief": ["a:1"], "worker": ["b:1", "b:2"], "evaluator": ["c:9"]}
    found = find_cluster(config(cluster, type="worker", index=1))
    assert found.addresses == ("a:1", "b:1", "b:2")
    assert (found.rank, found.world, found.is_first) == (2, 3, False)
    assert (found.neighbours, found.local_rank) == ((1, 2), 1)
    assert find_cluster(config(cluster, type="chief", index=0)).is_first
    assert found.name(1) == "replica 1 (b:1)"


def test_what_is_written_is_read():
    found = find_cluster({"TF_CONFIG": tf_config(("x:1", "y:2"), 1)})
    assert found == Cluster(("x:1", "y:2"), 1, "TF_CONFIG")


@pytest.mark.parametrize(
    "environment",
    [{}, {"TF_CONFIG": " "}, {"TF_CONFIG": "{}"}, config({"worker": ["a:1"]}, type="worker")],
)
def test_without_others_a_process_is_alone(environment):
    assert find_cluster(environment) is None


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ("[" * 100_000, "nested too deeply"),
        (tf_config(["a:1", "a:1"], 0), "a:1 more than once"),
        (tf_config(["a:1", "b"], 0), "'b', which is not host:port"),
        (tf_config(["a:1", "b:99999"], 0), "which is not host:port"),
        (tf_config(["a:1", "b:1"], 2), "this process is worker 2, and lists 2"),
        (config({"worker": ["a:1"], "ps": ["b:1"]})["TF_CONFIG"], "parameter servers"),
        (config({"worker": ["a:1", "b:1"]}, type="evaluator")["TF_CONFIG"], "evaluator 0"),
        (config({"worker": 5})["TF_CONFIG"], "cannot be read"),
    ],
)
def test_a_wrong_tf_config_is_said_with_its_form(told, problem):
    with pytest.raises(ConfigError, match=problem) as caught:
        find_cluster({"TF_CONFIG": told})
    assert caught.value.remedy


def slurm(**changed):
    told = {
        "SLURM_STEP_NUM_TASKS": "5",
        "SLURM_PROCID": "3",
        "SLURM_STEP_NODELIST": "gpu[01-02],big",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
        "SLURM_JOB_ID": "17",
        "SLURM_STEP_ID": "0",
    }
    return {**told, **changed}


def test_srun_tells_by_its_variables():
    found = find_cluster(slurm())
    expected = ("gpu01:20017", "gpu01:20018", "gpu02:20017", "gpu02:20018", "big:20017")
    assert found.addresses == expected
    assert (found.rank, found.local_rank, found.source) == (3, 1, "SLURM")


def test_a_batch_script_without_srun_is_one_process():
    told = slurm()
    del told["SLURM_STEP_NUM_TASKS"]
    assert find_cluster({**told, "SLURM_NTASKS": "5"}) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"SLURM_PROCID": "x"},
        {"SLURM_PROCID": "5"},
        {"SLURM_STEP_TASKS_PER_NODE": "2(x3)"},
        {"SLURM_STEP_NODELIST": "gpu[01-02"},
        {"SLURM_DISTRIBUTION": "cyclic"},
    ],
)
def test_odd_variables_of_slurm_are_said(changed):
    with pytest.raises(ConfigError, match="SLURM"):
        find_cluster(slurm(**changed))


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("one", ["one"]),
        ("a,b-1", ["a", "b-1"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[008-010,7]x", ["n008x", "n009x", "n010x", "n7x"]),
        ("r[1-2]n[1,3]", ["r1n1", "r1n3", "r2n1", "r2n3"]),
    ],
)
def test_lists_of_nodes_are_read_as_slurm_writes_them(listed, names):
    assert expand_hosts(listed) == names


def here(world, rank):
    return Cluster(tuple(f"127.0.0.1:{port}" for port in free_ports(world)), rank, "TF_CONFIG")


def somebody_at(address):
    host, port = address.split(":")
    return socket.create_server((host, int(port)))


def test_replicas_that_come_late_are_waited_for():
    first = here(3, 0)
    ended = []

    def come(rank):
        time.sleep(0.1 * rank)
        wait_for_all(Cluster(first.addresses, rank, "TF_CONFIG"), timeout_s=10)
        ended.append(rank)
        # As TensorFlow's server does: the port stays open for those who come later.
        with somebody_at(first.addresses[rank]):
            time.sleep(0.5)

    threads = [threading.Thread(target=come, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(ended) == [0, 1, 2]


def test_a_replica_that_does_not_come_is_named_with_its_address():
    cluster = here(3, 0)
    with somebody_at(cluster.addresses[1]), pytest.raises(ReplicaError) as caught:
        wait_for_all(cluster, timeout_s=0.3)
    assert cluster.name(2) in caught.value.problem
    assert cluster.name(1) not in caught.value.problem


def test_a_port_in_use_is_said():
    cluster = here(2, 1)
    with somebody_at(cluster.addresses[1]), pytest.raises(ReplicaError, match="in use") as caught:
        wait_for_all(cluster, timeout_s=5)
    assert caught.value.problem.startswith(
        f"Port {cluster.addresses[1].split(':')[1]} of replica 1"
    )
