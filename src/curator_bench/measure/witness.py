"""Samples what the machine did during a run: `machine.…` metrics, from which `verdict.disturbance` judges. Linux.

The important one is processor time that others took from the run. A thread that is ready waits for one of three
reasons: its own program has more ready threads than there are processors, others have them, or the host of a virtual
machine does. So, in each interval between two samples, others took at most the time that the run's threads waited, at
most the time that the run left unused of its processors, and at most the time that others used. The smallest of these
counts. A neighbour on a free processor lets nobody wait, and a run with too many workers leaves nothing unused.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from curator_bench.measure.cgroup import read_limits
from curator_bench.measure.cpu_time import CpuLedger
from curator_bench.measure.kernel_files import Tree
from curator_bench.measure.machine_counters import (
    MachineCounters,
    ProcessorTime,
    clock_mhz,
    machine_counters,
    processor_time,
)
from curator_bench.measure.other_processes import Descendants, OtherProcesses
from curator_bench.measure.run_queue import RunQueue
from curator_bench.measure.samples import TimeAverage
from curator_bench.measure.schedule import Job, Schedule
from curator_bench.measure.usage import ProcessUsage, ProcReader
from curator_bench.values import MACHINE

_SAMPLE_EVERY_S = 1.0
_FIRST_SAMPLES_EVERY_S = 0.1
_SHARE_OF_A_CORE = 0.003
_LOOK_AFTER_S = 0.5
"""A shorter run is over before it is worth looking at other processes, and at the clock of the processors."""
_LOOK_SHARE = 0.002
_LOOK_EVERY_S = 5.0
_MOST_NAMED = 3
_LEAST_NAMED_S = 0.05
_UNSEEN_S = 0.1
_MOST_UNSEEN = 3.0
"""Threads that came and went between samples waited as the others did, up to this multiple of what was seen."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Everything counted up to one sample."""

    at: float
    machine: ProcessorTime
    own_s: float
    ran_s: float
    waited_s: float


