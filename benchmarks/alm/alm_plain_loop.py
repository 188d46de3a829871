"""The bare functions of the pipeline in a plain loop, in a few processes without Ray: what the engine is held against.

Only the loops are timed. Starting the processes and reading the manifest is done before they begin, all at once.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from time import perf_counter
from typing import Any, NamedTuple

from alm_manifest import Entry, Shard, count_entries, entries_of, read_lines
from alm_results import Outcome
from alm_work import Row, Settings, curate, found_in


class _Share(NamedTuple):
    """What one process does."""

    lines: list[bytes]
    repeats: int
    settings: Settings
    together: Barrier


def run(url: str, repeat_factor: int, settings: Settings, processes: int) -> Outcome:
    """Each process does all entries, its share of the times over."""
    lines = read_lines(url)
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(processes)
    repeats = [(repeat_factor + number) // processes for number in range(processes)]
    answers: multiprocessing.SimpleQueue[tuple[float, list[Row]]] = context.SimpleQueue()
    workers = [
        context.Process(target=_loop, args=(_Share(lines, share, settings, together), answers.put)) for share in repeats
    ]
    for worker in workers:
        worker.start()
    found = [answers.get() for _ in workers]
    for worker in workers:
        worker.join()
    slowest = max(seconds for seconds, _ in found)
    return Outcome(slowest, count_entries(lines) * repeat_factor, [row for _, rows in found for row in rows])


def _loop(share: _Share, answer: Callable[[Any], None]) -> None:
    entries: list[Entry] = list(entries_of(Shard(1, b"\n".join(share.lines))))
    found = []
    share.together.wait()
    began = perf_counter()
    for _ in range(share.repeats):
        found += [Row(0, found_in(curate(entry, share.settings))) for entry in entries]
    seconds = perf_counter() - began
    answer((seconds, found))
