"""Real child processes to measure, and a stand-in for the NVIDIA driver where there is none."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.values import RaySettings

SOURCE = Path(__file__).parents[2] / "src"


class Child:
    """A Python process that says "ready" and then waits for a line, unless its code does otherwise."""

    def __init__(self, code: str, *arguments: object, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.seen: set[int] = {self.process.pid}

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, text: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def pids(self) -> set[int]:
        """The living processes of its tree, also those that have left it since they were first seen."""
        for pid in tuple(self.seen):
            try:
                self.seen.update(child.pid for child in psutil.Process(pid).children(recursive=True))
            except psutil.NoSuchProcess:
                self.seen.discard(pid)
        return self.seen

    def end(self) -> None:
        for pid in self.pids():
            try:
                psutil.Process(pid).kill()
            except psutil.NoSuchProcess:
                continue
        self.process.communicate()


@pytest.fixture
def start_child() -> Iterator[Callable[..., Child]]:
    """Start a `Child`; it and its descendants are ended with the test."""
    children: list[Child] = []

    def start(code: str, *arguments: object, env: dict[str, str] | None = None) -> Child:
        children.append(Child(code, *arguments, env=env))
        return children[-1]

    yield start
    for child in children:
        child.end()


@pytest.fixture
def with_gpus(nvml_library: Path, tmp_path: Path) -> Callable[..., Any]:
    """Run code in a process that has GPUs in these states, with the real pynvml; gives the JSON it printed last."""

    def run(states: str, code: str, timeout_s: float = 60, **variables: str) -> Any:
        listed = tmp_path / "gpus"
        listed.write_text("".join(f"{state}\n" for state in states.split()))
        env = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        env |= {
            "NVML_STAND_IN": str(listed),
            "LD_LIBRARY_PATH": str(nvml_library),
            "PYTHONPATH": str(SOURCE),
        } | variables
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=timeout_s)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


class RayClusters:
    """Small clusters, for what is measured of Ray."""

    store_bytes = 100_000_000

    @contextmanager
    def start(self, folder: Path, **environment: str) -> Iterator[Cluster]:
        """Two CPUs and a small object store; `environment` is its processes'."""
        provider = LocalCluster()
        request = ClusterRequest(
            settings=RaySettings(num_cpus=2, object_store_size=self.store_bytes),
            marker=secrets.token_hex(8),
            env=os.environ,
            log_path=folder / "ray_startup.log",
            entry_env=environment,
        )
        try:
            yield provider.start(request)
        finally:
            provider.close()

    @staticmethod
    def environment_for(cluster: Cluster) -> dict[str, str]:
        """What leads a child process into the cluster."""
        return {**without_ray(os.environ), **cluster.env}

    def add_node(self, cluster: Cluster, *options: str) -> subprocess.Popen[bytes]:
        """One more node on this machine; it goes with the cluster, whatever becomes of the test."""
        assert cluster.mark
        size = ["--num-cpus=1", f"--object-store-memory={self.store_bytes}"]
        ray = str(Path(sys.executable).with_name("ray"))
        return subprocess.Popen(
            [ray, "start", "--block", f"--address={cluster.address}", *size, *options],
            env={**self.environment_for(cluster), **cluster.mark.environment()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


@pytest.fixture(scope="session")
def clusters() -> RayClusters:
    return RayClusters()


@pytest.fixture(scope="module")
def cluster(clusters: RayClusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Small; for tests that leave it as it was."""
    with clusters.start(tmp_path_factory.mktemp("ray")) as found:
        yield found
