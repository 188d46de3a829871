"""Compares the demands of entries with the resources of this machine."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from curator_bench.doctor.conditions import Condition, good, missing, warning
from curator_bench.files.search_path import path_with
from curator_bench.values import Entry
from curator_bench.words import how_many, readable_bytes

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of this machine for runs."""

    cpus: float
    gpus: int
    memory_bytes: int
    shared_memory_bytes: int


@dataclass(slots=True)
class _Lack:
    """Something that entries ask for and this machine lacks."""

    cost: str
    remedy: str
    entries: list[str] = field(default_factory=list)
    is_slow_only: bool = False


def demand_conditions(
    entries: Sequence[Entry], problems: Mapping[str, Sequence[str]], resources: Resources
) -> list[Condition]:
    """Compare what entries ask for with what is there. `problems` are those of each entry's command line, by id.

    What several entries lack is one condition, which names them.
    """
    lacks: dict[str, _Lack] = {}
    for entry in entries:
        for found, lack in _lacks_of(entry, problems.get(entry.id, ()), resources):
            lacks.setdefault(found, lack).entries.append(entry.id)
    if not lacks:
        return [good("matrix", f"what {how_many(len(entries), 'entry asks', 'entries ask')} for is there")]
    return [_condition(found, lack) for found, lack in lacks.items()]


def _condition(found: str, lack: _Lack) -> Condition:
    names = ", ".join(lack.entries[:_MOST_NAMED])
    more = len(lack.entries) - _MOST_NAMED
    cost = f"{lack.cost}: {names}{f' and {more} more' if more > 0 else ''}"
    return (warning if lack.is_slow_only else missing)("matrix", found, cost, lack.remedy)


def _lacks_of(entry: Entry, problems: Sequence[str], resources: Resources) -> Iterator[tuple[str, _Lack]]:
    for problem in problems:
        yield problem, _Lack("cannot run", f"see {entry.place}")
    if entry.python is None:
        for module in entry.requires:
            if not _is_importable(module):
                yield f"no module {module}", _Lack("cannot run", f"pip install {module.partition('.')[0]}")
    for program in entry.requires_programs:
        if shutil.which(program, path=path_with(entry.env.get("PATH"), entry.python or sys.executable)) is None:
            yield f"no program {program}", _Lack("skipped", f"install {program}, or add its folder to PATH")
    if entry.ray is not None and not entry.ray.address:
        yield from _lacks_of_cluster(entry, resources)


def _lacks_of_cluster(entry: Entry, has: Resources) -> Iterator[tuple[str, _Lack]]:
    """Compare what a cluster is to report with what is there. Ray believes any number."""
    asks = entry.ray
    assert asks is not None
    if (asks.num_cpus or 0) > has.cpus:
        cost = "Ray starts more work at once than there are processors, so times are not those of such a machine"
        yield f"{asks.num_cpus:g} CPUs asked for, {has.cpus:g} here", _Lack(cost, _elsewhere("num_cpus", entry))
    if (asks.num_gpus or 0) > has.gpus:
        cost = "Ray starts them all the same, and what needs a GPU fails or waits" if has.gpus else "cannot run"
        yield f"{_gpus(asks.num_gpus)} asked for, {has.gpus} here", _Lack(cost, _elsewhere("num_gpus", entry))
    if (asks.memory or 0) > has.memory_bytes:
        found = f"memory of {readable_bytes(asks.memory or 0)} asked for, {readable_bytes(has.memory_bytes)} here"
        yield found, _Lack("the kernel ends what takes more than there is", _elsewhere("memory", entry))
    yield from _lacks_of_object_store(entry, has)


def _lacks_of_object_store(entry: Entry, has: Resources) -> Iterator[tuple[str, _Lack]]:
    assert entry.ray is not None
    size = entry.ray.object_store_size
    if size is None:
        return
    wanted = size if isinstance(size, int) else int(size * has.memory_bytes)
    asked = f"an object store of {readable_bytes(wanted)} asked for"
    if wanted > has.memory_bytes:
        found = f"{asked}, {readable_bytes(has.memory_bytes)} of memory here"
        yield found, _Lack("its cluster does not start", _elsewhere("object_store_size", entry))
    elif wanted > has.shared_memory_bytes:
        found = f"{asked}, {readable_bytes(has.shared_memory_bytes)} of shared memory free here"
        remedy = f"sudo mount -o remount,size={wanted // 2**30 + 1}G /dev/shm"
        yield found, _Lack("objects are on disk, which is many times slower", remedy, is_slow_only=True)


def _elsewhere(key: str, entry: Entry) -> str:
    return f"run them elsewhere, or set {key} ({entry.place})"


def _gpus(number: float | None) -> str:
    return f"{number:g} GPU{'' if number == 1 else 's'}"


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # a parent that is not there, or cannot be imported
        return False
