"""Safe access to files in folders that others also write to: scripts, other users, other processes of ours.

Every function takes a path and `below`, a trusted folder; by default the path's own folder. `below` is opened as it is,
links included. From there each name is opened relative to the handle of its parent, and no link is followed. Only
regular files are read or written, and nothing here waits: not for the other end of a pipe, for a device, or for the
holder of a lease. Anything unexpected raises an OSError with the reason.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

MEBIBYTE = 2**20
MOST_BYTES = 64 * MEBIBYTE
"""Default size limit of a file that is read whole."""
_COPIED_BYTES = MEBIBYTE
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+@-]+")
_LONGEST_NAME, _LONGEST_CLEANED = 200, 80
_NEVER_WAITS = os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_ONLY_PASSED = getattr(os, "O_PATH", os.O_RDONLY)  # a folder without read permission can still be passed through
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def safe_name(text: str) -> str:
    """Make a file name from a text: the text itself if it is safe, otherwise cleaned, with a hash."""
    if is_safe_name(text):
        return text
    cleaned = _UNSAFE.sub("_", text).lstrip(".+@-")[:_LONGEST_CLEANED]
    return f"{cleaned}_{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def is_safe_name(text: str) -> bool:
    """True if the text consists of letters, digits and `_ . - + @` and begins with a letter, a digit or `_`."""
    return _SAFE.fullmatch(text) is not None and len(text) <= _LONGEST_NAME


class NotUsable(OSError):
    """The file may not be used: it is a link, a pipe, a device, a folder, another user's, or too large."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(errno.EINVAL, problem, str(path))


class TooLarge(NotUsable):
    """The file is too large to read."""

    def __init__(self, path: Path, size: int, most_bytes: int) -> None:
        limit, found = most_bytes / MEBIBYTE, size / MEBIBYTE
        super().__init__(path, f"is too large: {found:,.1f} MiB, at most {limit:,.1f} MiB are read")