class Witness:
    """Sampler of what the machine did while the processes from `find_pids` ran."""

    def __init__(
        self,
        find_pids: Callable[[], Collection[int]],
        *,
        waiting_pids: Callable[[], Collection[int]] = tuple,
        schedule: Schedule | None = None,
        root: Path = Path("/"),
        cpus: float | None = None,
    ) -> None:
        """Set up the sampler.

        `find_pids` is called for each sample, so it has to be cheap. `waiting_pids` are the processes outside the run
        that wait for its processes. `root` contains proc and sys; `cpus` is the number of processors the run may use,
        by default that of this process.
        """
        self._find_pids, self._waiting_pids = find_pids, waiting_pids
        self._schedule = schedule or Schedule()
        self._tree = Tree(root)
        self._reader = ProcReader(root)
        self._cpus = cpus or _usable_cpus(root)
        self._queue = RunQueue(root)
        self._others = OtherProcesses(self._tree)
        self._descendants: Descendants | None = None
        self._clock = TimeAverage()
        self._began = 0.0
        self._ledger = CpuLedger(0.0)
        self._first: Moment | None = None
        self._last: Moment | None = None
        self._lost_s = 0.0
        self._counters: tuple[MachineCounters, MachineCounters] | None = None
        self._look_due_s = _LOOK_AFTER_S
        self._late: list[str] = []
        self._job = Job("watching the machine", self._sample, _seconds_to_next_sample, _SHARE_OF_A_CORE)

    def start(self) -> None:
        """Start sampling. A sampler can be started once. No-op where there is no /proc."""
        if sys.platform != "linux":
            return
        self._began = self._reader.now()
        self._ledger = CpuLedger(self._began)
        self._descendants = Descendants(self._tree)
        counters = machine_counters(self._tree)
        self._counters = counters, counters
        if not self._schedule.add(self._job):
            self._late.append("the first look at the machine took too long: `machine.…` begins later than the run")

    def stop(self) -> None:
        if sys.platform != "linux" or self._counters is None:
            return
        if not self._schedule.remove(self._job):
            self._late.append("the last look at the machine took too long: `machine.…` ends earlier than the run")
        self._counters = self._counters[0], machine_counters(self._tree)

    def metrics(self) -> dict[str, float | int | str]:
        """Return what the machine did. What cannot be read is left out."""
        found: dict[str, float | int | str] = {}
        if self._counters is not None:
            found |= self._counters[1].since(self._counters[0])
        if self._clock.average is not None:
            found["clock_mhz"] = round(self._clock.average, 1)
        if self._first is not None and self._last is not None and self._last.at > self._first.at:
            found |= self._of_processors(self._first, self._last)
        return {f"{MACHINE}{name}": value for name, value in found.items()}

    def warnings(self) -> tuple[str, ...]:
        return (*self._late, *self._job.warnings())

    def _of_processors(self, first: Moment, last: Moment) -> dict[str, float | int | str]:
        own = _own_s(first, last)
        found: dict[str, float | int | str] = {
            "seconds": round(last.at - first.at, 6),
            "cpus": self._cpus,
            "cpu_s": round(own, 6),
            "others_cpu_s": round(_others_s(first, last), 6),
            "stolen_s": round(max(0.0, last.machine.stolen_s - first.machine.stolen_s), 6),
            "disk_wait_s": round(max(0.0, last.machine.io_wait_s - first.machine.io_wait_s), 6),
        }
        if self._queue.is_readable:
            found["cpu_wait_s"] = round(_waited_s(first, last), 6)
            # Steps of the kernel's clock make others seem busy in one interval and idle in the next.
            found["cpu_wait_for_others_s"] = round(min(self._lost_s, _others_s(first, last)), 6)
        if names := _named(self._others.seconds):
            found["others"] = names
        return found

    def _sample(self) -> None:
        known = self._find_pids()
        pids = self._descendants.of(known) if self._descendants else list(known)
        now = self.moment(pids)
        if now is None:
            return
        if self._first is None:
            self._first = now
        elif self._last is not None and not self._ledger.has_lost_sight:
            self._lost_s += lost_s(self._last, now, self._cpus)
        self._last = now
        self._look(pids, now.at - self._first.at)

    def moment(self, pids: list[int]) -> Moment | None:
        """Read everything that a sample needs; None if the kernel does not show it."""
        machine = processor_time(self._tree)
        if machine is None:
            return None
        usages = [usage for pid in pids if (usage := self._reader.usage(pid)) is not None]
        self._ledger.update(usages, {one.pid: one.waited_cpu_s for one in self._usages(self._waiting_pids())})
        older = [usage.pid for usage in usages if usage.started < self._began]
        self._queue.update([usage.pid for usage in usages], older)
        return Moment(time.monotonic(), machine, self._ledger.total_s, self._queue.ran_s, self._queue.waited_s)

    def _usages(self, pids: Collection[int]) -> list[ProcessUsage]:
        return [usage for pid in pids if (usage := self._reader.usage(pid)) is not None]

    def _look(self, pids: Collection[int], elapsed_s: float) -> None:
        """Look at other processes and the clock now and then: on a large machine that costs some milliseconds."""
        if elapsed_s < self._look_due_s:
            return
        before = time.thread_time()
        self._others.look(pids)
        if (clock := clock_mhz(self._tree)) is not None:
            self._clock.add(time.monotonic(), clock)
        cost_s = time.thread_time() - before
        self._look_due_s = elapsed_s + max(min(_LOOK_EVERY_S, elapsed_s), cost_s / _LOOK_SHARE)


def lost_s(before: Moment, now: Moment, cpus: float) -> float:
    """Return the processor time that others took from the run between two samples."""
    seconds, own = now.at - before.at, _own_s(before, now)
    unused = max(0.0, cpus * seconds - own)
    return min(_waited_s(before, now), unused, _others_s(before, now))


def _own_s(before: Moment, now: Moment) -> float:
    """Return the processor time of the run: exact for the threads that were seen, or with those that were not."""
    return max(now.ran_s - before.ran_s, now.own_s - before.own_s, 0.0)


def _others_s(before: Moment, now: Moment) -> float:
    return max(0.0, now.machine.busy_s - before.machine.busy_s - _own_s(before, now))


def _waited_s(before: Moment, now: Moment) -> float:
    waited, ran, own = now.waited_s - before.waited_s, now.ran_s - before.ran_s, now.own_s - before.own_s
    if own - ran > _UNSEEN_S and ran > 0.0:
        waited *= min(own / ran, _MOST_UNSEEN)
    return max(0.0, waited)


def _usable_cpus(root: Path) -> float:
    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    quota = _quota(root)
    return min(allowed, quota) if quota else allowed


@functools.cache
def _quota(root: Path) -> float | None:
    """Return the quota of the control group. It is read once, as searching the mounts is a fifth of a run's cost."""
    return read_limits(root).cpus


def _named(seconds: Mapping[str, float]) -> str:
    """Word the programs that took most: `cc1plus 12.4 s, python 3.1 s`."""
    most = [(name, spent) for name, spent in seconds.items() if spent >= _LEAST_NAMED_S][:_MOST_NAMED]
    return ", ".join(f"{name} {spent:.1f} s" for name, spent in most)


def _seconds_to_next_sample(elapsed_s: float) -> float:
    return min(_SAMPLE_EVERY_S, max(_FIRST_SAMPLES_EVERY_S, elapsed_s / 2))
