"""What one process uses at one moment, and the shape of what can tell it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """One process at one moment. `pid` and `started` together name it for good."""

    pid: int
    started: float
    """When it began, in seconds of its reader's clock."""
    parent: int
    private_bytes: int
    """Resident memory without what is shared or backed by a file."""
    cpu_s: float
    """User and system time of its own."""
    waited_cpu_s: float
    """The same of its children that ended and were waited for, theirs included."""


class UsageReader(Protocol):
    """Reads the use of processes; shared memory is told once for all of them."""

    def now(self) -> float:
        """This moment, in seconds of the clock that `ProcessUsage.started` is on."""

    def usage(self, pid: int) -> ProcessUsage | None:
        """What the process uses; None when it is gone or may not be looked at."""

    def look_up_shared(self, pids: Collection[int]) -> None:
        """Find the shared memory that these processes map."""

    def shared_bytes(self) -> int:
        """What the shared memory found last holds now, each segment counted once."""
