"""What `cluster.local` promises: a cluster with all that was asked for, closed to others, of which nothing stays."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from curator_bench import interrupts
from curator_bench.cluster.environment import CLUSTER_VARIABLE
from curator_bench.cluster.health import is_alive, last_log_lines
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.cluster.temp_dirs import remove_leftovers
from curator_bench.errors import ClusterError
from curator_bench.measure.processes import (
    Mark,
    ProcessId,
    busyness,
    end_processes,
    find_processes,
    identify,
    is_running,
)

if TYPE_CHECKING:
    from cluster.conftest import Bench

LOOKS_AROUND = """
import json, os, ray
from ray._private import state
ray.init()
environment = ray.get(ray.remote(lambda: dict(os.environ)).remote())
spilling = state.state.get_system_config()["automatic_object_spilling_enabled"]
print(json.dumps([ray.cluster_resources(), environment, spilling]))
"""
INTRUDES = """
import ray, sys
ray.init(address=sys.argv[1])
print("got in:", ray.cluster_resources())
"""
LEAVES_THINGS = """
import numpy, os, ray, subprocess, sys
ray.init()
kept = ray.put(numpy.ones(1_000_000))
@ray.remote
class Messy:
    def mess(self, path):
        subprocess.run(["sh", "-c", "setsid sleep 600 & env -i setsid sleep 601 &"], check=True)
        self.shared = numpy.memmap(path, mode="w+", shape=1_000_000)
        return os.getpid()
    def leave(self, code):
        return int(subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE).stdout)
messy = Messy.options(name="messy", lifetime="detached").remote()
ray.get(messy.mess.remote(sys.argv[1]))
print(ray.get(messy.leave.remote(sys.argv[2])))
"""
SHEDS_ALL_MARKS = """
import os, resource
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        resource.prlimit(0, 10, (-1, -1))
        print(os.getpid(), flush=True)
        os.close(1)
        os.execve("/bin/sleep", ["sleep", "603"], {})
"""
OWNS_A_CLUSTER = """
import json, os, signal, sys
from pathlib import Path
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import ClusterRequest
from curator_bench.values import RaySettings
request = ClusterRequest(RaySettings(num_cpus=1), sys.argv[1], dict(os.environ), Path(sys.argv[2]))
cluster = LocalCluster().start(request)
print(json.dumps([cluster.mark.value, str(cluster.temp_dir), cluster.pids[0]]), flush=True)
signal.pause()
"""


def test_a_driver_finds_all_that_was_asked_for(standing: Cluster, bench: Bench) -> None:
    resources, _, spilling = json.loads(bench.connect(standing, LOOKS_AROUND))
    asked = {"CPU": 2, "memory": 500_000_000, "disk": 3, "object_store_memory": bench.store_bytes}
    assert {name: resources.get(name) for name in asked} == asked
    assert {name: standing.resources.get(name) for name in asked} == asked
    assert "GPU" not in resources
    assert spilling is False


def test_workers_see_the_entrys_variables_and_nothing_of_the_users_ray(standing: Cluster, bench: Bench) -> None:
    _, environment, _ = json.loads(bench.connect(standing, LOOKS_AROUND))
    assert environment["FROM_THE_ENTRY"] == "yes"
    assert environment["RAY_AUTH_TOKEN"] == standing.token
    assert bench.stale_token not in environment.values()
    assert {"RAY_AUTH_TOKEN_PATH", "RAY_object_spilling_config"}.isdisjoint(environment)


@pytest.mark.parametrize(
    "key",
    [
        {"RAY_AUTH_MODE": "disabled"},
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 64},
        {"RAY_AUTH_MODE": "token"},
    ],
    ids=["without a token", "with a wrong token", "with the token file of another cluster"],
)
def test_nobody_else_gets_in(standing: Cluster, bench: Bench, key: dict[str, str]) -> None:
    outcome = bench.run_python(INTRUDES, standing.address, **key, RAY_gcs_server_port_wait_time_s="1")
    assert outcome.returncode != 0
    assert "got in" not in outcome.stdout
    assert "token is missing or incorrect" in outcome.stderr


@pytest.mark.parametrize("token", [None, "f" * 64])
def test_no_call_of_any_service_is_answered_without_the_token(standing: Cluster, token: str | None) -> None:
    grpc = pytest.importorskip("grpc")
    metadata = [("authorization", f"Bearer {token}")] if token else None
    refused = {"UNAUTHENTICATED": 0, "UNIMPLEMENTED": 0}
    for port in listening_ports(standing):
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for name in names_of_calls():
                with pytest.raises(grpc.RpcError) as answer:
                    channel.unary_unary(name)(b"", timeout=5 * busyness(), metadata=metadata)
                code = answer.value.code().name
                if code == "UNAVAILABLE":  # it speaks HTTP, and asks for the token there
                    break
                refused[code] += 1
    assert refused["UNAUTHENTICATED"] > 50


def listening_ports(cluster: Cluster) -> set[int]:
    processes = [psutil.Process(one.pid) for one in find_processes(cluster.mark)]
    connections = [connection for process in processes for connection in process.net_connections()]
    return {connection.laddr.port for connection in connections if connection.status == psutil.CONN_LISTEN}


def names_of_calls() -> list[str]:
    """The calls of all services that Ray's Python part knows."""
    folder = Path(next(iter(importlib.import_module("ray.core.generated").__path__)))
    names = []
    for file in folder.rglob("*_pb2.py"):
        module = ".".join(file.relative_to(folder.parents[2]).with_suffix("").parts)
        with suppress(ImportError, TypeError):
            services = importlib.import_module(module).DESCRIPTOR.services_by_name.values()
            names += [f"/{service.full_name}/{method.name}" for service in services for method in service.methods]
    return names


