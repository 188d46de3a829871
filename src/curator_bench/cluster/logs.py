"""Ray's own logs: their last lines for people, and a copy to keep.

A script may have put anything in the folders of the logs. So only our own regular files are read or moved, and no link
is followed.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

from curator_bench.files import safe_files
from curator_bench.files.folder_handles import open_folder

_log = logging.getLogger(__name__)
_TELLING = ("gcs_server.err", "raylet.err", "gcs_server.out", "raylet.out")
_FROM_THE_END = 16_384
_LINES_OF_EACH = 10
_STATISTICS = re.compile(r"^\s|\[state-dump\]|Event stats:|^(Execution|Queueing) time:|^Global stats:|^-{10,}$")
_NOT_KEPT = ("sockets", "runtime_resources", "ray_spilled_objects*", "tpu_logs", "*_port_*")
_SESSION = "session_2"
_DEEPEST = 20
"""Depth of Ray's own folders of logs. Deeper ones are made by scripts."""
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | _NO_LINK


def last_lines(startup_log: Path | None, session_dir: Path | None) -> tuple[str, ...]:
    """Read the end of the output of `ray start` and of the logs of the cluster's two main processes."""
    return tuple(_each_tail(_candidates(startup_log, session_dir)))


def newest_session(rays_folder: Path, below: Path) -> Path | None:
    """Find the newest log folder of a cluster that did not report one. It must be ours and not behind a link."""
    try:
        with open_folder(rays_folder, below=below, ours=True, to_list=True) as handle:
            names = (name for name in os.listdir(handle) if name.startswith(_SESSION))
            newest = max((name for name in names if _kind_of_our_own(handle, name) == stat.S_IFDIR), default=None)
    except OSError:
        return None
    return rays_folder / newest if newest else None


class LogKeeper:
    """The folder where Ray's logs are kept, held open from before the cluster starts.

    If its name is changed meanwhile, the logs still go into this folder, or nowhere.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._handle: int | None = None
        with self._warning():
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                self._handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def keep(self, session_dir: Path | None, below: Path) -> None:
        """Move Ray's files, except sockets, runtime environments and spilled objects. The cluster must have ended.

        All folders from `below` on must be ours, and no links.
        """
        with self._warning():  # a full disk must not keep the rest from being cleaned up
            if session_dir is not None and self._handle is not None:
                with open_folder(session_dir, below=below, ours=True, to_list=True) as source:
                    _move_content(source, self._handle)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    @contextmanager
    def _warning(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _log.warning("the logs of a Ray cluster were not kept in %s: %s", self._folder, error)


def _candidates(startup_log: Path | None, session_dir: Path | None) -> Iterator[tuple[Path, Path]]:
    """Yield each log, and the folder below which no link is followed."""
    if startup_log:
        yield startup_log, startup_log.parent
    if session_dir:
        yield from ((session_dir / "logs" / name, session_dir) for name in _TELLING)


def _each_tail(paths: Iterable[tuple[Path, Path]]) -> Iterator[str]:
    for path, below in paths:
        with suppress(OSError):  # not there, or not a file
            if end := safe_files.read_end(path, _FROM_THE_END, below=below):
                yield f"--- {path.name}"
                yield from _tellings(end)


def _tellings(end: bytes) -> list[str]:
    lines = end.decode(errors="replace").splitlines()
    return [line for line in lines if line and not _STATISTICS.search(line)][-_LINES_OF_EACH:]


def _move_content(source: int, target: int, depth: int = 0) -> None:
    """Move regular files and folders by the folders' handles. Links, sockets, pipes and other users' files stay."""
    for name in os.listdir(source):
        if depth == 0 and any(fnmatch(name, pattern) for pattern in _NOT_KEPT):
            continue
        new_name = name if depth else _free_name(name, target)
        kind = _kind_of_our_own(source, name)
        if kind == stat.S_IFDIR and depth < _DEEPEST:
            _move_folder(source, name, target, new_name, depth)
        elif kind == stat.S_IFREG:
            _move_file(source, name, target, new_name)


def _move_folder(source: int, name: str, target: int, new_name: str, depth: int) -> None:
    """Move the content into a new folder: Ray's own is open to all users."""
    os.mkdir(new_name, dir_fd=target)
    with ExitStack() as handles:
        inner, new = os.open(name, _FOLDER, dir_fd=source), os.open(new_name, _FOLDER, dir_fd=target)
        handles.callback(os.close, inner)
        handles.callback(os.close, new)
        _move_content(inner, new, depth + 1)


def _move_file(source: int, name: str, target: int, new_name: str) -> None:
    """Rename a file, or copy it to another file system."""
    with suppress(OSError):
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
        return
    with os.fdopen(os.open(name, os.O_RDONLY | _NO_LINK, dir_fd=source), "rb") as old:
        made = os.open(new_name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666, dir_fd=target)
        with os.fdopen(made, "wb") as new:
            shutil.copyfileobj(old, new)


def _kind_of_our_own(folder: int, name: str) -> int:
    """Type of the file; 0 if it belongs to another user."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return stat.S_IFMT(found.st_mode) if found.st_uid == os.geteuid() else 0


def _free_name(name: str, folder: int) -> str:
    """Add a number to a name that is taken, because a run keeps the logs of failed starts too."""
    taken = set(os.listdir(folder))
    return next(one for one in (name, *(f"{name}_{number}" for number in range(2, 1000))) if one not in taken)
