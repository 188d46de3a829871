"""The provider of a run's cluster, by the run's `ray` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from curator_bench import extensions
from curator_bench.cluster.attached import AttachedCluster
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import Cluster, ClusterProvider, ClusterRequest
from curator_bench.cluster.reused import ReusedCluster
from curator_bench.errors import BenchError, ClusterError


class Clusters:
    """All clusters of one process. Standing ones stay until `close`."""

    def __init__(self, marker: str, directory: Path) -> None:
        """`marker` and `directory` are for standing clusters: what marks their processes, where their logs go."""
        self._local = LocalCluster()
        self._reused = ReusedCluster(marker, directory)
        self._attached = AttachedCluster()
        self._custom: dict[tuple[str, str], ClusterProvider] = {}

    def provider(self, request: ClusterRequest) -> ClusterProvider:
        """The provider that a request names, otherwise the one of ours that its settings ask for."""
        if request.provider:
            return self._custom_provider(request.provider, Path(request.working_dir or "."))
        if request.settings.address:
            return self._attached
        return self._reused if request.settings.reuse else self._local

    def _custom_provider(self, name: str, folder: Path) -> ClusterProvider:
        """One of each name for all runs of this process."""
        key = name, str(folder) if ".py:" in name else ""
        if key not in self._custom:
            self._custom[key] = _CustomProvider(name, folder)
        return self._custom[key]

    @contextmanager
    def cluster(self, request: ClusterRequest) -> Iterator[Cluster]:
        """Give the cluster of one run until the end of the block."""
        provider = self.provider(request)
        cluster = provider.start(request)
        try:
            yield cluster
        finally:
            provider.stop(cluster)

    def close(self) -> None:
        with ExitStack() as stack:
            for provider in (*self._custom.values(), self._local, self._reused, self._attached):
                stack.callback(provider.close)


class _CustomProvider:
    """A provider of somebody else's. What it raises is a ClusterError, as of ours."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        with self._named():
            self._theirs: ClusterProvider = extensions.find("cluster provider", name, folder)()

    def start(self, request: ClusterRequest) -> Cluster:
        with self._named():
            return self._theirs.start(request)

    def stop(self, cluster: Cluster) -> None:
        with self._named():
            self._theirs.stop(cluster)

    def close(self) -> None:
        with self._named():
            self._theirs.close()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except ClusterError:
            raise
        except Exception as error:  # whatever somebody else's code raises
            said = str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
            raise ClusterError(f"the cluster provider {self._name}: {said}") from error
