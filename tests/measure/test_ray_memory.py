"""What `measure.ray_memory` promises: the memory of a cluster that is not ours, on all of its machines, each once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.model import Cluster
from curator_bench.measure.memory import MemorySampler
from curator_bench.measure.processes import busyness, end_processes, find_processes
from curator_bench.measure.ray_memory import RayMemorySampler, totals

if TYPE_CHECKING:
    from measure.conftest import RayClusters

pytestmark = pytest.mark.slow

HELD_BYTES = 60_000_000


@pytest.fixture
def ray(cluster: Cluster) -> Iterator[Any]:
    with cluster.driver(log_to_driver=False) as found:
        ray = found
        ray.get([ray.remote(lambda: None).remote() for _ in range(4)])  # its workers are there
        yield ray


def peak_of(cluster: Cluster) -> float:
    sampler = RayMemorySampler(cluster.python, {**without_ray(os.environ), **cluster.env})
    sampler.start()
    time.sleep(0.5)
    sampler.stop()
    assert sampler.warnings() == ()
    metrics = sampler.metrics()
    assert 0 < metrics["average_memory_bytes"] <= metrics["peak_memory_bytes"]
    return metrics["peak_memory_bytes"]


def test_it_is_what_is_found_of_a_cluster_of_ours(cluster: Cluster, ray: Any) -> None:
    ours = MemorySampler(lambda: [process.pid for process in find_processes(cluster.mark, cluster.processes)])
    ours.start()
    peak = peak_of(cluster)
    ours.stop()
    # Ours also sees the worker of the actor that samples, and workers that are there for a moment only.
    of_ours = ours.metrics()["peak_memory_bytes"]
    assert 0.4 * of_ours < peak < 1.2 * of_ours


def test_objects_count_and_so_do_workers(cluster: Cluster, ray: Any) -> None:
    class Holder:
        def __init__(self) -> None:
            self.held = b"x" * HELD_BYTES

        def held_bytes(self) -> int:
            return len(self.held)

    before = settled_peak_of(cluster)
    kept = ray.put(bytearray(HELD_BYTES))
    with_object = settled_peak_of(cluster)
    assert with_object - before > 0.8 * HELD_BYTES
    holder = ray.remote(Holder).remote()
    assert ray.get(holder.held_bytes.remote()) == HELD_BYTES
    assert settled_peak_of(cluster) - with_object > 0.5 * HELD_BYTES
    del kept


def settled_peak_of(cluster: Cluster) -> float:
    """A cluster that has just started still starts workers, and ends others."""
    peaks = [peak_of(cluster)]
    while len(peaks) < 10:
        peaks.append(peak_of(cluster))
        if abs(peaks[-1] - peaks[-2]) < 0.02 * HELD_BYTES:
            break
    return peaks[-1]


def wait_for_nodes(ray: Any, count: int) -> None:
    deadline = time.monotonic() + 60 * busyness()
    while sum(node["Alive"] for node in ray.nodes()) != count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_every_machine_is_asked_and_each_once(clusters: RayClusters, tmp_path_factory: pytest.TempPathFactory) -> None:
    with clusters.start(tmp_path_factory.mktemp("ray")) as cluster, cluster.driver(log_to_driver=False) as ray:
        ray.get([ray.remote(lambda: None).remote() for _ in range(4)])  # its workers are there
        alone = peak_of(cluster)
        nodes = [clusters.add_node(cluster)]
        wait_for_nodes(ray, 2)
        one_machine = peak_of(cluster)
        nodes.append(clusters.add_node(cluster, "--node-ip-address=127.0.0.2"))
        wait_for_nodes(ray, 3)
        two_machines = peak_of(cluster)
        end_processes(None, [node.pid for node in nodes], grace_s=0)
        for node in nodes:
            node.wait()
    assert one_machine < 2.2 * alone
    # What a second address of this machine sees are the same processes: two machines of this kind count all twice.
    assert two_machines > 2.2 * one_machine


def test_a_cluster_that_is_not_there_is_a_warning(cluster: Cluster) -> None:
    sampler = RayMemorySampler("/bin/false", {**without_ray(os.environ), **cluster.env})
    sampler.start()
    sampler.stop()
    assert sampler.metrics() == {}
    assert "the memory of the cluster is unknown" in sampler.warnings()[0]


def test_the_total_is_of_all_machines_at_each_moment_of_the_window() -> None:
    one, two = [(0.0, 1.0), (2.0, 3.0), (4.0, 1.0)], [(1.0, 10.0), (3.0, 20.0), (9.0, 50.0)]
    assert totals([one, two], 1.0, 5.0) == [(1.0, 11.0), (2.0, 13.0), (3.0, 23.0), (4.0, 21.0), (5.0, 21.0)]
    assert totals([], 1.0, 5.0) == []
