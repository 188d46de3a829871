"""Limits of this process's control groups (version 1, version 2, and both), and out-of-memory kills. Linux."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_UNLIMITED_V1_BYTES = 1 << 60
"""Version 1 writes "no limit" as a number near 2^63."""
_COUNTER = "oom_kill"


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """The strictest limits of the process's group and the visible groups above it. None: not limited."""

    version: int | None = None
    """Lowest version in use; None without control groups."""
    memory_bytes: int | None = None
    cpus: float | None = None
    """Allowed processor time, in processors."""
    cpuset: str | None = None
    """Allowed processors, such as 0-3,8."""


@dataclass(frozen=True, slots=True)
class _Mount:
    version: int
    controllers: frozenset[str]
    group: PurePosixPath
    """Group at the top of the mount."""
    directory: Path


def read_limits(root: Path = Path("/")) -> CgroupLimits:
    """Read the limits of this process. `root` contains proc and sys."""
    own_groups = dict(_own_groups(_text(root / "proc/self/cgroup")))
    mounts = list(_mounts(_text(root / "proc/self/mountinfo"), root))
    versions = [mount.version for mount in mounts if mount.version == 2 or mount.controllers & {"memory", "cpu"}]
    if not versions:
        return CgroupLimits()
    memory = [limit for folder in _folders(mounts, own_groups, "memory") if (limit := _memory(folder)) is not None]
    cpus = [share for folder in _folders(mounts, own_groups, "cpu") if (share := _cpus(folder)) is not None]
    cpusets = [allowed for folder in _folders(mounts, own_groups, "cpuset") if (allowed := _cpuset(folder))]
    return CgroupLimits(min(versions), min(memory, default=None), min(cpus, default=None), next(iter(cpusets), None))


def count_cpus(cpuset: str) -> int:
    """Count the processors in a list such as 0-3,8."""
    ranges = [part.partition("-") for part in cpuset.split(",") if part.strip()]
    return sum(int(last or first) - int(first) + 1 for first, _dash, last in ranges)


def _own_groups(text: str) -> Iterator[tuple[str, PurePosixPath]]:
    """Yield the process's group by controller. Version 2 has one group for all, under the empty name."""
    for line in text.splitlines():
        _number, controllers, group = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, PurePosixPath(group)


def _mounts(text: str, root: Path) -> Iterator[_Mount]:
    for line in text.splitlines():
        place, _dash, kind = line.partition(" - ")
        group, directory = place.split()[3:5]
        file_system, _source, options = kind.split()[:3]
        if file_system in ("cgroup", "cgroup2"):
            version = 2 if file_system == "cgroup2" else 1
            controllers = frozenset(options.split(",")) if version == 1 else frozenset()
            yield _Mount(version, controllers, PurePosixPath(group), root / directory.lstrip("/"))


def _folders(mounts: Iterable[_Mount], own_groups: dict[str, PurePosixPath], controller: str) -> Iterator[Path]:
    """Yield the folders that may limit this process with this controller: its own group's first, then those above."""
    for mount in mounts:
        if mount.version == 2 or controller in mount.controllers:
            group = own_groups.get("" if mount.version == 2 else controller)
            yield from _upwards(mount, group)


def _upwards(mount: _Mount, group: PurePosixPath | None) -> Iterator[Path]:
    inside = group is not None and group.is_relative_to(mount.group) and ".." not in group.parts
    folder = mount.directory / group.relative_to(mount.group) if group is not None and inside else mount.directory
    if not folder.is_dir():  # the host's group, in a container that mounts only the top
        folder = mount.directory
    while folder != mount.directory:
        yield folder
        folder = folder.parent
    yield mount.directory


def _memory(folder: Path) -> int | None:
    limit = _text(folder / "memory.max").strip() or _text(folder / "memory.limit_in_bytes").strip()
    return int(limit) if limit.isdecimal() and int(limit) < _UNLIMITED_V1_BYTES else None


def _cpus(folder: Path) -> float | None:
    quota, period = [*_text(folder / "cpu.max").split(), "", ""][:2]
    quota = quota or _text(folder / "cpu.cfs_quota_us").strip()
    period = period or _text(folder / "cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None


def _cpuset(folder: Path) -> str | None:
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    return next((allowed for name in names if (allowed := _text(folder / name).strip())), None)


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def memory_kills(vmstat: Path = Path("/proc/vmstat")) -> int:
    """Count the out-of-memory kills since the machine's start; 0 if the kernel does not count."""
    try:
        lines = vmstat.read_text("ascii", "replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [_COUNTER]), 0)


@dataclass(frozen=True, slots=True)
class Throttling:
    """Number and duration of the periods in which this process's group, or one above it, had used up its quota."""

    periods: int
    seconds: float


def read_throttling(root: Path = Path("/")) -> Throttling | None:
    """Read the throttling by groups of version 1 and 2; None if no group counts it. `root` contains proc and sys."""
    own_groups = dict(_own_groups(_text(root / "proc/self/cgroup")))
    mounts = list(_mounts(_text(root / "proc/self/mountinfo"), root))
    counted = [found for folder in _folders(mounts, own_groups, "cpu") if (found := _throttling(folder)) is not None]
    return Throttling(sum(one.periods for one in counted), sum(one.seconds for one in counted)) if counted else None


def _throttling(folder: Path) -> Throttling | None:
    rows = dict(line.split()[:2] for line in _text(folder / "cpu.stat").splitlines() if len(line.split()) >= 2)
    periods = rows.get("nr_throttled", "")
    if not periods.isdecimal():
        return None
    if rows.get("throttled_usec", "").isdecimal():  # version 2
        return Throttling(int(periods), int(rows["throttled_usec"]) / 1e6)
    nanoseconds = rows.get("throttled_time", "")
    return Throttling(int(periods), int(nanoseconds) / 1e9) if nanoseconds.isdecimal() else None
