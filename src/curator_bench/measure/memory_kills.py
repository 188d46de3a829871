"""Count of processes the kernel killed because memory ran out, of the machine or of a control group. Linux."""

from __future__ import annotations

from pathlib import Path

_COUNTER = "oom_kill"


def memory_kills(vmstat: Path = Path("/proc/vmstat")) -> int:
    """Since the machine was started; 0 where nobody counts."""
    try:
        lines = vmstat.read_text("ascii", "replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [_COUNTER]), 0)
