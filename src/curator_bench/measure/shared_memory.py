"""Shared memory of processes, such as Ray's object store, with each segment counted once (Linux).

A segment counts with the pages that its file has, not with its size, which for an object store is only an upper limit.
Ray deletes that file at once, but its raylet keeps it open, and it is reached through /proc. If no process has the file
open (System V segments, anonymous shared mappings), the processes' shares in /proc/PID/smaps are added up. Pages of
such a segment that no process has touched are then missed.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

_MAPPING = (
    rb"([0-9a-f]+)-([0-9a-f]+) \S{4} \S+ ([0-9a-f]+):([0-9a-f]+) (\d+) +"
    rb"(/dev/shm/.*|/memfd:.*|/SYSV.*|/dev/zero \(deleted\))"
)
_MAPPINGS = re.compile(rb"^" + _MAPPING + rb"$", re.MULTILINE)
_SMAPS_HEADER = re.compile(_MAPPING)
_ANY_HEADER = re.compile(rb"[0-9a-f]+-[0-9a-f]+ ")
_SHARED_PAGES = re.compile(rb"^RssShmem:\s+(\d+)", re.MULTILINE)
_DELETED = " (deleted)"
_BLOCK_BYTES = 512
_WORTH_SMAPS_BYTES = 1 << 20
_SMAPS_SHARE = 0.002
"""Share of one core for reading smaps. It walks the page tables: 100 ms and more for a process with many gigabytes."""
_SMAPS_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment of shared memory, equal in every process that maps it."""

    device: int
    inode: int
    name: str


@dataclass(frozen=True, slots=True)
class _Mapping:
    segment: Segment
    pid: int
    size: int
    path: str


class SharedMemory:
    """The segments that some processes map, and their size in memory."""

    def __init__(self) -> None:
        self._paths: dict[Segment, str] = {}
        self._by_shares: dict[Segment, int] = {}
        self._smaps_due = 0.0

    def look_up(self, pids: Collection[int]) -> None:
        """Find the segments that these processes map now."""
        mappings: dict[Segment, list[_Mapping]] = defaultdict(list)
        for mapping in _mappings(pids):
            mappings[mapping.segment].append(mapping)
        self._paths = dict(self._reachable(mappings))
        self._add_shares({segment: found for segment, found in mappings.items() if segment not in self._paths})

    def used_bytes(self) -> int:
        """Bytes the segments found last hold now. A segment without a holder counts as zero."""
        held = (_held_bytes(segment, path) for segment, path in self._paths.items())
        return sum(bytes_ or 0 for bytes_ in held) + sum(self._by_shares.values())

    def _reachable(self, mappings: dict[Segment, list[_Mapping]]) -> Iterator[tuple[Segment, str]]:
        for segment, found in mappings.items():
            path = self._paths.get(segment)
            if path is None or _held_bytes(segment, path) is None:
                path = _path_to(segment, found)
            if path is not None:
                yield segment, path

    def _add_shares(self, mappings: dict[Segment, list[_Mapping]]) -> None:
        large = {
            segment: found for segment, found in mappings.items() if max(m.size for m in found) >= _WORTH_SMAPS_BYTES
        }
        self._by_shares = {segment: held for segment, held in self._by_shares.items() if segment in large}
        if not large or time.monotonic() < self._smaps_due:
            return
        cpu_before = time.thread_time()
        self._by_shares = _held_by_shares(large)
        cost_s = time.thread_time() - cpu_before
        self._smaps_due = time.monotonic() + max(_SMAPS_EVERY_S, cost_s / _SMAPS_SHARE)


def _mappings(pids: Iterable[int]) -> Iterator[_Mapping]:
    for pid in sorted(pids):
        if _has_shared_pages(pid):  # listing mappings takes 0.5 ms, this a hundredth of it
            yield from (_mapping(match, pid) for match in _MAPPINGS.finditer(_read(f"/proc/{pid}/maps")))


def _mapping(match: re.Match[bytes], pid: int) -> _Mapping:
    start, end, major, minor, inode, path_bytes = match.groups()
    path = os.fsdecode(path_bytes)
    device = os.makedev(int(major, 16), int(minor, 16))
    segment = Segment(device, int(inode), path.removesuffix(_DELETED))
    return _Mapping(segment, pid, int(end, 16) - int(start, 16), path)


def _has_shared_pages(pid: int) -> bool:
    pages = _SHARED_PAGES.search(_read(f"/proc/{pid}/status"))
    return pages is not None and int(pages[1]) > 0


def _path_to(segment: Segment, mappings: Iterable[_Mapping]) -> str | None:
    """Find a path to the segment: its own, or an open descriptor of one of its processes."""
    for mapping in mappings:
        candidates = [mapping.path] if not mapping.path.endswith(_DELETED) else []
        for path in (*candidates, *_descriptors(mapping)):
            if _held_bytes(segment, path) is not None:
                return path
    return None


def _descriptors(mapping: _Mapping) -> Iterator[str]:
    directory = f"/proc/{mapping.pid}/fd"
    try:
        names = os.listdir(directory)
    except OSError:  # gone, or another user's
        return
    for name in names:
        path = f"{directory}/{name}"
        try:
            target = os.readlink(path)
        except OSError:
            continue
        if target == mapping.path:
            yield path


def _held_bytes(segment: Segment, path: str) -> int | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    same = status.st_dev == segment.device and status.st_ino == segment.inode
    return status.st_blocks * _BLOCK_BYTES if same else None


def _held_by_shares(mappings: dict[Segment, list[_Mapping]]) -> dict[Segment, int]:
    held = dict.fromkeys(mappings, 0)
    for pid in {mapping.pid for found in mappings.values() for mapping in found}:
        for segment, share in _shares(pid):
            if segment in held:
                held[segment] += share
    return held


def _shares(pid: int) -> Iterator[tuple[Segment, int]]:
    """Yield this process's share of each shared mapping, with its pages divided among all that map them."""
    segment: Segment | None = None
    for line in _read(f"/proc/{pid}/smaps").splitlines():
        if _ANY_HEADER.match(line):
            match = _SMAPS_HEADER.fullmatch(line)
            segment = _mapping(match, pid).segment if match else None
        elif segment is not None and line.startswith(b"Pss:"):
            yield segment, int(line.split()[1]) * 1024


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:  # gone, or another user's
        return b""
