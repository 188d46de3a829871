"""What `cluster.reused` promises: one standing cluster for equal requests, empty for each of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.health import is_alive
from curator_bench.cluster.model import Cluster
from curator_bench.cluster.reused import ReusedCluster
from curator_bench.measure.processes import Mark, busyness, end_processes, find_processes
from curator_bench.values import RaySettings

if TYPE_CHECKING:
    from cluster.conftest import Bench

pytestmark = pytest.mark.slow

SETTINGS = RaySettings(num_cpus=3, object_store_size=100_000_000, reuse=True)
SMALL = RaySettings(num_cpus=1, object_store_size=100_000_000, reuse=True)
LEAVES_THINGS = """
import numpy, os, ray
from ray.util.placement_group import placement_group
ray.init(namespace="users")
@ray.remote(num_cpus=0.1, max_restarts=-1)
class Holder:
    def __init__(self):
        self.held = ray.put(numpy.ones(1_000_000))
    def ready(self):
        return True
holders = [Holder.options(name="detached", lifetime="detached").remote(), Holder.remote()]
waiting = Holder.options(name="waiting", lifetime="detached", num_cpus=100).remote()
groups = [placement_group([{"CPU": 1}], name="group", lifetime="detached"), placement_group([{"CPU": 1}])]
held = ray.put(numpy.ones(1_000_000))
ray.get([holder.ready.remote() for holder in holders] + [group.ready() for group in groups])
os.kill(os.getpid(), 9)
"""
TELLS_WHAT_IS_THERE = """
import json, ray
from ray._private import state
ray.init(namespace="users")
actors = [actor["Name"] for actor in state.actors().values() if actor["State"] != "DEAD"]
groups = [group["name"] for group in ray.util.placement_group_table().values() if group["state"] != "REMOVED"]
print(json.dumps([actors, groups, ray.cluster_resources(), ray.available_resources()]))
"""
DETACHES_WITHOUT_A_NAME = """
import ray
ray.init()
@ray.remote
class Nameless:
    def ready(self):
        return True
nameless = Nameless.options(lifetime="detached").remote()
ray.get(nameless.ready.remote())
"""
STAYS = """
import pathlib, ray, sys, time
ray.init()
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""


@pytest.fixture(scope="module")
def marker() -> Iterator[str]:
    marker = uuid.uuid4().hex
    yield marker
    assert end_processes(Mark(marker), grace_s=0) == frozenset()


@pytest.fixture(scope="module")
def clusters(marker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReusedCluster]:
    clusters = ReusedCluster(marker, tmp_path_factory.mktemp("clusters"))
    yield clusters
    clusters.close()
    assert find_processes(Mark(marker)) == frozenset()


def use(clusters: ReusedCluster, bench: Bench, program: str = "", settings: RaySettings = SETTINGS) -> Cluster:
    """One run on a cluster: its script, and nothing after it."""
    cluster = clusters.start(bench.request(settings))
    bench.run_python(program, **cluster.env)
    clusters.stop(cluster)
    return cluster


def test_the_next_run_finds_nothing_of_the_one_before(clusters: ReusedCluster, bench: Bench) -> None:
    first = use(clusters, bench, LEAVES_THINGS)
    cluster = clusters.start(bench.request(SETTINGS))
    assert cluster is first
    actors, groups, there, free = json.loads(bench.connect(cluster, TELLS_WHAT_IS_THERE))
    clusters.stop(cluster)
    assert (actors, groups) == ([], [])
    assert free == there


def test_a_driver_that_stayed_is_ended(clusters: ReusedCluster, bench: Bench) -> None:
    cluster = clusters.start(bench.request(SETTINGS))
    ready = bench.folder / "ready"
    stays = subprocess.Popen([sys.executable, "-c", STAYS, str(ready)], env={**without_ray(bench.env), **cluster.env})
    try:
        bench.wait_until(ready.exists)
        clusters.stop(cluster)
        assert clusters.start(bench.request(SETTINGS)) is cluster
        clusters.stop(cluster)
        assert stays.wait(timeout=10 * busyness()) == -signal.SIGKILL
    finally:
        stays.kill()
        stays.wait(timeout=10 * busyness())


def test_another_size_or_environment_gets_another_cluster(clusters: ReusedCluster, bench: Bench) -> None:
    usual = use(clusters, bench)
    other = clusters.start(bench.request(SMALL))
    clusters.stop(other)
    assert other.resources["CPU"] == 1
    third = clusters.start(bench.request(SMALL, entry_env={"OMP_NUM_THREADS": "3"}))
    clusters.stop(third)
    assert len({usual.address, other.address, third.address}) == 3
    assert use(clusters, bench) is usual
    assert use(clusters, bench, settings=SMALL) is other


def test_a_run_that_needs_one_meanwhile_gets_another(clusters: ReusedCluster, bench: Bench) -> None:
    first = clusters.start(bench.request(SMALL))
    second = clusters.start(bench.request(SMALL))
    assert first.address != second.address
    clusters.stop(second)
    clusters.stop(first)


def test_a_cluster_that_cannot_be_emptied_is_replaced(marker: str, bench: Bench) -> None:
    clusters = ReusedCluster(marker, bench.folder / "clusters")
    try:
        first = use(clusters, bench, DETACHES_WITHOUT_A_NAME, SMALL)
        second = use(clusters, bench, settings=SMALL)
        assert first.address != second.address
        assert bench.processes_of(first, "no run") == frozenset()
    finally:
        clusters.close()


def test_a_cluster_that_died_is_replaced_and_its_logs_go_to_its_run(marker: str, bench: Bench) -> None:
    clusters = ReusedCluster(marker, bench.folder / "clusters")
    try:
        request = bench.request(SMALL)
        first = clusters.start(request)
        assert str(first.startup_log) in request.log_path.read_text()
        os.kill(first.pids[1], signal.SIGKILL)
        bench.wait_until(lambda: not is_alive(first))
        clusters.stop(first)
        assert request.copy_logs_to
        assert list(request.copy_logs_to.rglob("gcs_server.out"))
        second = use(clusters, bench, settings=SMALL)
        os.kill(second.pids[0], signal.SIGKILL)  # between two runs
        bench.wait_until(lambda: not is_alive(second))
        assert use(clusters, bench, settings=SMALL).address not in (first.address, second.address)
    finally:
        clusters.close()
    assert not [path for path in (first.temp_dir, second.temp_dir) if path and Path(path).exists()]


def test_what_empties_a_cluster_is_no_part_of_it(clusters: ReusedCluster, marker: str, bench: Bench) -> None:
    cluster = use(clusters, bench)
    of_the_cluster = find_processes(cluster.mark, cluster.processes)
    programs = {process: Path(f"/proc/{process.pid}/cmdline").read_bytes() for process in find_processes(Mark(marker))}
    sweepers = {process for process, program in programs.items() if b"sweeper_program.py" in program}
    assert sweepers
    assert sweepers.isdisjoint(of_the_cluster)
