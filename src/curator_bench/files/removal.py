"""Removal of a folder in which others may write at the same time."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from curator_bench.files.folder_handles import FOLDER, ONLY_PASSED, mount_of


class Removal:
    """Removal of a tree of any depth with few handles: deeper folders are moved up before they are removed.

    Folders and files that cannot be removed stay where they are; the first reason is kept. Mounts
    in the tree are not entered.
    """

    def __init__(self) -> None:
        self._reason: OSError | None = None
        self._left: set[str] = set()
        self._mount = 0

    def remove(self, folder: int, name: str, shown: Path) -> None:
        try:
            self._mount = mount_of(folder)
            with self._opened(folder, name) as top:
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
            with self._opened(top, name) as folder:
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
            with self._held(folder, name) as handle:
                _open_up(handle)
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
    def _opened(self, folder: int, name: str) -> Iterator[int]:
        """Open a folder to list it."""
        with self._held(folder, name) as held:
            _open_up(held)
            handle = os.open(".", os.O_RDONLY | FOLDER, dir_fd=held)
        try:
            yield handle
        finally:
            os.close(handle)

    @contextmanager
    def _held(self, folder: int, name: str) -> Iterator[int]:
        """Hold a folder. One where something is mounted is refused: its files are another file system's."""
        handle = os.open(name, ONLY_PASSED | FOLDER, dir_fd=folder)
        try:
            if mount_of(handle) != self._mount:
                raise OSError(errno.EBUSY, "something is mounted in it; its files are left alone", name)
            yield handle
        finally:
            os.close(handle)


def _open_up(handle: int) -> None:
    """Restore our access to our own folder, if it was taken away. Without /proc it stays closed."""
    with suppress(OSError):
        if stat.S_IMODE(os.fstat(handle).st_mode) & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