def test_nothing_of_a_stopped_cluster_is_left_but_its_logs(local: LocalCluster, bench: Bench) -> None:
    request = bench.request()
    cluster = local.start(request)
    shared_file = Path("/dev/shm", request.marker)
    left = identify(int(bench.connect(cluster, LEAVES_THINGS, str(shared_file), SHEDS_ALL_MARKS).split()[-1]))
    assert left
    assert shared_file.exists()
    assert cluster.temp_dir
    assert cluster.temp_dir.exists()
    marked = bench.processes_of(cluster, request.marker)
    assert len(marked) >= 5
    local.stop(cluster)
    assert bench.processes_of(cluster, request.marker) == frozenset()
    assert not any(is_running(process) for process in marked)
    assert not is_running(left)
    assert not cluster.temp_dir.exists()
    assert not shared_file.exists()
    assert not is_alive(cluster)
    assert_logs_are_kept(request, cluster)


def test_ctrl_c_while_a_cluster_ends_takes_effect_when_it_has_ended(local: LocalCluster, bench: Bench) -> None:
    cluster = local.start(bench.request())

    def press_when_it_is_dead() -> None:
        while any(map(is_running, cluster.processes)):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interrupts.heeded():
            pressing = threading.Thread(target=press_when_it_is_dead)
            pressing.start()
            with pytest.raises(KeyboardInterrupt):
                stop_and_wait(local, cluster, pressing)
            local.close()
    finally:
        signal.signal(signal.SIGINT, before)
    assert cluster.temp_dir
    assert not cluster.temp_dir.exists()


def stop_and_wait(local: LocalCluster, cluster: Cluster, pressing: threading.Thread) -> None:
    local.stop(cluster)
    pressing.join(10 * busyness())
    time.sleep(1)


def assert_logs_are_kept(request: ClusterRequest, cluster: Cluster) -> None:
    assert request.copy_logs_to
    kept = [path for path in request.copy_logs_to.rglob("*") if not path.is_dir()]
    assert {"raylet.out", "gcs_server.out"} <= {path.name for path in kept}
    assert all(path.is_file() for path in kept)
    assert not list(request.copy_logs_to.glob("runtime_resources*"))
    assert not [path for path in (*kept, request.log_path) if cluster.token in path.read_text(errors="replace")]


def test_every_process_of_a_cluster_carries_its_mark(standing: Cluster) -> None:
    """Also those that rename themselves, which writes over the environment of a process that does not take care."""
    assert standing.mark
    tree = find_processes(None, standing.processes)
    assert len(tree) >= 5
    carried = [Path(f"/proc/{process.pid}/environ").read_bytes() for process in tree if is_running(process)]
    assert all(standing.mark.value.encode() in environment for environment in carried)


@pytest.mark.slow
def test_three_started_at_the_same_moment_all_come_up(bench: Bench) -> None:
    providers = [LocalCluster() for _ in range(3)]
    try:
        with ThreadPoolExecutor(3) as pool:
            settings = bench.small(start_retries=0)
            clusters = list(pool.map(lambda provider: provider.start(bench.request(settings)), providers))
        assert len({cluster.address for cluster in clusters}) == 3
        assert len({cluster.token for cluster in clusters}) == 3
        assert_only_the_dead_one_counts_as_dead(clusters, bench)
    finally:
        for provider in providers:
            provider.close()


