"""The provider of a run's cluster, by the run's `ray` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from curator_bench import extensions
from curator_bench.cluster.model import Cluster, ClusterProvider, ClusterRequest
from curator_bench.errors import BenchError, ClusterError

_LOCAL, _REUSED, _ATTACHED, _DASK = "<local>", "<reused>", "<attached>", "<dask>"
"""Keys of our own providers; no entry point or module has such a name."""


class Clusters:
    """All clusters of one process. Shared ones stay until `close`."""

    def __init__(self, marker: str, directory: Path) -> None:
        """`marker` marks the processes of shared clusters; their logs go to `directory`."""
        self._marker, self._directory = marker, directory
        self._providers: dict[tuple[str, str], ClusterProvider] = {}
        """One of each kind or name for all runs of this process, made on first use."""

    def provider(self, request: ClusterRequest) -> ClusterProvider:
        """The provider that the request names, else our own for its settings."""
        key = _key(request)
        if key not in self._providers:
            self._providers[key] = self._new(*key)
        return self._providers[key]

    def _new(self, name: str, folder: str) -> ClusterProvider:
        """Make a provider. A provider is imported only when a run asks for it."""
        if name == _ATTACHED:
            from curator_bench.cluster.attached import AttachedCluster

            return AttachedCluster()
        if name == _REUSED:
            from curator_bench.cluster.reused import ReusedCluster

            return ReusedCluster(self._marker, self._directory)
        if name == _LOCAL:
            from curator_bench.cluster.local import LocalCluster

            return LocalCluster()
        if name == _DASK:
            from curator_bench.cluster.dask_local import DaskLocalCluster

            return DaskLocalCluster()
        return _CustomProvider(name, Path(folder or "."))

    @contextmanager
    def cluster(self, request: ClusterRequest) -> Iterator[Cluster]:
        """Provide the cluster of one run until the end of the block."""
        provider = self.provider(request)
        cluster = provider.start(request)
        try:
            yield cluster
        finally:
            provider.stop(cluster)

    def close(self) -> None:
        with ExitStack() as stack:
            for provider in self._providers.values():
                stack.callback(provider.close)


def _key(request: ClusterRequest) -> tuple[str, str]:
    """Name of the provider, with the folder that its file is looked for in."""
    if request.provider:
        return request.provider, request.working_dir or "." if ".py:" in request.provider else ""
    if request.dask is not None:
        return _DASK, ""
    if request.settings.address:
        return _ATTACHED, ""
    return (_REUSED if request.settings.reuse else _LOCAL), ""


class _CustomProvider:
    """A user's provider. Its exceptions become ClusterErrors."""

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
