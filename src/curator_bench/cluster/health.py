"""Whether a cluster lives, and what it said last."""

from __future__ import annotations

import socket

from curator_bench.cluster.logs import last_lines
from curator_bench.cluster.model import Cluster
from curator_bench.measure.processes import is_running

_CONNECT_TIMEOUT_S = 3.0


def is_alive(cluster: Cluster) -> bool:
    """Costs microseconds for a cluster of ours; for the user's own, whether its address still takes connections."""
    if cluster.processes:
        return all(is_running(process) for process in cluster.processes)
    return takes_connections(cluster.address)


def ended_under(whom: str, cluster: Cluster) -> str:
    """The message for a run whose cluster is gone: what came of it then counts for nothing."""
    lines = "\n".join(f"  {line}" for line in last_log_lines(cluster))
    return f"the Ray cluster ended under {whom}. The end of its log:\n{lines}"


def last_log_lines(cluster: Cluster) -> tuple[str, ...]:
    """To be asked before the cluster is stopped; nothing is known of a cluster that we did not start."""
    return last_lines(cluster.startup_log, cluster.session_dir)


def takes_connections(address: str) -> bool:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S):
            return True
    except (OSError, ValueError):
        return False
