"""Folders opened by handle: each name is opened relative to the handle of its parent, and no link is followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

ONLY_PASSED = getattr(os, "O_PATH", os.O_RDONLY)  # a folder without read permission can still be passed through
FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NotUsable(OSError):
    """The file may not be used: it is a link, a pipe, a device, a folder, another user's, or too large."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(errno.EINVAL, problem, str(path))


@contextmanager
def open_folder(
    path: Path, *, below: Path | None = None, create: bool = False, ours: bool = False, to_list: bool = False
) -> Iterator[int]:
    """Open a folder and yield its handle for `dir_fd`. Only with `to_list` can it be listed.

    `create` makes missing folders below `below`. `ours` refuses folders of another user.
    """
    top = path if below is None else below
    names = _names_below(path, top)
    handle = os.open(top, ONLY_PASSED | os.O_DIRECTORY | os.O_CLOEXEC)
    shown = top
    try:
        for name in names:
            shown = shown / name
            inner = _step(handle, name, shown, create)
            os.close(handle)
            handle = inner
            if ours:
                check_owner(os.fstat(handle), shown)
        if to_list:
            inner = os.open(".", os.O_RDONLY | FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


class HeldFolder:
    """A folder held open, to detect that another one was put in its place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, ONLY_PASSED | FOLDER)

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


def mount_of(handle: int) -> int:
    """Id of the mount that an open folder belongs to; its device on a system without /proc.

    A device is not enough: a folder may be mounted a second time within its own file system.
    """
    try:
        with open(f"/proc/self/fdinfo/{handle}", "rb", buffering=0) as file:
            return int(file.read(4096).partition(b"mnt_id:")[2].split(None, 1)[0])
    except (OSError, IndexError):
        return os.fstat(handle).st_dev


def _names_below(path: Path, top: Path) -> tuple[str, ...]:
    names = path.relative_to(top).parts
    if os.pardir in names:
        raise NotUsable(path, f"leads out of {top}")
    return names


def _step(folder: int, name: str, shown: Path, create: bool) -> int:
    """Open a folder within a folder."""
    if create:
        with suppress(FileExistsError), naming(shown):
            os.mkdir(name, dir_fd=folder)
    try:
        return os.open(name, ONLY_PASSED | FOLDER, dir_fd=folder)
    except NotADirectoryError:
        raise not_a(folder, name, shown, "a folder") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise not_a(folder, name, shown, "a folder") from None
        raise OSError(error.errno, error.strerror, str(shown)) from None


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let errors name the whole path: below a handle, the system knows a name alone."""
    try:
        yield
    except OSError as error:
        if isinstance(error.filename, str) and not os.path.isabs(error.filename):
            error.filename = str(path)
        raise


def not_a(folder: int, name: str, shown: Path, due: str) -> OSError:
    with suppress(OSError):
        found = kind_of_mode(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        return NotUsable(shown, f"is a {found}, not {due}")
    return NotUsable(shown, f"is not {due}")


def kind_of_mode(mode: int) -> str:
    kinds = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "folder",
        stat.S_IFLNK: "link",
        stat.S_IFIFO: "pipe",
        stat.S_IFSOCK: "socket",
    }
    return kinds.get(stat.S_IFMT(mode), "device")


def check_owner(found: os.stat_result, shown: Path) -> None:
    if found.st_uid != os.geteuid():
        raise NotUsable(shown, f"belongs to another user (uid {found.st_uid})")
