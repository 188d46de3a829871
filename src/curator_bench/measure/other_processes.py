"""The processes of the machine: their processor time, which took most of it, and which ones a run started. Linux."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from curator_bench.measure.kernel_files import Tree, read_small

_NAME_END = b") "
_PARENT, _USER, _SYSTEM, _STARTED = 1, 11, 12, 19
"""Positions in /proc/PID/stat after the name (proc_pid_stat(5))."""
_LONGEST_NAME = 15
"""Longer ones the kernel cuts."""


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    started: int
    parent: int
    name: str
    seconds: float
    """Processor time so far."""


def all_processes(tree: Tree) -> dict[int, Process]:
    """Read all processes that this user may see, by pid."""
    return _read(tree, _listed(tree))


def _listed(tree: Tree) -> set[int]:
    try:
        return {int(name) for name in os.listdir(tree.root / "proc") if name.isdigit()}
    except OSError:
        return set()


def _read(tree: Tree, pids: Collection[int]) -> dict[int, Process]:
    ticks, folder = os.sysconf("SC_CLK_TCK"), tree.root / "proc"
    return {pid: process for pid in pids if (process := _process(f"{folder}/{pid}/stat", pid, ticks)) is not None}


def _process(path: str, pid: int, ticks: int) -> Process | None:
    head, end, rest = read_small(path).rpartition(_NAME_END)
    fields = rest.split()
    if not end or len(fields) <= _STARTED:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    seconds = (int(fields[_USER]) + int(fields[_SYSTEM])) / ticks
    return Process(pid, int(fields[_STARTED]), int(fields[_PARENT]), name, seconds)


def spent(before: Process | None, after: Process) -> float:
    """Return the processor time since the first look. A process that is new has used all of its time since then."""
    is_same = before is not None and before.started == after.started
    return after.seconds - (before.seconds if before is not None and is_same else 0.0)


class OtherProcesses:
    """Processor time of processes outside the run since the first look, by name. A look may cost some milliseconds."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._last: dict[int, Process] = {}
        self._was_looked_at = False
        self._by_name: dict[str, float] = {}

    def look(self, own: Collection[int]) -> None:
        """Look again. `own` are the pids of the run, which are left out."""
        now = all_processes(self._tree)
        if self._was_looked_at:
            for pid, process in now.items():
                took = 0.0 if pid in own else spent(self._last.get(pid), process)
                if took > 0.0:
                    name = process.name[:_LONGEST_NAME]
                    self._by_name[name] = self._by_name.get(name, 0.0) + took
        self._last, self._was_looked_at = now, True

    @property
    def seconds(self) -> Mapping[str, float]:
        """Processor time by name of the program, the most first."""
        return dict(sorted(self._by_name.items(), key=lambda one: -one[1]))


class Descendants:
    """The processes that those of a run have started since the first look.

    To look all of a run's processes up takes long, so it is done now and then only, and new workers of Ray would be
    taken for others meanwhile. Here only processes that are new on the machine are read.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._listed = _listed(tree)
        self._found: set[int] = set()

    def of(self, known: Collection[int]) -> list[int]:
        """Return the known processes of the run, and the descendants that are not known yet."""
        listed = _listed(self._tree)
        new = _read(self._tree, listed - self._listed)
        self._listed = listed
        family = {*known, *(self._found & listed)}
        while more := {pid for pid, process in new.items() if process.parent in family and pid not in family}:
            family |= more
        self._found = family.difference(known)
        return sorted(family)
