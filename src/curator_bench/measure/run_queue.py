"""Adds up how long the threads of a run were ready and waited for a processor (schedstat of each). Linux."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from curator_bench.measure.kernel_files import read_small

_NS = 1e9


class RunQueue:
    """Time of the threads of processes that come and go, since the first update.

    A thread that ends counts with the last time seen. /proc/PID/schedstat shows only the first thread of a process, so
    each thread is read.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = f"{root}/proc".replace("//", "/")
        self._last: dict[tuple[int, int], tuple[int, int]] = {}
        self._known: set[int] = set()
        self._is_first = True
        self._ran_ns = self._waited_ns = 0
        self.is_readable = False
        """True once a thread could be read: some kernels do not count it."""

    @property
    def ran_s(self) -> float:
        """Processor time of the threads that were seen."""
        return self._ran_ns / _NS

    @property
    def waited_s(self) -> float:
        """Time in which they were ready to run and did not."""
        return self._waited_ns / _NS

    def update(self, pids: Iterable[int], older: Iterable[int] = ()) -> None:
        """Read the threads of these processes. Threads of `older` processes that are new here count from now on."""
        before_us = set(older)
        now: dict[tuple[int, int], tuple[int, int]] = {}
        for pid in pids:
            starts_now = self._is_first or (pid in before_us and pid not in self._known)
            for thread, times in self._threads(pid).items():
                now[pid, thread] = times
                self._add(self._last.get((pid, thread)), times, starts_now=starts_now)
        self._last, self._is_first = now, False
        self._known = {pid for pid, _ in now}

    def _add(self, before: tuple[int, int] | None, now: tuple[int, int], *, starts_now: bool) -> None:
        if before is None or now[0] < before[0] or now[1] < before[1]:  # new, or another one with its number
            before = now if starts_now else (0, 0)
        self._ran_ns += now[0] - before[0]
        self._waited_ns += now[1] - before[1]

    def _threads(self, pid: int) -> Mapping[int, tuple[int, int]]:
        folder = f"{self._proc}/{pid}/task"
        try:
            names = os.listdir(folder)
        except OSError:  # it has ended
            return {}
        found = {}
        for name in names:
            words = read_small(f"{folder}/{name}/schedstat").split()
            if len(words) >= 2:
                found[int(name)] = (int(words[0]), int(words[1]))
        self.is_readable = self.is_readable or bool(found)
        return found
