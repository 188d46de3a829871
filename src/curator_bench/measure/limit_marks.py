"""A second mark on a run's processes: a number stored in a limit that has no effect. It survives a wiped environment.

The soft limit on file locks is inherited through fork and exec, is shown by /proc/PID/limits, and limits nothing since
Linux 2.4.25 (getrlimit(2)). Its upper half stands for the run, its lower half for one script or one cluster of the run.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from zlib import crc32

_RLIMIT_LOCKS = 10  # <asm-generic/resource.h>; Python does not name it
_LINE = b"Max file locks"
_HALF_BITS = 31


def is_branded(pid: int, *, run: str = "", own: str = "") -> bool:
    """True if the process or an ancestor was branded with this run, or with this script or cluster.

    Anyone can read a brand and put it on a process of their own, so only our own user's processes count.
    """
    number = _read(pid)
    is_this = number > 0 and (number >> _HALF_BITS == _half(run) if run else number % (1 << _HALF_BITS) == _half(own))
    return is_this and _is_our_users(pid)


def _half(value: str) -> int:
    return crc32(value.encode()) >> 1


if sys.platform == "linux":

    def brand_of(*, run: str, own: str) -> int:
        """Value of RLIMIT_LOCKS for a new program; 0 where brands are not supported."""
        return (_half(run) << _HALF_BITS) + _half(own)

    def brand(pid: int, *, run: str, own: str) -> None:
        """Brand a child that was just started. Its descendants inherit the brand."""
        import resource

        number = brand_of(run=run, own=own)
        with suppress(OSError, ValueError):  # ended already, limit restricted, or refused by the kernel
            _, most = resource.prlimit(pid, _RLIMIT_LOCKS)
            resource.prlimit(pid, _RLIMIT_LOCKS, (number, most))

    def shed_brand() -> None:
        """Remove the brand from this process, which serves several runs and outlives the one that started it."""
        import resource

        with suppress(OSError, ValueError):
            _, most = resource.getrlimit(_RLIMIT_LOCKS)
            resource.setrlimit(_RLIMIT_LOCKS, (most, most))

    def _read(pid: int) -> int:
        """Read the brand; 0 if there is none."""
        try:
            with open(f"/proc/{pid}/limits", "rb", buffering=0) as file:
                limits = file.read()
        except OSError:  # gone
            return 0
        soft = limits.partition(_LINE)[2].split(None, 1)[:1]
        return int(soft[0]) if soft and soft[0].isdigit() else 0

    def _is_our_users(pid: int) -> bool:
        """True if the real user is ours.

        The owner of its folder in /proc does not tell: it is root if the process hides its memory.
        """
        try:
            with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
                real = file.read().partition(b"\nUid:")[2].split(None, 1)[:1]
        except OSError:  # gone
            return False
        return real == [str(os.getuid()).encode()]

else:

    def brand_of(*, run: str, own: str) -> int:
        return 0

    def brand(pid: int, *, run: str, own: str) -> None:
        """No-op: brands are supported on Linux only."""

    def shed_brand() -> None:
        """No-op: brands are supported on Linux only."""

    def _read(pid: int) -> int:
        return 0

    def _is_our_users(pid: int) -> bool:
        return False
