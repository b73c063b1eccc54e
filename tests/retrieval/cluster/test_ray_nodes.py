"""A cluster of two nodes, one of which dies: another computes its parts, and nobody notices."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from subprocess import run

import pytest

pytest.importorskip("ray", reason="the extra cluster is not installed")

PARTS = 40


def node_of(part: int) -> tuple[int, str]:
    """In a worker."""
    import ray

    time.sleep(0.1)
    return part * part, ray.get_runtime_context().get_node_id()


def lose_a_node() -> None:
    """In a process of its own: Ray has one cluster per process."""
    from ray.cluster_utils import Cluster

    from slimdex.retrieval.cluster.ray_workers import RayWorkers

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    node = cluster.add_node(num_cpus=1)
    found = []
    with RayWorkers(cluster.address) as workers:
        assert workers.count == 2
        for part, result in workers.map(node_of, range(PARTS)):
            found.append((part, *result))
            if part == 10:
                cluster.remove_node(node, allow_graceful=False)
    cluster.shutdown()
    print(json.dumps(found))


@pytest.mark.slow
def test_a_node_that_dies_costs_its_parts_only() -> None:
    child = f"from {__name__} import lose_a_node; lose_a_node()"
    done = run([sys.executable, "-c", child], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [(part, square) for part, square, _ in found] == [(i, i * i) for i in range(PARTS)]
    assert len({node for _, _, node in found[:10]}) == 2
    assert len({node for _, _, node in found[-10:]}) == 1


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_one_line() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "slimdex", "build", "python:email", "--out", "none.index"]
    done = run([*command, "--ray", address], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"ray '{address}': " in done.stderr.splitlines()[-1]
    assert "expected the address of a cluster that runs, or local" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
