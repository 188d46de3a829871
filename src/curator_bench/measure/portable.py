"""Process usage from psutil, where there is no /proc (macOS). Shared memory stays unknown there."""

from __future__ import annotations

import time
from collections.abc import Collection

from curator_bench.measure.usage import ProcessUsage


class PsutilReader:
    """Reader of process usage through psutil; `started` counts from 1970."""

    def now(self) -> float:
        return time.time()

    def usage(self, pid: int) -> ProcessUsage | None:
        import psutil

        try:
            process = psutil.Process(pid)
            with process.oneshot():
                times = process.cpu_times()
                return ProcessUsage(
                    pid=pid,
                    started=process.create_time(),
                    parent=process.ppid(),
                    private_bytes=process.memory_full_info().uss,
                    cpu_s=times.user + times.system,
                    waited_cpu_s=times.children_user + times.children_system,
                )
        except psutil.Error:  # gone, or another user's
            return None

    def look_up_shared(self, pids: Collection[int]) -> None:
        """No-op: psutil does not tell shared segments apart."""

    def shared_bytes(self) -> int:
        return 0
