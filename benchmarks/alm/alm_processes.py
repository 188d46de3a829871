"""The builtin engine on the processors of this machine, without Ray: the same jobs, handed to forked processes.

A process starts in milliseconds with everything imported; a connection to Ray and its first worker take seconds.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from time import perf_counter

from alm_manifest import Job, count_entries, jobs_for, read_lines
from alm_results import Outcome, tasks_of
from alm_work import Row, Settings, do_job

TASKS_PER_PROCESS = 4  # so that a task that takes longer than the others does not leave the rest of the machine idle


def run(url: str, repeat_factor: int, settings: Settings, processes: int) -> Outcome:
    began = perf_counter()
    lines = read_lines(url)
    rows = _done(jobs_for(lines, repeat_factor, processes * TASKS_PER_PROCESS), settings, processes)
    seconds = perf_counter() - began
    return Outcome(seconds, count_entries(lines) * repeat_factor, rows, tasks_of(rows))


def _done(jobs: list[Job], settings: Settings, processes: int) -> list[Row]:
    if not jobs:
        return []
    context = multiprocessing.get_context("fork")  # this process has no threads yet
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=context) as pool:
        tables = pool.map(do_job, range(len(jobs)), jobs, [settings] * len(jobs))
        return [row for table in tables for row in table]
