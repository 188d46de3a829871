"""Safe access to files in folders that others also write to: scripts, other users, other processes of ours.

Every function takes a path and `below`, a trusted folder; by default the path's own folder. `below` is opened as it is,
links included. From there each name is opened relative to the handle of its parent, and no link is followed. Only
regular files are read or written, and nothing here waits: not for the other end of a pipe, for a device, or for the
holder of a lease. Anything unexpected raises an OSError with the reason.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from curator_bench.files.folder_handles import NotUsable, check_owner, kind_of_mode, naming, not_a, open_folder
from curator_bench.files.removal import Removal

MEBIBYTE = 2**20
MOST_BYTES = 256 * MEBIBYTE
"""Size limit of a file that is read whole, and of a line: the summary of 80,000 runs, in which each needs 3 KiB."""
_COPIED_BYTES = MEBIBYTE
_NEVER_WAITS = os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC


class TooLarge(NotUsable):
    """The file is too large to read."""

    def __init__(self, path: Path, size: int, most_bytes: int, what: str = "is too large") -> None:
        limit, found = most_bytes / MEBIBYTE, size / MEBIBYTE
        super().__init__(path, f"{what}: {found:,.1f} MiB, at most {limit:,.1f} MiB are read")


def make_folder(path: Path, *, below: Path | None = None) -> None:
    """Make a folder and its missing parents; it may exist. A link in its place is refused."""
    with open_folder(path, below=path.parent if below is None else below, create=True):
        pass


def open_file(path: Path, *, below: Path | None = None, ours: bool = False) -> BinaryIO:
    """Open a regular file for reading."""
    with _parent(path, below, ours=ours) as (folder, name):
        return os.fdopen(_open_regular(folder, name, path, os.O_RDONLY, ours=ours), "rb")


def read_bytes(path: Path, *, below: Path | None = None, most_bytes: int = MOST_BYTES, ours: bool = False) -> bytes:
    """Read a regular file of at most `most_bytes`."""
    with open_file(path, below=below, ours=ours) as file:
        content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise TooLarge(path, max(len(content), os.fstat(file.fileno()).st_size), most_bytes)
        return content


def read_text(path: Path, *, below: Path | None = None, most_bytes: int = MOST_BYTES, ours: bool = False) -> str:
    """Read the text of a regular file of at most `most_bytes`. Raises ValueError if it is not UTF-8."""
    return read_bytes(path, below=below, most_bytes=most_bytes, ours=ours).decode("utf-8")


def read_lines(path: Path, *, below: Path | None = None, most_bytes: int = MOST_BYTES) -> Iterator[bytes]:
    """Yield the lines of a regular file of any size. Raises TooLarge at a line of more than `most_bytes`."""
    with open_file(path, below=below) as file:
        while line := file.readline(most_bytes + 1):
            if len(line) > most_bytes:
                raise TooLarge(path, os.fstat(file.fileno()).st_size, most_bytes, "has a line that is too long")
            yield line


def read_end(path: Path, most_bytes: int, *, below: Path | None = None) -> bytes:
    """Read the end of a regular file of any size, which may be growing."""
    with open_file(path, below=below) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most_bytes))
        return file.read(most_bytes)


def create_file(path: Path, *, below: Path | None = None, mode: int = 0o666) -> BinaryIO:
    """Open a new file for writing. It replaces anything of that name except a folder or a device."""
    with _parent(path, below) as (folder, name):
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                if (kind := kind_of_mode(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)) in (
                    "device",
                    "folder",
                ):
                    raise NotUsable(path, f"is a {kind}, not a file")
                os.unlink(name, dir_fd=folder)
            with suppress(FileExistsError):
                return os.fdopen(_create(folder, name, mode), "wb", buffering=0)
        raise NotUsable(path, "comes back each time it is removed")


def write_bytes(path: Path, content: bytes, *, below: Path | None = None, mode: int = 0o666) -> None:
    """Replace a file in one step, so that readers see the old content or all of the new."""
    with _parent(path, below) as (folder, name):
        beside = f".{name}.{secrets.token_hex(4)}"
        try:
            _write_new(folder, beside, content, mode)
            os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with suppress(OSError):
                os.unlink(beside, dir_fd=folder)


def write_text(path: Path, text: str, *, below: Path | None = None, mode: int = 0o666) -> None:
    """Write a text with `write_bytes`. Bytes of a path that are not UTF-8 are written as they are."""
    write_bytes(path, text.encode("utf-8", "surrogateescape"), below=below, mode=mode)


def append_bytes(path: Path, content: bytes, *, below: Path | None = None, mode: int = 0o666) -> None:
    """Append to a file in a single write, so that lines of several processes do not mix.

    A link, pipe or socket in its place is removed, and a new file begun. A file with a second hard link is copied
    first, so that its copies elsewhere (`cp -al`) stay unchanged.
    """
    with open_to_append(path, below=below, mode=mode) as file:
        _write_all(file.fileno(), content)


def open_to_append(path: Path, *, below: Path | None = None, mode: int = 0o666) -> BinaryIO:
    """Open a file as `append_bytes` does."""
    with _parent(path, below) as (folder, name):
        for _ in range(_TRIES):
            _make_appendable(path, folder, name)
            with suppress(FileNotFoundError, FileExistsError):
                return os.fdopen(_open_to_append(path, folder, name, mode), "ab", buffering=0)
        raise NotUsable(path, "changes each time it is opened")


def create_exclusively(path: Path, text: str, *, below: Path | None = None, mode: int = 0o666) -> None:
    """Create a file. Raises FileExistsError if the name is taken.

    The file is never visible while empty, unless its file system has no hard links.
    """
    content = text.encode("utf-8")
    with _parent(path, below) as (folder, name):
        beside = f".{name}.{secrets.token_hex(4)}"
        try:
            _write_new(folder, beside, content, mode)
            os.link(beside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:
            _write_new(folder, name, content, mode)
        finally:
            with suppress(OSError):
                os.unlink(beside, dir_fd=folder)


def open_lock(path: Path, *, below: Path | None = None) -> BinaryIO:
    """Open a lock file, created if missing.

    Anyone who can open a lock can hold it forever, so only its writers may read it. In a folder where all users can
    create files (the sticky bit), a lock is refused that belongs neither to us nor to the folder's owner. A link, pipe
    or socket in its place is removed.
    """
    with _parent(path, below) as (folder, name):
        for _ in range(_TRIES):
            _remove_what_is_no_file(path, folder, name)
            with suppress(FileNotFoundError, FileExistsError):
                descriptor = _open_to_append(path, folder, name, 0o222)
                try:
                    _check_trusted(os.fstat(descriptor), os.fstat(folder), path)
                    _close_to_readers(descriptor)
                except BaseException:
                    os.close(descriptor)
                    raise
                return os.fdopen(descriptor, "ab", buffering=0)
        raise NotUsable(path, "changes each time it is opened")


def remove(path: Path, *, below: Path | None = None) -> None:
    """Remove a file, a link (never its target) or a whole folder. No-op if there is none."""
    with suppress(FileNotFoundError), _parent(path, below) as (folder, name):
        try:
            os.unlink(name, dir_fd=folder)
        except (IsADirectoryError, PermissionError):  # the latter on macOS
            if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise
            Removal().remove(folder, name, path)


def unlink(path: Path, *, below: Path | None = None) -> None:
    """Remove a file or a link (never its target), but no folder."""
    with _parent(path, below) as (folder, name):
        os.unlink(name, dir_fd=folder)


def rename(path: Path, name: str, *, below: Path | None = None) -> None:
    """Rename a file within its folder, replacing any file of the new name."""
    with _parent(path, below) as (folder, old):
        os.replace(old, name, src_dir_fd=folder, dst_dir_fd=folder)


def touch(path: Path, *, below: Path | None = None) -> None:
    """Set the modification time to now, without following a link."""
    with _parent(path, below) as (folder, name):
        os.utime(name, dir_fd=folder, follow_symlinks=False)


def time_of(path: Path, *, below: Path | None = None) -> float:
    """Modification time, by the clock of its file system, without following a link."""
    with _parent(path, below) as (folder, name):
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime


def names_in(path: Path, *, below: Path | None = None) -> list[str]:
    """List the names in a folder; empty if it does not exist."""
    try:
        with open_folder(path, below=below, to_list=True) as folder:
            return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def kind_of(path: Path, *, below: Path | None = None) -> str:
    """Kind of the path: "file", "folder", "link", "pipe", "device", "socket", or "" if nothing is there."""
    try:
        with _parent(path, below) as (folder, name):
            return kind_of_mode(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return ""


def is_file(path: Path, *, below: Path | None = None) -> bool:
    """True if the path is a regular file, reached without a link."""
    try:
        return kind_of(path, below=below) == "file"
    except OSError:
        return False


_TRIES = 3


@contextmanager
def _parent(path: Path, below: Path | None, *, ours: bool = False) -> Iterator[tuple[int, str]]:
    if path.name in ("", os.pardir):
        raise NotUsable(path, "is a folder, not a file")
    with open_folder(path.parent, below=below, ours=ours) as folder, naming(path):
        yield folder, path.name


def _check_trusted(found: os.stat_result, folder: os.stat_result, shown: Path) -> None:
    if folder.st_mode & stat.S_ISVTX and found.st_uid != folder.st_uid:
        check_owner(found, shown)


def _close_to_readers(descriptor: int) -> None:
    """Restrict the right to read to those who may write."""
    found = os.fstat(descriptor)
    writers = found.st_mode & 0o222
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != writers | writers << 1:
        os.fchmod(descriptor, writers | writers << 1)


def _open_regular(folder: int, name: str, path: Path, flags: int, *, ours: bool = False) -> int:
    """Open a regular file.

    It is checked before, because opening a device may have effects, and after, because it may have changed.
    """
    try:
        _check_regular(os.stat(name, dir_fd=folder, follow_symlinks=False), path, ours)
        descriptor = os.open(name, flags | _NEVER_WAITS, dir_fd=folder)
    except NotUsable:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a pipe or a socket, created just now
            raise not_a(folder, name, path, "a file") from None
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        _check_regular(os.fstat(descriptor), path, ours)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(found: os.stat_result, path: Path, ours: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotUsable(path, f"is a {kind_of_mode(found.st_mode)}, not a file")
    if ours:
        check_owner(found, path)


def _create(folder: int, name: str, mode: int) -> int:
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NEVER_WAITS, mode, dir_fd=folder)


def _write_new(folder: int, name: str, content: bytes, mode: int) -> None:
    with os.fdopen(_create(folder, name, mode), "wb", buffering=0) as file:
        _write_all(file.fileno(), content)


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _open_to_append(path: Path, folder: int, name: str, mode: int) -> int:
    """Open a file for appending, or create it. The caller repeats this if another process interferes."""
    try:
        return _open_regular(folder, name, path, os.O_WRONLY | os.O_APPEND)
    except FileNotFoundError:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | _NEVER_WAITS
        return os.open(name, flags, mode, dir_fd=folder)


def _remove_what_is_no_file(path: Path, folder: int, name: str) -> os.stat_result | None:
    """Remove a link, pipe or socket; return the status of a regular file, None if there is none."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(found.st_mode):
        return found
    if (kind := kind_of_mode(found.st_mode)) in ("device", "folder"):
        raise NotUsable(path, f"is a {kind}, not a file")
    os.unlink(name, dir_fd=folder)
    return None


def _make_appendable(path: Path, folder: int, name: str) -> None:
    found = _remove_what_is_no_file(path, folder, name)
    if found is not None and found.st_nlink > 1:
        _copy_apart(path, folder, name)


def _copy_apart(path: Path, folder: int, name: str) -> None:
    beside = f".{name}.{secrets.token_hex(4)}"
    source = _open_regular(folder, name, path, os.O_RDONLY)
    try:
        target = _create(folder, beside, stat.S_IMODE(os.fstat(source).st_mode))
        try:
            while piece := os.read(source, _COPIED_BYTES):
                _write_all(target, piece)
        finally:
            os.close(target)
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(source)
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
