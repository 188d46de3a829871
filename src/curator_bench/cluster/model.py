"""A cluster as its users see it, and the protocol of providers of clusters."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from curator_bench.measure.processes import Mark, ProcessId
from curator_bench.values import DaskSettings, RaySettings

DEFAULT_START_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """The cluster that one run asks for, and the places of its logs."""

    settings: RaySettings
    marker: str
    """The value of CURATOR_BENCH_RUN that all processes of the run carry."""
    env: Mapping[str, str] = field(repr=False)
    """The environment that the cluster's processes inherit, without its RAY_* variables."""
    log_path: Path
    """The file for the output of `ray start` (`logs/ray_startup.log`)."""
    copy_logs_to: Path | None = None
    """The folder that keeps Ray's own logs after the cluster has ended (`ray_cluster/`)."""
    entry_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The entry's `env:`. Its RAY_* variables are kept, except the address and the token."""
    python: str = sys.executable
    """The script's interpreter. The cluster runs under it if it has Ray, else under ours."""
    working_dir: str | None = None
    spill_dir: Path | None = None
    """The folder for objects that do not fit into memory; by default in the cluster's temporary directory."""
    start_timeout_s: float = DEFAULT_START_TIMEOUT_S
    address_came_from: str = "ray: address:"
    """The option that gave the address of the user's cluster, for messages."""
    dask: DaskSettings | None = None
    """The Dask cluster that is asked for, instead of one of Ray; `settings` then says nothing."""
    provider: str = ""
    """The name of a provider that others bring; empty for ours."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster that is ready for a driver, or a Dask cluster that is ready for a client."""

    address: str
    env: Mapping[str, str] = field(repr=False)
    """Environment variables with which `ray.init()` in a child process finds this cluster and may connect."""
    resources: Mapping[str, float]
    """All its resources, as Ray reports them: CPU, GPU, memory, object_store_memory, custom ones."""
    mark: Mark | None = None
    """The mark of all its processes, and of no others; None if we did not start it."""
    processes: tuple[ProcessId, ...] = ()
    """Its main processes, without which it ends, the head first; empty if we did not start it."""
    temp_dir: Path | None = None
    session_dir: Path | None = None
    """The folder of Ray's logs while the cluster lives."""
    startup_log: Path | None = None
    python: str = ""
    """The interpreter that has the cluster's Ray."""
    node_id: str = ""
    ray_version: str = ""
    dashboard_url: str = ""
    handle: Any = field(default=None, repr=False, compare=False)
    """For a Dask cluster, the object of its library, which a client connects to; None to use the address."""

    @property
    def token(self) -> str:
        """The token for connecting; empty if there is none, or it is in the user's own file."""
        return self.env.get("RAY_AUTH_TOKEN", "")

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self.processes)

    def driver(self, **init_options: Any) -> AbstractContextManager[ModuleType]:
        """Connect this process to the cluster as a driver, until the end of the block:

            with cluster.driver() as ray:
                assert ray.get(ray.put(1)) == 1

        The options are those of `ray.init`. One driver at a time; it may not be nested.
        """
        from curator_bench.cluster.driver import driver

        return driver(self.address, self.env, **init_options)


class ClusterProvider(Protocol):
    """Starts and stops clusters."""

    def start(self, request: ClusterRequest) -> Cluster:
        """Return a ready cluster with the requested resources. Raises ClusterError."""

    def stop(self, cluster: Cluster) -> None:
        """Clean up after a run. Remove everything of the run from a cluster that stays, or the whole cluster."""

    def close(self) -> None:
        """End all clusters that still run."""