@contextmanager
def open_folder(
    path: Path, *, below: Path | None = None, create: bool = False, ours: bool = False, to_list: bool = False
) -> Iterator[int]:
    """Open a folder and yield its handle for `dir_fd`. Only with `to_list` can it be listed.

    `create` makes missing folders below `below`. `ours` refuses folders of another user.
    """
    top = path if below is None else below
    names = _names_below(path, top)
    handle = os.open(top, _ONLY_PASSED | os.O_DIRECTORY | os.O_CLOEXEC)
    shown = top
    try:
        for name in names:
            shown = shown / name
            inner = _step(handle, name, shown, create)
            os.close(handle)
            handle = inner
            if ours:
                _check_owner(os.fstat(handle), shown)
        if to_list:
            inner = os.open(".", os.O_RDONLY | _FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


class HeldFolder:
    """A folder held open, to detect that another one was put in its place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, _ONLY_PASSED | _FOLDER)

    @property
    def is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._handle), os.lstat(self.path))
        except OSError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


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
                if (kind := _kind(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)) in ("device", "folder"):
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
    """Write a text with `write_bytes`."""
    write_bytes(path, text.encode("utf-8"), below=below, mode=mode)


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
            _Removal().remove(folder, name, path)


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
            return _kind(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return ""


def is_file(path: Path, *, below: Path | None = None) -> bool:
    """True if the path is a regular file, reached without a link."""
    try:
        return kind_of(path, below=below) == "file"
    except OSError:
        return False


_TRIES = 3


def _names_below(path: Path, top: Path) -> tuple[str, ...]:
    names = path.relative_to(top).parts
    if os.pardir in names:
        raise NotUsable(path, f"leads out of {top}")
    return names


@contextmanager
def _parent(path: Path, below: Path | None, *, ours: bool = False) -> Iterator[tuple[int, str]]:
    if path.name in ("", os.pardir):
        raise NotUsable(path, "is a folder, not a file")
    with open_folder(path.parent, below=below, ours=ours) as folder, _naming(path):
        yield folder, path.name


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let errors name the whole path: below a handle, the system knows a name alone."""
    try:
        yield
    except OSError as error:
        if isinstance(error.filename, str) and not os.path.isabs(error.filename):
            error.filename = str(path)
        raise


def _step(folder: int, name: str, shown: Path, create: bool) -> int:
    """Open a folder within a folder."""
    if create:
        with suppress(FileExistsError), _naming(shown):
            os.mkdir(name, dir_fd=folder)
    try:
        return os.open(name, _ONLY_PASSED | _FOLDER, dir_fd=folder)
    except NotADirectoryError:
        raise _not_a(folder, name, shown, "a folder") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_a(folder, name, shown, "a folder") from None
        raise OSError(error.errno, error.strerror, str(shown)) from None


def _not_a(folder: int, name: str, shown: Path, due: str) -> OSError:
    with suppress(OSError):
        found = _kind(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        return NotUsable(shown, f"is a {found}, not {due}")
    return NotUsable(shown, f"is not {due}")


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "folder",
        stat.S_IFLNK: "link",
        stat.S_IFIFO: "pipe",
        stat.S_IFSOCK: "socket",
    }
    return kinds.get(stat.S_IFMT(mode), "device")


def _check_owner(found: os.stat_result, shown: Path) -> None:
    if found.st_uid != os.geteuid():
        raise NotUsable(shown, f"belongs to another user (uid {found.st_uid})")


def _check_trusted(found: os.stat_result, folder: os.stat_result, shown: Path) -> None:
    if folder.st_mode & stat.S_ISVTX and found.st_uid != folder.st_uid:
        _check_owner(found, shown)


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
            raise _not_a(folder, name, path, "a file") from None
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        _check_regular(os.fstat(descriptor), path, ours)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(found: os.stat_result, path: Path, ours: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotUsable(path, f"is a {_kind(found.st_mode)}, not a file")
    if ours:
        _check_owner(found, path)


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
    if (kind := _kind(found.st_mode)) in ("device", "folder"):
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


class _Removal:
    """Removal of a tree of any depth with few handles: deeper folders are moved up before they are removed.

    Folders and files that cannot be removed stay where they are; the first reason is kept.
    """

    def __init__(self) -> None:
        self._reason: OSError | None = None
        self._left: set[str] = set()

    def remove(self, folder: int, name: str, shown: Path) -> None:
        try:
            with _opened_for_removal(folder, name) as top:
                while inner := [each for each in self._without_files(top) if each not in self._left]:
                    for each in inner:
                        self._take_apart(top, each)
            os.rmdir(name, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:  # the error names a file in the folder, not the folder
            reason = self._reason or error
            raise OSError(reason.errno, reason.strerror, str(shown)) from error

    def _take_apart(self, top: int, name: str) -> None:
        """Remove a folder in `top`; its subfolders move to `top`."""
        try:
            with _opened_for_removal(top, name) as folder:
                for inner in self._without_files(folder):
                    self._move_up(folder, inner, top)
            os.rmdir(name, dir_fd=top)
        except FileNotFoundError:
            return
        except OSError as error:
            self._note(error)
            self._left.add(name)

    def _move_up(self, folder: int, name: str, top: int) -> None:
        with suppress(OSError):
            os.rmdir(name, dir_fd=folder)
            return
        try:
            _open_up(folder, name)
            os.rename(name, secrets.token_hex(8), src_dir_fd=folder, dst_dir_fd=top)
        except OSError as error:
            self._note(error)

    def _without_files(self, folder: int) -> list[str]:
        """Remove everything except folders; return the folders' names."""
        inner = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry.name)
                else:
                    self._unlink(folder, entry.name)
        return inner

    def _unlink(self, folder: int, name: str) -> None:
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            self._note(error)

    def _note(self, error: OSError) -> None:
        self._reason = self._reason or error


@contextmanager
def _opened_for_removal(folder: int, name: str) -> Iterator[int]:
    _open_up(folder, name)
    handle = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _open_up(folder: int, name: str) -> None:
    """Restore our access to our own folder, if it was taken away. Without /proc it stays closed."""
    with suppress(OSError):
        if stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode) & 0o700 == 0o700:
            return
        handle = os.open(name, _ONLY_PASSED | _FOLDER, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        finally:
            os.close(handle)
