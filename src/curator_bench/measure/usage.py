"""Resource usage of one process at one moment, read from /proc on Linux and through psutil elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from curator_bench.measure.shared_memory import SharedMemory

# Positions in /proc/PID/stat, counted after the name, which may contain blanks and brackets (proc_pid_stat(5)).
_PARENT, _USER, _SYSTEM, _WAITED_USER, _WAITED_SYSTEM, _STARTED = 1, 11, 12, 13, 14, 19


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """One process at one moment. `pid` and `started` together identify it."""

    pid: int
    started: float
    """Start, in seconds of the reader's clock."""
    parent: int
    private_bytes: int
    """Resident memory that is neither shared nor backed by a file."""
    cpu_s: float
    """Its own user and system time."""
    waited_cpu_s: float
    """User and system time of its ended and waited-for children, and of theirs."""


class UsageReader(Protocol):
    """Reader of process usage. Shared memory is reported once for all of them."""

    def now(self) -> float:
        """The current time on the clock of `ProcessUsage.started`."""

    def usage(self, pid: int) -> ProcessUsage | None:
        """Read the usage of a process; None if it is gone or not accessible."""

    def look_up_shared(self, pids: Collection[int]) -> None:
        """Find the shared memory that these processes map."""

    def shared_bytes(self) -> int:
        """Bytes the shared memory found last holds now, each segment once."""


class ProcReader:
    """Reader of process usage in /proc; `started` counts from the machine's boot."""

    def __init__(self, root: Path = Path("/")) -> None:
        """`root` contains proc."""
        self._proc = root / "proc"
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._shared = SharedMemory()

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def usage(self, pid: int) -> ProcessUsage | None:
        try:
            pages = _read(f"{self._proc}/{pid}/statm").split()
            fields = _read(f"{self._proc}/{pid}/stat").rpartition(b") ")[2].split()
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


def usage_reader() -> UsageReader:
    """Make the reader for this operating system."""
    if sys.platform == "linux":
        return ProcReader()
    return PsutilReader()
