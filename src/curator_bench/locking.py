"""Locks between processes. The kernel gives a lock up when the last descriptor of its file is closed, as by a kill.

Where a file system has no locks, what is locked raises OSError.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from curator_bench import safe_files


def lock(file: int | IO[Any], *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file until it is closed. Raises BlockingIOError where others hold it and `wait` is False."""
    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def locked(path: Path, *, below: Path | None = None, wait: bool = True) -> Iterator[BinaryIO]:
    """Hold the lock of this name, which is made where there is none; see `safe_files.open_lock`."""
    with safe_files.open_lock(path, below=below) as file:
        lock(file, wait=wait)
        yield file


def append_whole(file: int | IO[Any], content: bytes, *, sync: bool = False) -> None:
    """Add all of the content to the end of a locked file or, where the disk is full, none of it."""
    descriptor = file if isinstance(file, int) else file.fileno()
    before = os.fstat(descriptor).st_size
    left = memoryview(content)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
        if sync:
            os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, before)
        raise
