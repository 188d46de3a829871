"""Resources that all runs of one process share: the processes' mark, the guard, standing clusters, sampling threads."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from curator_bench.cluster.providers import Clusters
from curator_bench.execution.guard import Guard
from curator_bench.measure.ray_tasks import RayTaskPrograms
from curator_bench.measure.schedule import Schedule
from curator_bench.provenance.environment import Provenance


class Workbench:
    """Shared resources, created before a process's first run and closed after its last."""

    def __init__(
        self,
        session_dir: Path,
        controller: int | None = None,
        *,
        in_ray_worker: bool = False,
        provenance: Provenance | None = None,
    ) -> None:
        """Set up the workbench.

        `controller` is the process that this one works for, as an xdist worker does. This process ends with it.

        `provenance` holds facts the invocation has looked up already; otherwise each run looks them up itself.
        """
        self.provenance = provenance
        self.marker = secrets.token_hex(8)
        self.environ: Mapping[str, str] = os.environ
        """Environment that scripts inherit, apart from variables they must not see."""
        self.guard = Guard(self.marker, controller, detached=in_ray_worker)
        self.clusters = Clusters(self.marker, session_dir / "standing_clusters")
        self.schedule = Schedule()
        self.gpu_schedule = Schedule()  # its own thread, so that a hanging driver does not stop other sampling
        self.task_programs = RayTaskPrograms(self.schedule)
        self.gpus_answer = True
        """False once the driver did not answer in time.

        It is not asked again, because each attempt would hang as long.
        """

    def close(self) -> None:
        """End standing clusters; the guard then looks for anything else."""
        try:
            self.task_programs.end()
            self.clusters.close()
        finally:
            self.guard.dismiss()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
