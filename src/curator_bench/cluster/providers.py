"""The provider of a run's cluster, by the run's `ray` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from curator_bench.cluster.attached import AttachedCluster
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import Cluster, ClusterProvider, ClusterRequest
from curator_bench.cluster.reused import ReusedCluster
from curator_bench.values import RaySettings


class Clusters:
    """All clusters of one process. Standing ones stay until `close`."""

    def __init__(self, marker: str, directory: Path) -> None:
        """`marker` and `directory` are for standing clusters: what marks their processes, where their logs go."""
        self._local = LocalCluster()
        self._reused = ReusedCluster(marker, directory)
        self._attached = AttachedCluster()

    def provider(self, settings: RaySettings) -> ClusterProvider:
        if settings.address:
            return self._attached
        return self._reused if settings.reuse else self._local

    @contextmanager
    def cluster(self, request: ClusterRequest) -> Iterator[Cluster]:
        """Give the cluster of one run until the end of the block."""
        provider = self.provider(request.settings)
        cluster = provider.start(request)
        try:
            yield cluster
        finally:
            provider.stop(cluster)

    def close(self) -> None:
        with ExitStack() as stack:
            for provider in (self._local, self._reused, self._attached):
                stack.callback(provider.close)
