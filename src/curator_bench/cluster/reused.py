"""Shared clusters: one for all runs of a session with equal `ray` blocks, emptied between them."""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path

from curator_bench import interrupts
from curator_bench.cluster.environment import head_environment
from curator_bench.cluster.health import is_alive
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.cluster.sweeper import Sweeper
from curator_bench.errors import ClusterError
from curator_bench.files import safe_files
from curator_bench.measure.processes import Mark
from curator_bench.measure.programs import ProgramFailed

_log = logging.getLogger(__name__)
_POINTER = "This run was given a standing cluster (ray: {{reuse: true}}). What Ray printed at its start: {path}\n"


@dataclass(slots=True)
class _StandingCluster:
    """A shared cluster and the sweeper that empties it."""

    cluster: Cluster
    sweeper: Sweeper
    key: str
    used_by: ClusterRequest | None

    def is_fit(self) -> bool:
        """True if it is alive and nothing of the last run is left on it."""
        try:
            left = self.sweeper.what_is_left() if is_alive(self.cluster) else []
        except ProgramFailed as failure:
            left = [str(failure)]
        if not is_alive(self.cluster):
            left = ["nothing, it has ended"]
        if left:
            _log.warning("a standing Ray cluster is replaced; left on it: %s", ", ".join(left))
        return not left


class ReusedCluster:
    """Provider of one cluster for several runs, one at a time. It belongs to one process."""

    def __init__(self, marker: str, directory: Path) -> None:
        """`marker` marks the processes of all shared clusters, which outlive the runs; logs go to `directory`."""
        self._marker = marker
        self._directory = directory
        self._local = LocalCluster()
        self._standing: list[_StandingCluster] = []
        self._started = 0

    def start(self, request: ClusterRequest) -> Cluster:
        standing = self._fit(_key(request)) or self._begin(request)
        _leave_a_pointer(request, standing.cluster)
        standing.used_by = request
        return standing.cluster

    def stop(self, cluster: Cluster) -> None:
        """Begin to empty it, in the background. If it died, remove it and give its logs to the run."""
        for standing in [one for one in self._standing if one.cluster is cluster]:
            request, standing.used_by = standing.used_by, None
            try:
                if not is_alive(cluster):
                    raise ProgramFailed("the cluster has ended")
                standing.sweeper.begin()
            except ProgramFailed:
                self._end(standing, request.copy_logs_to if request else None)

    def close(self) -> None:
        with ExitStack() as stack:
            for standing in self._standing:
                stack.callback(self._end, standing)

    def _fit(self, key: str) -> _StandingCluster | None:
        for standing in [one for one in self._standing if one.key == key and one.used_by is None]:
            if standing.is_fit():
                return standing
            self._end(standing)
        return None

    def _begin(self, request: ClusterRequest) -> _StandingCluster:
        self._started += 1
        log_path = self._directory / f"ray_startup_{self._started}.log"
        own = replace(
            request,
            marker=self._marker,
            log_path=log_path,
            copy_logs_to=self._directory / f"ray_cluster_{self._started}",
        )
        cluster = self._local.start(own)
        with ExitStack() as undo:
            undo.callback(self._local.stop, cluster)
            standing = _StandingCluster(cluster, _connected_sweeper(cluster, own), _key(request), None)
            undo.pop_all()
        self._standing.append(standing)
        return standing

    def _end(self, standing: _StandingCluster, copy_logs_to: Path | None = None) -> None:
        with interrupts.held():
            self._standing.remove(standing)
            standing.sweeper.end()
            self._local.stop(standing.cluster, copy_logs_to)


def _connected_sweeper(cluster: Cluster, request: ClusterRequest) -> Sweeper:
    env = head_environment(request.env, {}, cluster.token, (Mark(request.marker),))
    try:
        sweeper = Sweeper(cluster.python, {**env, **cluster.env}, request.log_path)
        sweeper.wait_until_connected()
    except ProgramFailed as failure:
        raise ClusterError(
            f"no driver could connect to the Ray cluster: {failure}; see {request.log_path}"
        ) from failure
    return sweeper


def _leave_a_pointer(request: ClusterRequest, cluster: Cluster) -> None:
    try:
        request.log_path.parent.mkdir(parents=True, exist_ok=True)
        safe_files.write_text(request.log_path, _POINTER.format(path=cluster.startup_log))
    except OSError as error:
        raise ClusterError(f"nothing can be written to {request.log_path}: {error}") from error


def _key(request: ClusterRequest) -> str:
    """Key that is equal for runs that can share a cluster. The environment counts, because the workers inherit it."""
    settings = {field.name: getattr(request.settings, field.name) for field in fields(request.settings)}
    settings["resources"] = dict(request.settings.resources)
    environment = [dict(request.entry_env), request.env.get("CUDA_VISIBLE_DEVICES")]
    return json.dumps([settings, request.python, request.working_dir, environment], sort_keys=True)
