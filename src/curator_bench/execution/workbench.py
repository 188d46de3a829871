"""What all runs of one process share: the mark of their processes, the guard, standing clusters, sampling threads."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from curator_bench.cluster.providers import Clusters
from curator_bench.execution.guard import Guard
from curator_bench.measure.schedule import Schedule
from curator_bench.provenance.environment import Provenance


class Workbench:
    """Made before the first run of a process, closed after its last."""

    def __init__(
        self,
        session_dir: Path,
        controller: int | None = None,
        *,
        in_ray_worker: bool = False,
        provenance: Provenance | None = None,
    ) -> None:
        """`controller`: the process this one works for (as a worker of pytest-xdist does), and does not outlive.

        `provenance`: what the invocation has looked up already; otherwise each run looks where its files are.
        """
        self.provenance = provenance
        self.marker = secrets.token_hex(8)
        self.environ: Mapping[str, str] = os.environ
        """What scripts inherit, as far as they may."""
        self.guard = Guard(self.marker, controller, detached=in_ray_worker)
        self.clusters = Clusters(self.marker, session_dir / "standing_clusters")
        self.schedule = Schedule()
        self.gpu_schedule = Schedule()  # its own thread: a driver that hangs must not stop what is sampled otherwise
        self.gpus_answer = True
        """False once the driver has left a question unanswered: it is not asked again, which would take as long."""

    def close(self) -> None:
        """Ends standing clusters; the guard then looks for anything else."""
        try:
            self.clusters.close()
        finally:
            self.guard.dismiss()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
