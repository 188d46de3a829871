"""Send the files of a run home from a node that does not see the results directory.

The node sends a parcel to the board, the driver writes it into the folder the run has at home, and only then the next
one follows. So a file may be as large as the disk at home. Files that cannot be written are named in the run's
warnings.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from curator_bench.execution.claims import CLAIM
from curator_bench.execution.directories import ARTIFACTS, LARGE, Directories, attempt_top, prepare, remove_scratch
from curator_bench.execution.profiling import place_of
from curator_bench.execution.result_lines import RESULT_LINES
from curator_bench.files import safe_files
from curator_bench.files.folder_handles import open_folder
from curator_bench.values import Plan

_PARCEL_BYTES = 4 << 20
_PIECE_OVERHEAD_BYTES = 256
_WRITTEN_AT_HOME = frozenset({RESULT_LINES, CLAIM})
_NUMBERED = re.compile(r"(?:attempt|repeat|warmup|profile)_\d+")
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)


class Kind(Enum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a file; or a folder; or a link."""

    name: str
    """The path below the entry's folder."""
    kind: Kind
    content: bytes = b""
    """For a link, its target."""
    offset: int = 0
    mode: int = 0o644


Problems = dict[str, str]
"""The reason why a file could not be copied, by its name."""


def send_home(plan: Plan, deliver: Callable[[list[Piece]], Problems], to_home: Callable[[str], str]) -> Problems:
    """Send all files of a run. `to_home` replaces the paths of this machine in a text by those at home."""
    problems: Problems = {}
    parcel: list[Piece] = []
    size = 0
    for piece in _pieces(plan, problems, to_home):
        parcel.append(piece)
        size += len(piece.content) + _PIECE_OVERHEAD_BYTES
        if size >= _PARCEL_BYTES:
            problems |= deliver(parcel)
            parcel, size = [], 0
    if parcel:
        problems |= deliver(parcel)
    return problems


def _pieces(plan: Plan, problems: Problems, to_home: Callable[[str], str]) -> Iterator[Piece]:
    """Everything below the entry's folder, except scratch that is to be deleted, and files that are written at home."""
    entry_dir = Path(plan.entry_dir)
    for top, folders, files in os.walk(entry_dir):
        place = PurePosixPath(Path(top).relative_to(entry_dir))
        folders[:] = [name for name in sorted(folders) if not (plan.delete_scratch and _is_scratch(place / name))]
        for name in folders:
            if not Path(top, name).is_symlink():
                yield Piece(str(place / name), Kind.FOLDER)
        for name in sorted([*files, *(folder for folder in folders if Path(top, folder).is_symlink())]):
            if str(place / name) not in _WRITTEN_AT_HOME:
                yield from _pieces_of(entry_dir, str(place / name), problems, to_home)


def _is_scratch(place: PurePosixPath) -> bool:
    return place.name == "scratch" and all(map(_NUMBERED.fullmatch, place.parts[:-1]))


def _pieces_of(entry_dir: Path, name: str, problems: Problems, to_home: Callable[[str], str]) -> Iterator[Piece]:
    """One link, or one file piece by piece; the rest of a file is not read once it has a problem."""
    path = entry_dir / name
    try:
        if path.is_symlink():
            yield Piece(name, Kind.LINK, os.fsencode(to_home(os.readlink(path))))
            return
        with safe_files.open_file(path, below=entry_dir) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            offset = 0
            while (content := file.read(_PARCEL_BYTES)) or not offset:
                yield Piece(name, Kind.FILE, content, offset, mode)
                offset += len(content)
                if not content or name in problems:
                    return
    except OSError as error:
        problems[name] = error.strerror or str(error)


class Arrivals:
    """The driver's end: write parcels into the folders that the runs have at home."""

    def __init__(self) -> None:
        self._arrivals: dict[str, _Arrival] = {}

    def write(self, plan: Plan, parcel: list[Piece]) -> Problems:
        """Write these pieces; the problems are the answer to the node."""
        arrival = self._arrivals.setdefault(plan.uid, _Arrival(plan))
        problems: Problems = {}
        for piece in parcel:
            if piece.name not in problems:
                try:
                    arrival.write(piece)
                except (OSError, ValueError) as error:
                    problems[piece.name] = (error.strerror if isinstance(error, OSError) else "") or str(error)
        return problems

    def has_news_of(self, uid: str, within_s: float) -> bool:
        """True if a parcel of the run arrived within the last seconds."""
        arrival = self._arrivals.get(uid)
        return arrival is not None and time.monotonic() - arrival.newest < within_s

    def close(self, uid: str) -> None:
        """Finish a run that sends no more."""
        if arrival := self._arrivals.pop(uid, None):
            arrival.close()


