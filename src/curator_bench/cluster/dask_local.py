"""Provider of Dask clusters on this machine: `distributed.LocalCluster`."""

from __future__ import annotations

from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.errors import ClusterError, MissingExtra

_LOOPBACK = "127.0.0.1"


class DaskLocalCluster:
    """Provider of clusters whose scheduler is a thread of this process, and whose workers are processes."""

    def __init__(self) -> None:
        self._running: dict[str, object] = {}

    def start(self, request: ClusterRequest) -> Cluster:
        asked = request.dask
        assert asked is not None
        try:
            from distributed import LocalCluster
        except ImportError:
            raise MissingExtra("a Dask cluster", "dask") from None
        try:
            cluster = LocalCluster(
                n_workers=asked.n_workers,
                threads_per_worker=asked.threads_per_worker,
                memory_limit=asked.memory_limit,
                host=_LOOPBACK,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": f"{_LOOPBACK}:0"},  # answers without a dashboard, at a free port
            )
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise ClusterError(f"the Dask cluster did not start: {type(error).__name__}: {error}") from error
        threads = asked.n_workers * asked.threads_per_worker
        address = str(cluster.scheduler_address)
        self._running[address] = cluster
        return Cluster(address, {"DASK_SCHEDULER_ADDRESS": address}, {"CPU": threads}, handle=cluster)

    def stop(self, cluster: Cluster) -> None:
        self._end(cluster.address)

    def close(self) -> None:
        for address in list(self._running):
            self._end(address)

    def _end(self, address: str) -> None:
        running = self._running.pop(address, None)
        if running is not None:
            running.close()  # type: ignore[attr-defined]
