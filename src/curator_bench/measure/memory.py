"""Memory and processor time of a tree of processes, sampled once a second.

Memory is the private memory of every process plus each shared segment once. Private is resident without shared; the
kernel counts file-backed pages such as program code as shared, and drops them when it needs room. Swapped pages and
pages of huge page pools are not counted. Pages that a forked process still shares with its parent are counted twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path

from curator_bench.measure.cpu_time import CpuLedger
from curator_bench.measure.kernel_files import Tree
from curator_bench.measure.other_processes import Descendants
from curator_bench.measure.samples import RowFile, TimeAverage
from curator_bench.measure.schedule import Job, Schedule
from curator_bench.measure.usage import ProcessUsage, UsageReader, usage_reader

SAMPLE_EVERY_S = 1.0
LOOK_UP_EVERY_S = 5.0
_FIRST_SAMPLES_EVERY_S = 0.1
_FEWEST_SAMPLES = 2
"""With a single sample, nothing is reported: the script ended less than a tenth of a second after its start."""
_SHORTEST_CPU_S = 0.2
"""Shorter times are not reported: the kernel counts in ticks of 10 ms, which is an error of more than 5 %."""
_SHARE_OF_A_CORE = 0.006
_LOOK_UP_SHARE = 0.003
_EARLY_LOOK_UP_SHARE = 0.02
"""Share of a core for looking up processes in the first seconds, when the tree grows quickly.

It is paid from the 50 ms a job has free.
"""


class MemorySampler:
    """Sampler of `peak_memory_bytes`, `average_memory_bytes` and `cpu_time_s` of the processes from `find_pids`."""

    def __init__(
        self,
        find_pids: Callable[[], Collection[int]],
        *,
        waiting_pids: Callable[[], Collection[int]] = lambda: (os.getpid(),),
        schedule: Schedule | None = None,
        reader: UsageReader | None = None,
        csv_path: Path | None = None,
        below: Path | None = None,
    ) -> None:
        """Set up the sampler.

        `waiting_pids` are the processes outside the tree that wait for its processes; by default this one. Each sample
        becomes a row of `csv_path`; no link is followed to it from the folder `below` on.
        """
        self._find_pids = find_pids
        self._waiting_pids = waiting_pids
        self._schedule = schedule or Schedule()
        self._reader = reader or usage_reader()
        self._known: dict[int, float | None] = {}
        """Processes of the tree with the start of each; None if it was not read yet."""
        self._descendants = Descendants(Tree())
        """Children of the known processes, between two searches for all of the tree: a worker may live for seconds."""
        self._memory = TimeAverage()
        self._samples = 0
        """Samples that found memory. The first is taken as the script starts, before it has got its own."""
        self._cpu = CpuLedger(self._reader.now())
        self._began = time.monotonic()
        self._look_up_due = 0.0
        self._tree_changed = False
        self._late: list[str] = []
        self._rows = RowFile(csv_path, ("time", "memory_bytes"), below) if csv_path is not None else None
        self._job = Job("sampling memory", self._sample, _seconds_to_next_sample, _SHARE_OF_A_CORE, self._close)

    def start(self) -> None:
        """Start sampling. A sampler can be started once."""
        self._began = time.monotonic()
        self._cpu = CpuLedger(self._reader.now())
        if not self._schedule.add(self._job):
            self._late.append("the first sample of memory took too long: the figures begin later than the run")

    def look_again(self) -> None:
        """Look up the tree at once, because it has changed, for instance by the start of the script."""
        self._tree_changed = True
        self._schedule.hurry(self._job)

    def pids(self) -> list[int]:
        """Return the processes of the tree, as far as they were looked up and still lived at the last sample."""
        return list(self._known)

    def stop(self) -> None:
        self._tree_changed = True
        if not self._schedule.remove(self._job):
            self._late.append("the last sample of memory took too long: the figures end earlier than the run")

    def metrics(self) -> dict[str, float | int]:
        if not self._samples:  # ended before the first sample: unknown, not zero
            return {}
        found: dict[str, float | int] = {}
        if self._cpu.total_s >= _SHORTEST_CPU_S:
            found["cpu_time_s"] = round(self._cpu.total_s, 3)
        peak, average = self._memory.peak, self._memory.average
        if self._samples >= _FEWEST_SAMPLES and peak is not None and average is not None:
            found |= {"peak_memory_bytes": int(peak), "average_memory_bytes": int(average)}
        return found

    def warnings(self) -> tuple[str, ...]:
        return (*self._late, *self._job.warnings())

    def _sample(self) -> None:
        try:
            if self._tree_changed or time.monotonic() >= self._look_up_due:
                self._tree_changed = False
                self._look_up()
        finally:  # sample the known processes in any case
            self._add_new_children()
            self._add_sample()

    def _add_sample(self) -> None:
        usages = self._read_known()
        memory_bytes = sum(usage.private_bytes for usage in usages) + self._reader.shared_bytes()
        self._memory.add(time.monotonic(), memory_bytes)
        self._samples += memory_bytes > 0
        self._cpu.update(usages, {usage.pid: usage.waited_cpu_s for usage in self._read(self._waiting_pids())})
        self._write(memory_bytes)

    def _write(self, memory_bytes: int) -> None:
        if self._rows is None:
            return
        try:
            self._rows.add([(datetime.now(UTC).isoformat(timespec="milliseconds"), memory_bytes)])
        except OSError as error:
            self._late.append(f"memory.csv ends earlier than the run: {error}")
            self._close()

    def _close(self) -> None:
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def _look_up(self) -> None:
        """Look up the tree. A process once found stays in it, so that a failed search does not count it twice."""
        cpu_before, began = time.thread_time(), time.monotonic()
        self._look_up_due = began + LOOK_UP_EVERY_S  # also if the following fails
        self._known.update(dict.fromkeys(self._find_pids()))
        self._reader.look_up_shared(self._known)
        early = began - self._began < LOOK_UP_EVERY_S
        cost_s = time.thread_time() - cpu_before
        share, at_least_s = (_EARLY_LOOK_UP_SHARE, 0.0) if early else (_LOOK_UP_SHARE, LOOK_UP_EVERY_S)
        self._look_up_due = began + max(at_least_s, cost_s / share)

    def _add_new_children(self) -> None:
        for pid in self._descendants.of(self._known):
            self._known.setdefault(pid, None)

    def _read_known(self) -> list[ProcessUsage]:
        """Read the tree's living processes. A pid that now belongs to another process is dropped."""
        usages = [usage for usage in self._read(self._known) if self._known[usage.pid] in (None, usage.started)]
        self._known = {usage.pid: usage.started for usage in usages}
        return usages

    def _read(self, pids: Iterable[int]) -> list[ProcessUsage]:
        return [usage for pid in pids if (usage := self._reader.usage(pid)) is not None]


def _seconds_to_next_sample(elapsed_s: float) -> float:
    """Interval to the next sample: first short, to catch a script of half a second, then one second."""
    return min(SAMPLE_EVERY_S, max(_FIRST_SAMPLES_EVERY_S, elapsed_s / 2))
