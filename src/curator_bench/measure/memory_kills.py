"""Count of processes the kernel killed because memory ran out, of the machine or of a control group. Linux."""

from __future__ import annotations

from pathlib import Path

_COUNTER = "oom_kill"


def memory_kills(vmstat: Path = Path("/proc/vmstat")) -> int:
    """Count since the machine's start; 0 if the kernel does not count."""
    try:
        lines = vmstat.read_text("ascii", "replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [_COUNTER]), 0)
