"""A second mark of a run's processes, which wiping the environment leaves in place: a number in a limit without effect.

The soft limit on file locks passes through fork and exec, is shown by /proc/PID/limits, and limits nothing since Linux
2.4.25 (getrlimit(2)). Its upper half stands for the run, its lower half for one script or one cluster of the run.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from zlib import crc32

_RLIMIT_LOCKS = 10  # <asm-generic/resource.h>; Python has no name for it
_LINE = b"Max file locks"
_HALF_BITS = 31


def is_branded(pid: int, *, run: str = "", own: str = "") -> bool:
    """Whether the process or one it descends from was branded with this run, or with this script or cluster.

    Everybody can read a brand, and put it on a process of his own: it counts on those of our own user.
    """
    number = _read(pid)
    is_this = number > 0 and (number >> _HALF_BITS == _half(run) if run else number % (1 << _HALF_BITS) == _half(own))
    return is_this and _is_our_users(pid)


def _half(value: str) -> int:
    return crc32(value.encode()) >> 1


if sys.platform == "linux":

    def brand_of(*, run: str, own: str) -> int:
        """What to set RLIMIT_LOCKS to before a program starts; 0 where there are no brands."""
        return (_half(run) << _HALF_BITS) + _half(own)

    def brand(pid: int, *, run: str, own: str) -> None:
        """A child that was started just now: what it starts later inherits it."""
        import resource

        number = brand_of(run=run, own=own)
        with suppress(OSError, ValueError):  # it has ended; somebody limits the limit; a kernel that does not let us
            _, most = resource.prlimit(pid, _RLIMIT_LOCKS)
            resource.prlimit(pid, _RLIMIT_LOCKS, (number, most))

    def shed_brand() -> None:
        """This process serves others than what it descends from, and is to outlive that."""
        import resource

        with suppress(OSError, ValueError):
            _, most = resource.getrlimit(_RLIMIT_LOCKS)
            resource.setrlimit(_RLIMIT_LOCKS, (most, most))

    def _read(pid: int) -> int:
        """0 where there is none."""
        try:
            with open(f"/proc/{pid}/limits", "rb", buffering=0) as file:
                limits = file.read()
        except OSError:  # gone
            return 0
        soft = limits.partition(_LINE)[2].split(None, 1)[:1]
        return int(soft[0]) if soft and soft[0].isdigit() else 0

    def _is_our_users(pid: int) -> bool:
        """By its real user: the owner of its folder in /proc is root where it hides its memory."""
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
        """Nothing here passes to descendants unseen."""

    def shed_brand() -> None:
        """There is none."""

    def _read(pid: int) -> int:
        return 0

    def _is_our_users(pid: int) -> bool:
        return False
