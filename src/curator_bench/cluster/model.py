"""What a cluster is to those who use it, and what every provider of clusters can do. How they do it is theirs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from curator_bench.measure.processes import Mark, ProcessId
from curator_bench.values import RaySettings

DEFAULT_START_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """The cluster one run asks for, and what to do with what it writes."""

    settings: RaySettings
    marker: str
    """The value of CURATOR_BENCH_RUN that all processes of the run carry."""
    env: Mapping[str, str] = field(repr=False)
    """The environment the cluster's processes inherit; any RAY_* in it is dropped."""
    log_path: Path
    """Where the output of `ray start` goes (`logs/ray_startup.log`)."""
    copy_logs_to: Path | None = None
    """Where Ray's own logs are kept after the cluster has ended (`ray_cluster/`)."""
    entry_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the entry sets with `env:`; its RAY_* stay, but for the address and the token."""
    python: str = sys.executable
    """The script's interpreter. The cluster runs under it when it has Ray, else under ours."""
    working_dir: str | None = None
    spill_dir: Path | None = None
    """Where objects that do not fit into memory go; by default into the cluster's temporary directory."""
    start_timeout_s: float = DEFAULT_START_TIMEOUT_S
    address_came_from: str = "ray: address:"
    """What a message about the address of the user's own cluster begins with."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster that is ready for a driver."""

    address: str
    env: Mapping[str, str] = field(repr=False)
    """What to add to a child's environment, so that `ray.init()` there finds and may enter this cluster."""
    resources: Mapping[str, float]
    """All it has, as the cluster itself says: CPU, GPU, memory, object_store_memory, your own."""
    mark: Mark | None = None
    """What all of its processes carry, and no process of another cluster; None when we did not start it."""
    processes: tuple[ProcessId, ...] = ()
    """Those it cannot live without, the head first; empty when we did not start it."""
    temp_dir: Path | None = None
    session_dir: Path | None = None
    """Where Ray keeps its logs while the cluster lives."""
    startup_log: Path | None = None
    python: str = ""
    """The interpreter whose Ray it is."""
    node_id: str = ""
    ray_version: str = ""
    dashboard_url: str = ""

    @property
    def token(self) -> str:
        """What whoever speaks to the cluster must know; empty when it has none or it stands in the user's own file."""
        return self.env.get("RAY_AUTH_TOKEN", "")

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self.processes)

    def driver(self, **init_options: Any) -> AbstractContextManager[ModuleType]:
        """Make this process a driver of the cluster, and let it be one no more at the end of the block:

            with cluster.driver() as ray:
                assert ray.get(ray.put(1)) == 1

        The options are those of `ray.init`. One driver at a time; it may not be nested.
        """
        from curator_bench.cluster.driver import driver

        return driver(self.address, self.env, **init_options)


class ClusterProvider(Protocol):
    """Hands out clusters and takes them back."""

    def start(self, request: ClusterRequest) -> Cluster:
        """A cluster that is ready and has what was asked for; ClusterError when there is none to be had."""

    def stop(self, cluster: Cluster) -> None:
        """The run is over: nothing of it is left on the cluster, or of the cluster on the machine."""

    def close(self) -> None:
        """End whatever still stands."""
