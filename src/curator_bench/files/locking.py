"""Locks between processes. The kernel releases a lock when the last descriptor of its file is closed, also by a kill.

On a file system without locks, locking raises OSError.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from curator_bench.files import safe_files


def lock(file: int | IO[Any], *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file until it is closed. Raises BlockingIOError if another process holds it and `wait` is False."""
    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def locked(path: Path, *, below: Path | None = None, wait: bool = True) -> Iterator[BinaryIO]:
    """Hold the lock file of this name, created if missing; see `safe_files.open_lock`."""
    with safe_files.open_lock(path, below=below) as file:
        lock(file, wait=wait)
        yield file


def append_whole(file: int | IO[Any], content: bytes, *, sync: bool = False) -> None:
    """Append all of the content to a locked file, or none of it if the disk is full."""
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
