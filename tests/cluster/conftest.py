"""What the tests of clusters share: one standing cluster, started among everything a user may have set wrongly."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.measure.processes import Mark, ProcessId, busyness, find_processes
from curator_bench.values import RaySettings


class Bench:
    """A folder and an environment to ask for clusters with, and what a test does with them."""

    stale_token = "stale" * 12
    store_bytes = 100_000_000

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.env = dict(env)

    @classmethod
    def small(cls, **settings: object) -> RaySettings:
        values: dict[str, object] = {"num_cpus": 1, "object_store_size": cls.store_bytes, **settings}
        return RaySettings(**values)  # type: ignore[arg-type]

    def request(self, settings: RaySettings | None = None, **more: object) -> ClusterRequest:
        run = uuid.uuid4().hex
        return ClusterRequest(
            settings=settings or self.small(),
            marker=run,
            env=self.env,
            log_path=self.folder / run / "ray_startup.log",
            copy_logs_to=self.folder / run / "ray_cluster",
            **more,  # type: ignore[arg-type]
        )

    def run_python(self, program: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """In the environment a script gets: the user's without RAY_*, and what is given here."""
        command = [sys.executable, "-c", program, *arguments]
        environment = {**without_ray(self.env), **env}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=90 * busyness(), check=False
        )

    def connect(self, cluster: Cluster, program: str, *arguments: str) -> str:
        """What a script prints that finds the cluster by its environment."""
        outcome = self.run_python(program, *arguments, **cluster.env)
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stdout

    @staticmethod
    def wait_until(condition: Callable[[], bool], within_s: float = 20) -> None:
        deadline = time.monotonic() + within_s * busyness()
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.02)

    @staticmethod
    def processes_of(cluster: Cluster, marker: str) -> frozenset[ProcessId]:
        return find_processes(cluster.mark, cluster.processes) | find_processes(Mark(marker))


@pytest.fixture(scope="session")
def misled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user with a stale token file, a token of another cluster and an address of long ago."""
    home = tmp_path_factory.mktemp("home")
    (home / ".ray").mkdir()
    (home / ".ray" / "auth_token").write_text(Bench.stale_token)
    return {
        **os.environ,
        "HOME": str(home),
        "RAY_ADDRESS": "203.0.113.7:6379",
        "RAY_AUTH_MODE": "disabled",
        "RAY_AUTH_TOKEN": Bench.stale_token,
        "RAY_AUTH_TOKEN_PATH": str(home / "nowhere"),
        "RAY_object_spilling_config": "no JSON",
    }


@pytest.fixture
def bench(tmp_path: Path, misled: dict[str, str]) -> Bench:
    return Bench(tmp_path, misled)


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory, misled: dict[str, str]) -> Iterator[Cluster]:
    """One cluster for all tests of a module that leave it as it was; one that stands idle needs processor time, too."""
    provider = LocalCluster()
    settings = Bench.small(num_cpus=2, memory=500_000_000, resources={"disk": 3}, enable_object_spilling=False)
    request = Bench(tmp_path_factory.mktemp("standing"), misled).request(settings, entry_env={"FROM_THE_ENTRY": "yes"})
    yield provider.start(request)
    provider.close()


@pytest.fixture
def local() -> Iterator[LocalCluster]:
    provider = LocalCluster()
    yield provider
    provider.close()
