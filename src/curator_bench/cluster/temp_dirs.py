"""Private temporary folders of clusters. Each has a note that names its owner, so that none outlives the owner.

Ray opens its own folder to all users, so it is inside a folder that only we can enter. No file of another user in the
system's temporary directory is read, followed, moved or removed.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import secrets
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from curator_bench.cluster.environment import CLUSTER_VARIABLE
from curator_bench.files import safe_files
from curator_bench.files.codec import from_document, parsed
from curator_bench.files.folder_handles import NotUsable, open_folder
from curator_bench.measure.processes import Mark, ProcessId, end_processes, identify, is_running

_log = logging.getLogger(__name__)
_PREFIX = "cb-"
_OWNER_FILE = "owner.json"
_HALF_WRITTEN = f".{_OWNER_FILE}."
_RAYS = "r"
_LARGEST_NOTE = 1 << 16
_FOR_US_ALONE = 0o600
REMOVAL_PATIENCE_S = 2.0
_NOTED_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class _Note:
    """The owner of a folder."""

    marker: str
    cluster: str
    pid: int
    started: float
    where: str

    @property
    def is_of_here(self) -> bool:
        return self.where == _where()

    @property
    def is_orphaned(self) -> bool:
        return not is_running(ProcessId(self.pid, self.started))


def make_temp_dir(marker: str, mark: Mark, parent: Path | None = None) -> Path:
    """Make a new folder that only we can enter."""
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent or _root()))
    owner = identify(os.getpid()) or ProcessId(0, 0)
    note = _Note(marker, mark.value, owner.pid, owner.started, _where())
    try:
        safe_files.write_text(directory / _OWNER_FILE, json.dumps(asdict(note)), mode=_FOR_US_ALONE)
    except OSError:
        remove_temp_dir(directory)
        raise
    return directory


@contextmanager
def private_folder(marker: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a folder that only we may enter, for as long as the block lasts. If we are killed, the guard of the run
    removes it, or the next call of `remove_leftovers`. `parent` may be the folder for temporary files."""
    directory = make_temp_dir(marker, Mark(secrets.token_hex(16), CLUSTER_VARIABLE), parent)
    try:
        inside = directory / "w"
        inside.mkdir(mode=0o700)
        yield inside
    finally:
        remove_temp_dir(directory)


def rays_folder(directory: Path) -> Path:
    """The folder that Ray gets as its own. Ray opens it to all users, but only we can enter the one around it.

    Its path is short: the path of a socket may have 107 characters, and Ray adds 64 to ours.
    """
    return directory / _RAYS


def remove_temp_dir(directory: Path) -> None:
    """Remove the folder. This is tried for a moment, because killed processes may not have ended yet.

    The note is removed last, so that another process can finish an interrupted removal.
    """
    deadline = time.monotonic() + REMOVAL_PATIENCE_S
    while not _removed(directory) and time.monotonic() < deadline:
        time.sleep(0.02)


def _removed(directory: Path) -> bool:
    try:
        _close_to_others(directory)
        for name in _names_in(directory):
            if name != _OWNER_FILE:
                _remove(directory / name)
        if _names_in(directory) == [_OWNER_FILE]:
            _remove(directory / _OWNER_FILE)
        directory.rmdir()
    except FileNotFoundError:
        return True
    except NotUsable as error:
        if _is_own_link(directory):
            directory.unlink(missing_ok=True)
        else:
            _log.warning("a folder that was made for a Ray cluster is left alone: %s", error)
        return True
    except OSError:
        return False
    return True


def _is_own_link(path: Path) -> bool:
    """True for a link that belongs to our user, which a script put into the place of a folder."""
    with suppress(OSError):
        found = path.lstat()
        return stat.S_ISLNK(found.st_mode) and found.st_uid == os.geteuid()
    return False


def _close_to_others(directory: Path) -> None:
    """Make the folder private again, so that other users cannot add files while it is removed."""
    with _opened(directory) as handle:
        os.fchmod(handle, 0o700)


def _names_in(directory: Path) -> list[str]:
    with _opened(directory) as handle:
        return os.listdir(handle)


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """Open our own folder. A link in its place is refused."""
    with open_folder(directory, below=directory.parent, ours=True, to_list=True) as handle:
        yield handle


def _remove(path: Path) -> None:
    with suppress(OSError):
        safe_files.remove(path, below=path.parents[1])


def remove_leftovers(marker: str | None = None) -> None:
    """End the clusters of a run and remove what they left; without a marker, of all runs whose process is dead.

    A guard or the next start of a cluster calls this after a process was killed. A note that other users could have
    written is ignored.
    """
    for directory in _private_folders():
        note = _note_in(directory)
        if note is None:
            _remove_unclaimed(directory)
        elif note.is_of_here and (note.marker == marker if marker is not None else note.is_orphaned):
            end_processes(Mark(note.cluster, CLUSTER_VARIABLE), grace_s=0)
            remove_temp_dir(directory)


def _private_folders() -> Iterator[Path]:
    """Yield our own folders that nobody else can enter."""
    roots = dict.fromkeys((_root(), Path(tempfile.gettempdir())))
    for directory in (found for root in roots for found in root.glob(f"{_PREFIX}*")):
        with suppress(OSError), _opened(directory) as handle:
            if not stat.S_IMODE(os.fstat(handle).st_mode) & 0o077:
                yield directory


def _note_in(directory: Path) -> _Note | None:
    """Read the note of a folder; None if it is missing or incomplete."""
    file = directory / _OWNER_FILE
    try:
        text = safe_files.read_text(file, below=directory.parent, most_bytes=_LARGEST_NOTE, ours=True)
        note = from_document(_Note, parsed(text))
    except (OSError, ValueError):
        return None
    return note if note.marker and note.cluster else None


def _remove_unclaimed(directory: Path) -> None:
    """Remove an old folder of ours whose maker was killed before it wrote the note. Other folders are left alone."""
    with suppress(OSError):
        is_old = time.time() - directory.lstat().st_mtime > _NOTED_WITHIN_S
        if is_old and all(name.startswith(_HALF_WRITTEN) for name in _names_in(directory)):
            remove_temp_dir(directory)


def _where() -> str:
    """Host, boot and container, within which pids are comparable."""
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        with suppress(OSError):
            parts.append(os.readlink(path) if os.path.islink(path) else Path(path).read_text().strip())
    return " ".join(parts)


@functools.cache
def _root() -> Path:
    """The parent of our folders: /tmp, because TMPDIR may be long; TMPDIR if others can rename files in /tmp."""
    writable = [Path(folder) for folder in ("/tmp", tempfile.gettempdir()) if os.access(folder, os.W_OK | os.X_OK)]
    for folder in writable:
        if _keeps_names(folder):
            return folder
    found = next(iter(writable), Path(tempfile.gettempdir()))
    _log.warning("other users may rename what is in %s: it has no sticky bit, or is another user's (chmod +t)", found)
    return found


def _keeps_names(folder: Path) -> bool:
    found = folder.stat()
    is_closed = not found.st_mode & 0o022 or found.st_mode & stat.S_ISVTX
    return bool(is_closed) and found.st_uid in (0, os.geteuid())
