"""Other work of the machine: other processes, load, pressure. Linux."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping

from curator_bench.doctor.conditions import Condition, good, unknown, warning
from curator_bench.measure.kernel_files import Tree
from curator_bench.measure.other_processes import Process, all_processes, spent

LOOK_S = 1.0
_BUSY_CORES = 0.1
"""It is a warning if other processes together take more than this share of a core."""
_LOADED = 0.5
"""It is a warning if the load is more than this share of the processors: something else runs, or just ended."""
_MOST_NAMED = 3
_PRESSURE = {"cpu": 5.0, "io": 5.0, "memory": 1.0}
"""It is a warning if processes waited for more than this percentage of the last ten seconds."""
_GRAVE = {"memory": 10.0}
"""Above this percentage, the memory is used up. Processors and disks may be busy with what ran before the session."""
_COSTS = {
    "cpu": "runs wait for a processor",
    "io": "runs wait for the disk",
    "memory": "runs wait for memory that the kernel has to free first",
}


def occupation_conditions(tree: Tree, sleep: Callable[[float], object] = time.sleep) -> Iterator[Condition]:
    """Look at the other processes for a second."""
    before, began = all_processes(tree), time.monotonic()
    sleep(LOOK_S)
    seconds = time.monotonic() - began
    yield _others(before, all_processes(tree), max(seconds, LOOK_S))


def pressure_conditions(tree: Tree, cpus: float) -> Iterator[Condition]:
    """Look at what the kernel says of the last minute, and of the last ten seconds."""
    yield _load(tree, cpus)
    for resource, limit in _PRESSURE.items():
        yield _pressure(tree, resource, limit)


def _others(before: Mapping[int, Process], after: Mapping[int, Process], seconds: float) -> Condition:
    if not after:
        return unknown("other processes", "the kernel does not show them")
    ours = _family(after, os.getpid())
    shares = {pid: spent(before.get(pid), process) / seconds for pid, process in after.items() if pid not in ours}
    total = sum(shares.values())
    if total < _BUSY_CORES:
        return good("other processes", f"they take {total:.0%} of a core")
    most = sorted(shares, key=lambda pid: shares[pid], reverse=True)[:_MOST_NAMED]
    named = ", ".join(f"{after[pid].name} (pid {pid}) {shares[pid]:.0%}" for pid in most if shares[pid] >= 0.01)
    cost = "they take processor time from runs, more at one time and less at another"
    remedy = "end them, or wait: kill PID" if len(most) > 1 else f"end it, or wait: kill {most[0]}"
    return warning("other processes", f"they take {total:.0%} of a core: {named}", cost, remedy)


def _load(tree: Tree, cpus: float) -> Condition:
    try:
        load = float(tree.text("proc/loadavg").split()[0])
    except (IndexError, ValueError):
        return unknown("load", "the kernel does not show it")
    found = f"{load:g} processes ran or waited in the last minute, on {cpus:g} processors"
    if load <= _LOADED * cpus:
        return good("load", found)
    return warning(
        "load", found, "runs share the processors with other programs", "see what runs: top; then wait, or end it"
    )


def _family(processes: Mapping[int, Process], pid: int) -> set[int]:
    """Return the process, those it was started by, and those they have started for it."""
    above, place = {pid}, pid
    while (process := processes.get(place)) is not None and process.parent > 1:
        place = process.parent
        above.add(place)
    return above | {other.pid for other in processes.values() if other.parent == pid}


def _pressure(tree: Tree, resource: str, limit: float) -> Condition:
    name = f"pressure on {resource}"
    share = _share_of_last_ten_seconds(tree.text(f"proc/pressure/{resource}"))
    if share is None:
        return unknown(name, "the kernel does not count it (PSI)")
    found = f"processes waited {share:g} % of the last 10 seconds"
    if share <= limit:
        return good(name, found)
    remedy = f"see who waits: cat /proc/pressure/{resource}; top"
    return warning(name, found, _COSTS[resource], remedy, is_grave=share > _GRAVE.get(resource, math.inf))


def _share_of_last_ten_seconds(text: str) -> float | None:
    for line in text.splitlines():
        kind, *numbers = line.split()
        if kind == "some":
            values = dict(number.partition("=")[::2] for number in numbers)
            return float(values["avg10"]) if "avg10" in values else None
    return None
