"""Memory and processor time of a tree of processes, sampled once a second.

Memory is the private memory of every process (resident without shared: the kernel counts pages backed by a file, such
as program code, as shared, and gives them up when it needs room) plus each shared segment once. What is swapped out and
the pages of huge page pools are not in it; what a forked process still has in common with its parent is in it twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path

from curator_bench.measure.cpu_time import CpuLedger
from curator_bench.measure.readers import usage_reader
from curator_bench.measure.row_file import RowFile
from curator_bench.measure.schedule import Job, Schedule
from curator_bench.measure.time_average import TimeAverage
from curator_bench.measure.usage import ProcessUsage, UsageReader

SAMPLE_EVERY_S = 1.0
LOOK_UP_EVERY_S = 5.0
_FIRST_SAMPLES_EVERY_S = 0.1
_SHARE_OF_A_CORE = 0.006
_LOOK_UP_SHARE = 0.003
_EARLY_LOOK_UP_SHARE = 0.02
"""In the first seconds, when the tree grows with every look; the 50 ms a job has free pay for it."""


class MemorySampler:
    """`peak_memory_bytes`, `average_memory_bytes` and `cpu_time_s` of the processes that `find_pids` finds."""

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
        """`waiting_pids`: the processes outside the tree that start and wait for its own; this one unless told.

        `csv_path`: where each sample becomes a row, if anywhere; `below`: the folder from which on no link leads there.
        """
        self._find_pids = find_pids
        self._waiting_pids = waiting_pids
        self._schedule = schedule or Schedule()
        self._reader = reader or usage_reader()
        self._known: dict[int, float | None] = {}
        """The processes of the tree and when each started; None for one that was found but not yet read."""
        self._memory = TimeAverage()
        self._cpu = CpuLedger(self._reader.now())
        self._began = time.monotonic()
        self._look_up_due = 0.0
        self._tree_changed = False
        self._late: list[str] = []
        self._rows = RowFile(csv_path, ("time", "memory_bytes"), below) if csv_path is not None else None
        self._job = Job("sampling memory", self._sample, _seconds_to_next_sample, _SHARE_OF_A_CORE, self._close)

    def start(self) -> None:
        """A sampler measures once."""
        self._began = time.monotonic()
        self._cpu = CpuLedger(self._reader.now())
        if not self._schedule.add(self._job):
            self._late.append("the first sample of memory took too long: the figures begin later than the run")

    def look_again(self) -> None:
        """Tell that the tree has changed, for instance that the script was started: it is looked up at once."""
        self._tree_changed = True
        self._schedule.hurry(self._job)

    def stop(self) -> None:
        self._tree_changed = True
        if not self._schedule.remove(self._job):
            self._late.append("the last sample of memory took too long: the figures end earlier than the run")

    def metrics(self) -> dict[str, float | int]:
        peak, average = self._memory.peak, self._memory.average
        if not peak or average is None:  # over before it was looked at: not known, and not zero
            return {}
        return {
            "peak_memory_bytes": int(peak),
            "average_memory_bytes": int(average),
            "cpu_time_s": round(self._cpu.total_s, 3),
        }

    def warnings(self) -> tuple[str, ...]:
        return (*self._late, *self._job.warnings())

    def _sample(self) -> None:
        try:
            if self._tree_changed or time.monotonic() >= self._look_up_due:
                self._tree_changed = False
                self._look_up()
        finally:  # what was found before is sampled all the same
            self._add_sample()

    def _add_sample(self) -> None:
        usages = self._read_known()
        memory_bytes = sum(usage.private_bytes for usage in usages) + self._reader.shared_bytes()
        self._memory.add(time.monotonic(), memory_bytes)
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
        """Processes that were once in the tree stay in it: a find that overlooks one must not make it appear twice."""
        cpu_before, began = time.thread_time(), time.monotonic()
        self._look_up_due = began + LOOK_UP_EVERY_S  # also when what follows fails
        self._known.update(dict.fromkeys(self._find_pids()))
        self._reader.look_up_shared(self._known)
        early = began - self._began < LOOK_UP_EVERY_S
        cost_s = time.thread_time() - cpu_before
        share, at_least_s = (_EARLY_LOOK_UP_SHARE, 0.0) if early else (_LOOK_UP_SHARE, LOOK_UP_EVERY_S)
        self._look_up_due = began + max(at_least_s, cost_s / share)

    def _read_known(self) -> list[ProcessUsage]:
        """The processes of the tree that live; a number that went to another process is not one of them."""
        usages = [usage for usage in self._read(self._known) if self._known[usage.pid] in (None, usage.started)]
        self._known = {usage.pid: usage.started for usage in usages}
        return usages

    def _read(self, pids: Iterable[int]) -> list[ProcessUsage]:
        return [usage for pid in pids if (usage := self._reader.usage(pid)) is not None]


def _seconds_to_next_sample(elapsed_s: float) -> float:
    """Close together at first, so that a script of half a second is seen too, then once a second."""
    return min(SAMPLE_EVERY_S, max(_FIRST_SAMPLES_EVERY_S, elapsed_s / 2))
