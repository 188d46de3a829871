"""Many entries in one pytest: the last costs it what the first did."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from end_to_end.conftest import Project

ENTRIES = 200 if os.environ.get("CURATOR_BENCH_PROOF") == "full" else 20
# pytest keeps a report of every test it has run, and we keep what the summary shows of it.
BYTES_PER_ENTRY = 40_000
UNEVEN_BYTES = 1_000_000
NOTES_WHAT_PYTEST_HOLDS = """
import gc, json, threading
import psutil

def pytest_bench_run_finished(item, result):
    gc.collect()
    process = psutil.Process()
    held = {
        "memory": process.memory_info().rss,
        "descriptors": process.num_fds(),
        "threads": threading.active_count(),
        "children": len(process.children(recursive=True)),
    }
    with open("held.jsonl", "a") as file:
        file.write(json.dumps(held) + "\\n")
"""


def test_entries_in_a_row_grow_neither_processes_nor_descriptors_nor_memory(project: Project) -> None:
    project.write("conftest.py", NOTES_WHAT_PYTEST_HOLDS)
    numbers = '--metrics \'{"a": 1, "b": 2.5}\''
    project.matrix(*(project.entry(f"entry_{number}", numbers) for number in range(ENTRIES)))
    outcome = project.run()
    assert outcome.code == 0, outcome.output
    held = [json.loads(line) for line in (project.folder / "held.jsonl").read_text().splitlines()]
    assert len(held) == ENTRIES
    settled = held[ENTRIES // 2 :]  # by then all that is imported once has been, also on other threads
    early, late = settled[: len(settled) // 2], settled[len(settled) // 2 :]
    for what in ("descriptors", "threads", "children"):  # a thread may hold one more for a moment
        assert min(one[what] for one in late) <= min(one[what] for one in early), what
    growth = settled[-1]["memory"] - settled[0]["memory"]
    print(f"{ENTRIES} entries: {growth / len(settled) / 1000:.1f} kB each, {settled[-1]}")
    assert growth < UNEVEN_BYTES + BYTES_PER_ENTRY * len(settled)
    assert not project.processes()
