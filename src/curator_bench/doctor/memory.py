"""Memory: swap, pressure, huge pages, limits of control groups, shared memory. Linux."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from curator_bench.doctor.conditions import Condition, good, unknown, warning
from curator_bench.measure.cgroup import CgroupLimits
from curator_bench.measure.kernel_files import Tree
from curator_bench.words import readable_bytes

SHARED_MEMORY = Path("/dev/shm")
_HUGE = "sys/kernel/mm/transparent_hugepage/enabled"
_SWAPPED_BYTES = 64 * 2**20
"""Less swap than this is no problem: it holds what sleeping programs do not need."""
_STORE_SHARE = 0.3
"""Share of the memory that Ray gives its object store by default."""


def memory_conditions(tree: Tree, limits: CgroupLimits, shared_memory: Path = SHARED_MEMORY) -> Iterator[Condition]:
    kib = tree.table("proc/meminfo")
    total = kib.get("MemTotal", 0) * 1024
    yield _swap(kib)
    yield _huge_pages(tree)
    yield _limit(limits, total)
    yield _shared_memory(shared_memory, min(total, limits.memory_bytes or total))


def _swap(kib: dict[str, int]) -> Condition:
    if "SwapTotal" not in kib:
        return unknown("swap", "the kernel does not show it")
    used = (kib["SwapTotal"] - kib.get("SwapFree", 0)) * 1024
    if used <= _SWAPPED_BYTES:
        return good("swap", f"{readable_bytes(used)} used" if kib["SwapTotal"] else "none")
    cost = "memory that a run needs may have to be read from the disk first"
    return warning("swap", f"{readable_bytes(used)} used", cost, "sudo swapoff --all && sudo swapon --all")


def _huge_pages(tree: Tree) -> Condition:
    text = tree.text(_HUGE)
    chosen = text.partition("[")[2].partition("]")[0]
    if not chosen:
        return unknown("huge pages", "the kernel does not show them")
    if chosen != "always":
        return good("huge pages", chosen)
    cost = "the kernel gives memory in pieces of 2 MiB when it has some, so peaks and times scatter"
    return warning("huge pages", chosen, cost, f"echo madvise | sudo tee /{_HUGE}")


def _limit(limits: CgroupLimits, total: int) -> Condition:
    if not total:
        return unknown("memory", "the kernel does not show it")
    if limits.memory_bytes is None or limits.memory_bytes >= total:
        return good("memory", readable_bytes(total))
    return good(
        "memory", f"{readable_bytes(limits.memory_bytes)} of {readable_bytes(total)}, limited by a control group"
    )


def free_shared_memory(folder: Path = SHARED_MEMORY) -> int:
    """Return the free bytes; 0 where there is no such folder."""
    return shutil.disk_usage(folder).free if folder.is_dir() else 0


def _shared_memory(folder: Path, memory: int) -> Condition:
    if not folder.is_dir():
        return unknown("shared memory", f"there is no {folder}")
    usage = shutil.disk_usage(folder)
    found = f"{readable_bytes(usage.free)} of {readable_bytes(usage.total)} free in {folder}"
    if usage.free >= _STORE_SHARE * memory:
        return good("shared memory", found)
    cost = "the object store of a Ray cluster that asks for more is on disk, and many times slower"
    wanted = max(1, round(_STORE_SHARE * memory / 2**30) + 1)
    remedy = f"sudo mount -o remount,size={wanted}G {folder}, or docker run --shm-size {wanted}g"
    return warning("shared memory", found, cost, remedy)
