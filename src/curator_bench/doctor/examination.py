"""The whole examination, in the order it is shown."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from curator_bench.doctor.conditions import Condition, good, unknown, warning
from curator_bench.doctor.demands import Resources, demand_conditions
from curator_bench.doctor.gpus import gpu_conditions
from curator_bench.doctor.limits import limit_conditions, temporary_folder
from curator_bench.doctor.memory import free_shared_memory, memory_conditions
from curator_bench.doctor.occupation import occupation_conditions, pressure_conditions
from curator_bench.doctor.processors import processor_conditions
from curator_bench.measure.cgroup import read_limits
from curator_bench.measure.gpu_health import gpu_health, gpu_inventory
from curator_bench.measure.kernel_files import Tree
from curator_bench.provenance.machine import online_cores, this_machine
from curator_bench.values import Entry

_OLDEST_RAY = (2, 52)


def examine_machine(folders: Sequence[Path], tree: Tree | None = None) -> Iterator[Condition]:
    """Look at this machine, and at the disks of these folders. It takes a second."""
    tree = tree or Tree()
    yield from glance_at_machine(folders, tree)
    yield from occupation_conditions(tree)
    yield from gpu_conditions()


def glance_at_machine(folders: Sequence[Path], tree: Tree | None = None) -> Iterator[Condition]:
    """Run the quick checks: all but other processes, which take a second, and GPUs."""
    tree = tree or Tree()
    limits, cores = read_limits(tree.root), online_cores()
    yield from processor_conditions(tree, limits, cores)
    yield from memory_conditions(tree, limits)
    yield from pressure_conditions(tree, cores)
    yield from limit_conditions(tree, [*folders, temporary_folder()])
    yield ray_condition(importlib.metadata.version("ray"))


def examine_entries(entries: Sequence[Entry], problems: Mapping[str, Sequence[str]]) -> list[Condition]:
    """Compare what entries ask for with this machine."""
    machine = this_machine(read_limits(), gpu_inventory())
    resources = Resources(
        cpus=machine.cores,
        gpus=sum(not health.problems for health in gpu_health()),
        memory_bytes=machine.memory_bytes,
        shared_memory_bytes=free_shared_memory(),
    )
    return demand_conditions(entries, problems, resources)


def ray_condition(version: str) -> Condition:
    """Say whether this version of Ray is one that clusters are tested with."""
    numbers = version.split(".")[:2]
    if not all(number.isdigit() for number in numbers):
        return unknown("Ray", version)
    if tuple(map(int, numbers)) >= _OLDEST_RAY:
        return good("Ray", version)
    oldest = ".".join(map(str, _OLDEST_RAY))
    return warning("Ray", version, "it has no tokens, so clusters do not start", f"pip install 'ray>={oldest}'")
