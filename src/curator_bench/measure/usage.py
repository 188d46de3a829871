"""Resource usage of one process at one moment, and the interface of its readers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol


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