class _Arrival:
    """The files of one run, while they arrive; one is open at a time."""

    def __init__(self, plan: Plan) -> None:
        self.newest = time.monotonic()
        self._plan, self._entry_dir = plan, Path(plan.entry_dir)
        self._prepared: dict[tuple[str, ...], Directories] = {}
        self._places: dict[tuple[str, ...], Path] = {}
        """The folders for large files, which `artifacts_dir` may have moved to another disk."""
        self._open: tuple[str, BinaryIO] | None = None

    def write(self, piece: Piece) -> None:
        self.newest = time.monotonic()
        below, path = self._place_of(PurePosixPath(piece.name).parts)
        if path == below:
            return
        if piece.kind is not Kind.FOLDER:
            safe_files.make_folder(path.parent, below=below)
        match piece.kind:
            case Kind.FOLDER:
                safe_files.make_folder(path, below=below)
            case Kind.LINK:
                safe_files.remove(path, below=below)
                with open_folder(path.parent, below=below) as folder:
                    os.symlink(piece.content, path.name, dir_fd=folder)
            case Kind.FILE:
                self._write_file(piece, path, below)

    def _write_file(self, piece: Piece, path: Path, below: Path) -> None:
        """Write a piece at its offset: it may come twice, if an answer was lost."""
        if self._open is None or self._open[0] != piece.name:
            self._close_file()
            if piece.offset:
                raise ValueError("its first part was lost")
            self._open = piece.name, safe_files.create_file(path, below=below)
        file = self._open[1]
        try:
            if piece.mode & 0o100:
                os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) | piece.mode & 0o111)
            left, offset = memoryview(piece.content), piece.offset
            while left:
                written = os.pwrite(file.fileno(), left, offset)
                left, offset = left[written:], offset + written
        except OSError as error:
            self._close_file()
            if error.errno in _DISK_IS_FULL:
                safe_files.remove(path, below=below)
            raise

    def _place_of(self, parts: tuple[str, ...]) -> tuple[Path, Path]:
        """The trusted folder, and the path below it."""
        count = next((index for index, name in enumerate(parts) if not _NUMBERED.fullmatch(name)), len(parts))
        numbered = parts[:count]
        first = attempt_top(self._plan).relative_to(self._entry_dir).parts
        self._prepare(first)
        if numbered[: len(first)] == first:
            self._prepare(numbered)
        place = self._places.get(parts[: count + 1])
        if place is not None:
            return place, place.joinpath(*parts[count + 1 :])
        return self._place_of_profile(parts) or (self._entry_dir, self._entry_dir.joinpath(*parts))

    def _place_of_profile(self, parts: tuple[str, ...]) -> tuple[Path, Path] | None:
        """The same for what an extra run leaves in the artifacts of the run that it profiles."""
        if self._plan.profiling is None:
            return None
        measured = place_of(self._plan)
        own = (*measured.top.relative_to(self._entry_dir).parts, ARTIFACTS)
        if parts[: len(own)] != own:
            return None
        return measured.large_below, measured.large.joinpath(ARTIFACTS, *parts[len(own) :])

    def _prepare(self, numbered: tuple[str, ...]) -> None:
        if numbered in self._prepared:
            return
        directories = self._prepared[numbered] = prepare(self._plan, self._entry_dir.joinpath(*numbered))
        for name in LARGE:
            self._places[(*numbered, name)] = Path(os.path.realpath(directories.top / name))

    def close(self) -> None:
        self._close_file()
        if self._plan.delete_scratch:
            for directories in self._prepared.values():
                remove_scratch(directories)

    def _close_file(self) -> None:
        if self._open is not None:
            with suppress(OSError):
                self._open[1].close()
            self._open = None


def warning_of(problems: Mapping[str, str], host: str) -> str:
    """The warning of a run some of whose files could not be copied."""
    shown = ", ".join(f"{name} ({problem})" for name, problem in sorted(problems.items())[:10])
    more = f" and {len(problems) - 10} more" if len(problems) > 10 else ""
    return f"could not be copied from {host}: {shown}{more}"
