"""Adds up the processor time of a tree of processes that come and go between two looks.

What a process used is counted once: while it lives as its own time, and when it has ended through its parent, to
whose waited-for time the kernel adds it. Nobody adds a process that was not waited for (a daemon, one whose parent
ignores SIGCHLD): of it the last time seen is kept, and what it used after that is missed. So is the whole of a process
that came and went unseen without being waited for by one that was seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from curator_bench.measure.usage import ProcessUsage

_CLOCK_GRAIN_S = 0.02
"""Start times are rounded down to ticks of 10 ms."""


class CpuLedger:
    """The processor time a tree has used since `began`; each `update` is one look at it."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._seen: dict[int, ProcessUsage] = {}
        self._outside: Mapping[int, float] = {}
        self._used_before = 0.0
        self._used_by_ended = 0.0

    @property
    def total_s(self) -> float:
        living = sum(usage.cpu_s + usage.waited_cpu_s for usage in self._seen.values())
        return max(0.0, living + self._used_by_ended - self._used_before)

    def update(self, usages: Iterable[ProcessUsage], outside: Mapping[int, float]) -> None:
        """`outside`: of processes that wait for the tree's but are not in it, the waited-for time."""
        now = {usage.pid: usage for usage in usages}
        ended = {pid: usage for pid, usage in self._seen.items() if not _same(usage, now.get(pid))}
        self._used_before += sum(
            self._before(usage) for pid, usage in now.items() if not _same(usage, self._seen.get(pid))
        )
        self._used_by_ended += self._uncounted(ended, now, outside)
        self._seen, self._outside = now, outside

    def _before(self, usage: ProcessUsage) -> float:
        older = usage.started < self._began - _CLOCK_GRAIN_S
        return usage.cpu_s + usage.waited_cpu_s if older else 0.0

    def _uncounted(
        self, ended: Mapping[int, ProcessUsage], now: Mapping[int, ProcessUsage], outside: Mapping[int, float]
    ) -> float:
        """The time of the processes that ended, as far as no living one of the tree has it in its waited-for time."""
        by_heir: dict[int, float] = defaultdict(float)
        for usage in ended.values():
            by_heir[_heir(usage, ended)] += usage.cpu_s + usage.waited_cpu_s
        return sum(self._not_inherited(heir, last_seen_s, now, outside) for heir, last_seen_s in by_heir.items())

    def _not_inherited(
        self, heir: int, last_seen_s: float, now: Mapping[int, ProcessUsage], outside: Mapping[int, float]
    ) -> float:
        if heir in outside:  # not in the tree: what it waited for since is the whole time, to the last moment
            return max(last_seen_s, outside[heir] - self._outside.get(heir, outside[heir]))
        before, after = self._seen.get(heir), now.get(heir)
        if before is None or after is None or not _same(before, after):
            return last_seen_s
        return max(0.0, last_seen_s - (after.waited_cpu_s - before.waited_cpu_s))


def _same(usage: ProcessUsage, other: ProcessUsage | None) -> bool:
    return other is not None and (usage.pid, usage.started) == (other.pid, other.started)


def _heir(usage: ProcessUsage, ended: Mapping[int, ProcessUsage]) -> int:
    """The nearest ancestor that has not ended with it."""
    passed = {usage.pid}
    parent = usage.parent
    while parent in ended and parent not in passed:
        passed.add(parent)
        parent = ended[parent].parent
    return parent
