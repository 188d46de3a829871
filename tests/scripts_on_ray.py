"""The scripts of the suites, run on a cluster that the tests of a module share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.values import RaySettings


@contextmanager
def small_cluster(folder: Path) -> Iterator[Cluster]:
    provider = LocalCluster()
    request = ClusterRequest(
        settings=RaySettings(num_cpus=2, object_store_size=200_000_000),
        marker=uuid.uuid4().hex,
        env=os.environ,
        log_path=folder / "ray_startup.log",
    )
    try:
        yield provider.start(request)
    finally:
        provider.close()


def metrics_of(cluster: Cluster, script: Path, results: Path, *options: str | Path, **variables: str) -> dict[str, Any]:
    """The metrics of a script that found the cluster by its environment."""
    outcome = subprocess.run(
        [sys.executable, script, *options, "--benchmark-results-path", results],
        env={**without_ray(os.environ), **cluster.env, **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    metrics: dict[str, Any] = json.loads((results / "metrics.json").read_text())
    return metrics