def assert_only_the_dead_one_counts_as_dead(clusters: list[Cluster], bench: Bench) -> None:
    os.kill(clusters[0].pids[0], signal.SIGKILL)
    bench.wait_until(lambda: not is_alive(clusters[0]))
    assert all(is_alive(cluster) for cluster in clusters[1:])


@pytest.mark.slow
def test_a_cluster_that_lost_its_raylet_is_dead_and_leaves_nothing(local: LocalCluster, bench: Bench) -> None:
    request = bench.request()
    cluster = local.start(request)
    bench.connect(cluster, LEAVES_THINGS, str(bench.folder / "shared"), SHEDS_ALL_MARKS)
    assert is_alive(cluster)
    os.kill(cluster.pids[2], signal.SIGKILL)
    bench.wait_until(lambda: not is_alive(cluster))
    assert any("raylet" in line for line in last_log_lines(cluster))
    bench.wait_until(lambda: not any(is_running(process) for process in cluster.processes))
    started_by_a_worker = {b"sleep\x00600\x00", b"sleep\x00601\x00"}  # they have no parent to be found by
    bench.wait_until(lambda: set(map(command_of, bench.processes_of(cluster, request.marker))) == started_by_a_worker)
    local.stop(cluster)
    assert bench.processes_of(cluster, request.marker) == frozenset()
    assert cluster.temp_dir
    assert not cluster.temp_dir.exists()


def command_of(process: ProcessId) -> bytes:
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


@pytest.mark.slow
def test_a_start_that_fails_is_tried_again_and_says_why(local: LocalCluster, bench: Bench) -> None:
    request = bench.request(bench.small(object_store_size=10**15, start_retries=1))
    with pytest.raises(ClusterError, match="did not start, tried 2 times") as failure:
        local.start(request)
    assert "object store" in str(failure.value)
    assert request.log_path.read_text().count("Local node IP") == 2
    assert find_processes(Mark(request.marker)) == frozenset()
    assert not [directory for directory in Path("/tmp").glob("cb-*") if is_of(directory, request)]


def is_of(directory: Path, request: ClusterRequest) -> bool:
    owner = directory / "owner.json"
    return owner.exists() and request.marker in owner.read_text()


def test_a_start_that_takes_too_long_is_ended(local: LocalCluster, bench: Bench) -> None:
    request = bench.request(bench.small(start_retries=0), start_timeout_s=0.05)
    with pytest.raises(ClusterError, match=r"did not start, tried once: no answer within 0\.05 s"):
        local.start(request)
    assert find_processes(Mark(request.marker)) == frozenset()


def test_nothing_of_a_start_that_was_interrupted_is_left(local: LocalCluster, bench: Bench) -> None:
    request = bench.request()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.4)
    try:
        with pytest.raises(KeyboardInterrupt):
            local.start(request)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert find_processes(Mark(request.marker)) == frozenset()
    assert not [directory for directory in Path("/tmp").glob("cb-*") if is_of(directory, request)]


@pytest.mark.slow
def test_a_cluster_ends_with_the_process_that_started_it(bench: Bench) -> None:
    with owned_by_another(bench) as (owner, mark, temp_dir, _, _):
        owner.kill()
        owner.wait(timeout=30 * busyness())
        bench.wait_until(lambda: find_processes(mark) == frozenset() and not temp_dir.exists())


@pytest.mark.slow
@pytest.mark.parametrize("told_whose", [True, False])
def test_what_a_killed_process_left_is_removed_by_the_next(bench: Bench, told_whose: bool) -> None:
    with owned_by_another(bench) as (owner, mark, temp_dir, head, marker):
        os.kill(head, signal.SIGSTOP)  # it cannot end by itself now
        remove_leftovers()
        assert find_processes(mark)
        assert temp_dir.exists()
        owner.kill()
        owner.wait(timeout=30 * busyness())
        remove_leftovers(marker if told_whose else None)
        assert find_processes(mark) == frozenset()
        assert not temp_dir.exists()


@contextmanager
def owned_by_another(bench: Bench) -> Iterator[tuple[subprocess.Popen[str], Mark, Path, int, str]]:
    marker = bench.request().marker
    command = [sys.executable, "-c", OWNS_A_CLUSTER, marker, str(bench.folder / "ray_startup.log")]
    env = {**bench.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    owner = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout
        mark, temp_dir, head = json.loads(owner.stdout.readline())
        yield owner, Mark(mark, CLUSTER_VARIABLE), Path(temp_dir), head, marker
    finally:
        owner.kill()
        owner.communicate(timeout=30 * busyness())
        assert end_processes(Mark(marker), grace_s=0) == frozenset()
        remove_leftovers(marker)
