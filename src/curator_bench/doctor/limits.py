"""Disks, file descriptors and ports."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from curator_bench.doctor.conditions import Condition, good, unknown, warning
from curator_bench.measure.kernel_files import Tree
from curator_bench.words import readable_bytes

_FREE_BYTES = 5 * 2**30
_NEARLY_FULL_BYTES = 2**30
_DESCRIPTORS = 65_536
"""Ray warns below this number."""
_PORTS = 10_000
"""A Ray cluster takes some dozens of ports, and a closed one stays taken for a minute."""


def limit_conditions(tree: Tree, folders: Iterable[Path]) -> Iterator[Condition]:
    """Look at the disks of these folders, each disk once, and at the limits of this process."""
    yield from _disks(folders)
    yield _descriptors()
    yield _ports(tree)


def _disks(folders: Iterable[Path]) -> Iterator[Condition]:
    seen = set()
    for folder in folders:
        there = next((place for place in (folder, *folder.parents) if place.is_dir()), None)
        if there is None or (disk := there.stat().st_dev) in seen:
            continue
        seen.add(disk)
        usage = shutil.disk_usage(there)
        found = f"{readable_bytes(usage.free)} of {readable_bytes(usage.total)} free ({there})"
        if usage.free >= _FREE_BYTES:
            yield good("disk", found)
        else:
            cost = "runs whose files do not fit fail, and a disk that is nearly full is slow"
            remedy = f"see what takes it: du --max-depth 1 --human-readable {there}"
            yield warning("disk", found, cost, remedy, is_grave=usage.free < _NEARLY_FULL_BYTES)


def _descriptors() -> Condition:
    try:
        import resource
    except ImportError:  # Windows
        return unknown("open files", "this system has no such limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _DESCRIPTORS:
        return good("open files", "no limit" if soft == resource.RLIM_INFINITY else f"at most {soft:,}")
    cost = "large Ray clusters and shuffles fail with `Too many open files`"
    is_root_needed = hard != resource.RLIM_INFINITY and hard < _DESCRIPTORS
    remedy = f"ulimit -n {_DESCRIPTORS}{' (as root, or in /etc/security/limits.conf)' if is_root_needed else ''}"
    return warning("open files", f"at most {soft:,}", cost, remedy)


def _ports(tree: Tree) -> Condition:
    words = tree.text("proc/sys/net/ipv4/ip_local_port_range").split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        return unknown("ports", "the kernel does not show them")
    first, last = map(int, words)
    found = f"{last - first + 1:,} for processes that take any ({first} to {last})"
    if last - first + 1 >= _PORTS:
        return good("ports", found)
    cost = "Ray clusters that start side by side find none"
    return warning("ports", found, cost, 'sudo sysctl --write net.ipv4.ip_local_port_range="32768 60999"')


def temporary_folder() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp")
