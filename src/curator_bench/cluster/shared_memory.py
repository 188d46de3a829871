"""Files in /dev/shm that killed processes of a run leave, for instance those of torch and NCCL."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from curator_bench.files import safe_files
from curator_bench.measure.processes import Mark, ProcessId, end_processes

_FOLDER = "/dev/shm"
_MAPPED = re.compile(rb"^\S+ \S+ \S+ \S+ [1-9]\d* +(/dev/shm/[^\n]+)$", re.MULTILINE)
_DELETED = " (deleted)"


class Segments:
    """The run's files in shared memory. Made before the run: files that exist by then are not the run's."""

    def __init__(self, before: frozenset[Path] | None = None) -> None:
        self._before = files_there() if before is None else before
        self._held: frozenset[Path] = frozenset()

    def note(self, pids: Iterable[int]) -> frozenset[Path]:
        """Note the run's files that these processes hold. Call it before they are killed."""
        found = self._of_the_run(files_held_by(pids))
        self._held |= found
        return found

    def note_files(self, files: Iterable[Path]) -> None:
        """Add files that another process has noted."""
        self._held |= self._of_the_run(files)

    def end(
        self, mark: Mark, roots: Iterable[ProcessId | int] = (), *, grace_s: float, under: ProcessId | None = None
    ) -> frozenset[ProcessId]:
        """End processes and remove their files. The files are noted before the processes are asked to end and killed.

        Return the processes that are still there.
        """
        left = end_processes(mark, roots, grace_s=grace_s, before_end=self.note, under=under)
        self.remove()
        return left

    def remove(self) -> None:
        """Remove the noted files after the processes have ended. Files that other processes hold stay."""
        remove_unused(self._held)

    def _of_the_run(self, files: Iterable[Path]) -> frozenset[Path]:
        """Select the run's files. A folder that existed before the run is not the run's, nor are its files."""
        return frozenset(file for file in files if _top(file) not in self._before)


def files_there() -> frozenset[Path]:
    try:
        return frozenset(Path(_FOLDER, name) for name in os.listdir(_FOLDER))
    except OSError:  # only Linux has it
        return frozenset()


def files_held_by(pids: Iterable[int]) -> frozenset[Path]:
    """Files that living processes hold. Files without a name are left out, because they end with their processes."""
    names = (name for pid in pids for name in (*_mapped(pid), *_opened(pid)))
    return frozenset(Path(name) for name in names if not name.endswith(_DELETED))


def remove_unused(files: frozenset[Path]) -> None:
    """Remove the files that no process holds."""
    left = {path for path in files if _is_ours(path)}
    if left:
        left -= files_held_by(int(name) for name in os.listdir("/proc") if name.isdigit())
    for path in left:
        with suppress(OSError, ValueError):  # another user's, behind a link, or not in shared memory
            safe_files.unlink(path, below=Path(_FOLDER))


def _is_ours(path: Path) -> bool:
    """True for a file of ours. A script may hold those of another user, whose service it uses."""
    with suppress(OSError):
        return path.lstat().st_uid == os.geteuid()
    return False


def _top(file: Path) -> Path:
    """The file, or its folder, at the top of shared memory."""
    return Path(_FOLDER, *file.relative_to(_FOLDER).parts[:1]) if file.is_relative_to(_FOLDER) else file


def _mapped(pid: int) -> Iterator[str]:
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:  # gone, another user's, or no /proc on this system
        return
    yield from map(os.fsdecode, set(_MAPPED.findall(maps)))


def _opened(pid: int) -> Iterator[str]:
    """Yield the names of open files. They may not be mapped yet, or never."""
    with suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):  # closed meanwhile
                name = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                if name.startswith(f"{_FOLDER}/"):
                    yield name
