"""Process usage from /proc. Shared memory is in the module of that name."""

from __future__ import annotations

import os
import time
from collections.abc import Collection

from curator_bench.measure.shared_memory import SharedMemory
from curator_bench.measure.usage import ProcessUsage

# Positions in /proc/PID/stat, counted after the name, which may contain blanks and brackets (proc_pid_stat(5)).
_PARENT, _USER, _SYSTEM, _WAITED_USER, _WAITED_SYSTEM, _STARTED = 1, 11, 12, 13, 14, 19


class ProcReader:
    """Reader of process usage in /proc; `started` counts from the machine's boot."""

    def __init__(self) -> None:
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._shared = SharedMemory()

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def usage(self, pid: int) -> ProcessUsage | None:
        try:
            pages = _read(f"/proc/{pid}/statm").split()
            fields = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
        except OSError:  # gone, or another user's where /proc is mounted with hidepid
            return None
        return ProcessUsage(
            pid=pid,
            started=self._seconds(fields[_STARTED]),
            parent=int(fields[_PARENT]),
            private_bytes=max(0, int(pages[1]) - int(pages[2])) * self._page_bytes,
            cpu_s=self._seconds(fields[_USER], fields[_SYSTEM]),
            waited_cpu_s=self._seconds(fields[_WAITED_USER], fields[_WAITED_SYSTEM]),
        )

    def look_up_shared(self, pids: Collection[int]) -> None:
        self._shared.look_up(pids)

    def shared_bytes(self) -> int:
        return self._shared.used_bytes()

    def _seconds(self, *ticks: bytes) -> float:
        return sum(map(int, ticks)) / self._ticks_per_s


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read(4096)
