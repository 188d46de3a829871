"""The state of a cluster: whether it is alive, and the last lines of its logs."""

from __future__ import annotations

import socket

from curator_bench.cluster.listeners import other_user_at
from curator_bench.cluster.logs import last_lines
from curator_bench.cluster.model import Cluster
from curator_bench.measure.processes import is_ending

_CONNECT_TIMEOUT_S = 3.0


def is_alive(cluster: Cluster) -> bool:
    """True if its processes live and none was killed, or the address of the user's cluster accepts connections.

    Another user may have taken its port after its end.
    """
    if cluster.processes:
        return not any(map(is_ending, cluster.processes))
    return takes_connections(cluster.address) and other_user_at(cluster.address) is None


def ended_under(whom: str, cluster: Cluster) -> str:
    """Error message of a run whose cluster ended too early. The run's result does not count."""
    lines = "\n".join(f"  {line}" for line in last_log_lines(cluster))
    return f"the Ray cluster ended while {whom} ran. The end of its log:\n{lines}"


def last_log_lines(cluster: Cluster) -> tuple[str, ...]:
    """Read the last lines of its logs before it is stopped; empty for a cluster that we did not start."""
    return last_lines(cluster.startup_log, cluster.session_dir)


def takes_connections(address: str) -> bool:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S):
            return True
    except (OSError, ValueError):
        return False
