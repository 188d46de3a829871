"""Add up the processor time of a tree of processes that come and go between two samples.

Each process is counted once: while it lives by its own time, afterwards by the waited-for time of its parent, to which
the kernel adds it. The kernel adds nothing for a process that nobody waited for (a daemon, or a child of a parent that
ignores SIGCHLD). Such a process counts with the last time seen, and its later use is missed. A process that comes and
goes between samples is missed too, unless a sampled process waited for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from curator_bench.measure.usage import ProcessUsage

_CLOCK_GRAIN_S = 0.02
"""Start times are rounded down to ticks of 10 ms."""


class CpuLedger:
    """Processor time of a tree since `began`; each `update` is one sample of it."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._seen: dict[int, ProcessUsage] = {}
        self._outside: Mapping[int, float] = {}
        self._used_before = 0.0
        self._used_by_ended = 0.0
        self.has_lost_sight = False
        """True if processes ended before the last sample for which nobody waited: their last use is not known."""

    @property
    def total_s(self) -> float:
        living = sum(usage.cpu_s + usage.waited_cpu_s for usage in self._seen.values())
        return max(0.0, living + self._used_by_ended - self._used_before)

    def update(self, usages: Iterable[ProcessUsage], outside: Mapping[int, float]) -> None:
        """Add one sample.

        `outside` holds the waited-for time of processes outside the tree that wait for its processes.
        """
        now = {usage.pid: usage for usage in usages}
        ended = {pid: usage for pid, usage in self._seen.items() if not _same(usage, now.get(pid))}
        self._used_before += sum(
            self._before(usage) for pid, usage in now.items() if not _same(usage, self._seen.get(pid))
        )
        uncounted = self._uncounted(ended, now, outside)
        self.has_lost_sight = any(left > _CLOCK_GRAIN_S for heir, left in uncounted.items() if heir not in outside)
        self._used_by_ended += sum(uncounted.values())
        self._seen, self._outside = now, outside

    def _before(self, usage: ProcessUsage) -> float:
        older = usage.started < self._began - _CLOCK_GRAIN_S
        return usage.cpu_s + usage.waited_cpu_s if older else 0.0

    def _uncounted(
        self, ended: Mapping[int, ProcessUsage], now: Mapping[int, ProcessUsage], outside: Mapping[int, float]
    ) -> dict[int, float]:
        """Return by heir the time of ended processes that is not yet in the waited-for time of a living one."""
        by_heir: dict[int, float] = defaultdict(float)
        for usage in ended.values():
            by_heir[_living_ancestor(usage, ended)] += usage.cpu_s + usage.waited_cpu_s
        return {heir: self._not_inherited(heir, last_seen_s, now, outside) for heir, last_seen_s in by_heir.items()}

    def _not_inherited(
        self, heir: int, last_seen_s: float, now: Mapping[int, ProcessUsage], outside: Mapping[int, float]
    ) -> float:
        if heir in outside:  # outside the tree: its waited-for time holds all of it
            return max(last_seen_s, outside[heir] - self._outside.get(heir, outside[heir]))
        before, after = self._seen.get(heir), now.get(heir)
        if before is None or after is None or not _same(before, after):
            return last_seen_s
        return max(0.0, last_seen_s - (after.waited_cpu_s - before.waited_cpu_s))


def _same(usage: ProcessUsage, other: ProcessUsage | None) -> bool:
    return other is not None and (usage.pid, usage.started) == (other.pid, other.started)


def _living_ancestor(usage: ProcessUsage, ended: Mapping[int, ProcessUsage]) -> int:
    """Nearest ancestor that is still alive."""
    passed = {usage.pid}
    parent = usage.parent
    while parent in ended and parent not in passed:
        passed.add(parent)
        parent = ended[parent].parent
    return parent
