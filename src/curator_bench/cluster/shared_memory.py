"""Files in /dev/shm that processes of a run made and, being killed, cannot remove (torch and NCCL leave some)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_FOLDER = "/dev/shm"
_MAPPED = re.compile(rb"^\S+ \S+ \S+ \S+ [1-9]\d* +(/dev/shm/[^\n]+)$", re.MULTILINE)
_DELETED = " (deleted)"


class Segments:
    """Made before the run: what is there by then (a dataset that somebody put into memory) is not the run's."""

    def __init__(self, before: frozenset[Path] | None = None) -> None:
        self._before = files_there() if before is None else before
        self._mapped: frozenset[Path] = frozenset()

    def note(self, pids: Iterable[int]) -> frozenset[Path]:
        """To be told which processes will be killed, while they live; gives what is the run's of what they map."""
        found = files_mapped_by(pids) - self._before
        self._mapped |= found
        return found

    def note_files(self, files: Iterable[Path]) -> None:
        """What somebody else has noted."""
        self._mapped |= frozenset(files) - self._before

    def remove(self) -> None:
        """To be called when they have ended. What others map by now stays."""
        remove_unused(self._mapped)


def files_there() -> frozenset[Path]:
    try:
        return frozenset(Path(_FOLDER, name) for name in os.listdir(_FOLDER))
    except OSError:  # only Linux has it
        return frozenset()


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
