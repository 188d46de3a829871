"""Files in /dev/shm that processes of a run made and, being killed, cannot remove (torch and NCCL leave some)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from curator_bench.measure.processes import Mark, ProcessId, end_processes

_FOLDER = "/dev/shm"
_MAPPED = re.compile(rb"^\S+ \S+ \S+ \S+ [1-9]\d* +(/dev/shm/[^\n]+)$", re.MULTILINE)
_DELETED = " (deleted)"


class Segments:
    """Made before the run: what is there by then (a dataset that somebody put into memory) is not the run's."""

    def __init__(self, before: frozenset[Path] | None = None) -> None:
        self._before = files_there() if before is None else before
        self._held: frozenset[Path] = frozenset()

    def note(self, pids: Iterable[int]) -> frozenset[Path]:
        """Note the run's files that these processes hold; to be called before they are killed."""
        found = self._of_the_run(files_held_by(pids))
        self._held |= found
        return found

    def note_files(self, files: Iterable[Path]) -> None:
        """Add files that another process has noted."""
        self._held |= self._of_the_run(files)

    def end(
        self, mark: Mark, roots: Iterable[ProcessId | int] = (), *, grace_s: float, under: ProcessId | None = None
    ) -> frozenset[ProcessId]:
        """Ends processes, with what they have here when they are asked to end, and when they are killed.

        Returns what is still there.
        """
        left = end_processes(mark, roots, grace_s=grace_s, before_end=self.note, under=under)
        self.remove()
        return left

    def remove(self) -> None:
        """To be called when they have ended. What others hold by now stays."""
        remove_unused(self._held)

    def _of_the_run(self, files: Iterable[Path]) -> frozenset[Path]:
        """A folder that was there before is not the run's, with all that is in it."""
        return frozenset(file for file in files if _top(file) not in self._before)


def files_there() -> frozenset[Path]:
    try:
        return frozenset(Path(_FOLDER, name) for name in os.listdir(_FOLDER))
    except OSError:  # only Linux has it
        return frozenset()


def files_held_by(pids: Iterable[int]) -> frozenset[Path]:
    """To be asked while the processes live. What has no name any more goes with the last process that holds it."""
    names = (name for pid in pids for name in (*_mapped(pid), *_opened(pid)))
    return frozenset(Path(name) for name in names if not name.endswith(_DELETED))


def remove_unused(files: frozenset[Path]) -> None:
    """Remove those that no process holds any more."""
    left = {path for path in files if path.exists()}
    if left:
        left -= files_held_by(int(name) for name in os.listdir("/proc") if name.isdigit())
    for path in left:
        with suppress(OSError):  # another user's
            path.unlink()


def _top(file: Path) -> Path:
    """The file, or the folder it is in, right in shared memory."""
    return Path(_FOLDER, *file.relative_to(_FOLDER).parts[:1]) if file.is_relative_to(_FOLDER) else file


def _mapped(pid: int) -> Iterator[str]:
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:  # gone, another user's, or no /proc on this system
        return
    yield from map(os.fsdecode, set(_MAPPED.findall(maps)))


def _opened(pid: int) -> Iterator[str]:
    """A file is opened a moment before it is mapped, and may be used without."""
    with suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):  # closed meanwhile
                name = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                if name.startswith(f"{_FOLDER}/"):
                    yield name
