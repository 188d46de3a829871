"""Files in /dev/shm that processes of a cluster made and, being killed, cannot remove (torch and NCCL leave some)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_FOLDER = "/dev/shm"
_MAPPED = re.compile(rb"^\S+ \S+ \S+ \S+ [1-9]\d* +(/dev/shm/[^\n]+)$", re.MULTILINE)
_DELETED = " (deleted)"


def files_mapped_by(pids: Iterable[int]) -> frozenset[Path]:
    """To be asked while the processes live. What has no name any more goes with the last process that maps it."""
    return frozenset(path for pid in pids for path in _mapped(pid))


def remove_unused(files: frozenset[Path]) -> None:
    """Remove those that no process maps any more."""
    left = {path for path in files if path.exists()}
    if left:
        left -= files_mapped_by(int(name) for name in os.listdir("/proc") if name.isdigit())
    for path in left:
        with suppress(OSError):  # another user's
            path.unlink()


def _mapped(pid: int) -> Iterator[Path]:
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:  # gone, another user's, or no /proc on this system
        return
    for name in set(_MAPPED.findall(maps)):
        path = os.fsdecode(name)
        if not path.endswith(_DELETED):
            yield Path(path)
