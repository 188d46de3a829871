"""Reads the kernel's counters of the whole machine: processor time, pressure, throttling, swap. Linux."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields

from curator_bench.measure.cgroup import read_throttling
from curator_bench.measure.kernel_files import Tree, read_small

_USER, _NICE, _SYSTEM, _IDLE, _IO_WAIT, _INTERRUPTS, _SOFT_INTERRUPTS, _STOLEN = range(8)
"""Positions in the first line of /proc/stat after its name (proc_stat(5)). Time of guests is part of the user's."""
_CPU = "sys/devices/system/cpu"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Time of all processors of the machine since its start, in seconds."""

    busy_s: float
    idle_s: float
    io_wait_s: float
    stolen_s: float
    """Time that the host of a virtual machine gave to others while there was work."""


def processor_time(tree: Tree) -> ProcessorTime | None:
    """Read the processor time; None if the kernel does not show it."""
    first = read_small(f"{tree.root}/proc/stat").partition(b"\n")[0].split()
    if len(first) <= _SOFT_INTERRUPTS + 1 or first[0] != b"cpu":
        return None
    seconds = [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in first[1:]]
    busy = (_USER, _NICE, _SYSTEM, _INTERRUPTS, _SOFT_INTERRUPTS)
    stolen = seconds[_STOLEN] if len(seconds) > _STOLEN else 0.0
    return ProcessorTime(sum(seconds[one] for one in busy), seconds[_IDLE], seconds[_IO_WAIT], stolen)


@dataclass(frozen=True, slots=True)
class MachineCounters:
    """Counters that only ever rise; None if the kernel does not keep one."""

    throttled_s: float | None = None
    """Time in which processes of our control groups stood still because their quota was used up."""
    throttled_periods: int | None = None
    pressure_cpu_s: float | None = None
    """Time in which some process of the machine waited for a processor."""
    pressure_io_s: float | None = None
    pressure_memory_s: float | None = None
    heat_throttles: int | None = None
    """Number of times that cores were slowed down for heat, all together."""
    swapped_in_bytes: int | None = None
    swapped_out_bytes: int | None = None
    disk_busy_s: float | None = None
    """Time in which a disk had something to do, all disks together."""
    network_resent: int | None = None
    """Segments that TCP had to send again: how often the network made somebody wait."""

    def since(self, before: MachineCounters) -> dict[str, float | int]:
        """Return the increase of each counter, by name, without those that one side lacks or that restarted."""
        found: dict[str, float | int] = {}
        for field in fields(self):
            first, last = getattr(before, field.name), getattr(self, field.name)
            if first is not None and last is not None and last >= first:
                found[field.name] = round(last - first, 6)
        return found


def machine_counters(tree: Tree) -> MachineCounters:
    """Read all counters of this machine."""
    throttling = read_throttling(tree.root)
    swap = tree.table("proc/vmstat")
    heat = tree.numbers(f"{_CPU}/cpu[0-9]*/thermal_throttle/core_throttle_count")
    return MachineCounters(
        throttled_s=throttling.seconds if throttling else None,
        throttled_periods=throttling.periods if throttling else None,
        pressure_cpu_s=_pressure_s(tree, "cpu"),
        pressure_io_s=_pressure_s(tree, "io"),
        pressure_memory_s=_pressure_s(tree, "memory"),
        heat_throttles=sum(heat) if heat else None,
        swapped_in_bytes=swap["pswpin"] * _PAGE_BYTES if "pswpin" in swap else None,
        swapped_out_bytes=swap["pswpout"] * _PAGE_BYTES if "pswpout" in swap else None,
        disk_busy_s=_disk_busy_s(tree),
        network_resent=_resent(tree),
    )


def clock_mhz(tree: Tree) -> float | None:
    """Return the mean clock of the processors now; None if the kernel does not show it."""
    clocks = tree.numbers(f"{_CPU}/cpu[0-9]*/cpufreq/scaling_cur_freq")
    return sum(clocks) / len(clocks) / 1000 if clocks else None


def _pressure_s(tree: Tree, resource: str) -> float | None:
    for line in tree.text(f"proc/pressure/{resource}").splitlines():
        kind, _, rest = line.partition(" ")
        total = rest.rpartition("total=")[2]
        if kind == "some" and total.isdecimal():
            return int(total) / 1e6
    return None


def _disk_busy_s(tree: Tree) -> float | None:
    """Add up the time of whole disks; partitions and devices made of other ones would count it twice."""
    milliseconds = [int(words[12]) for words in _disks(tree) if words[12].isdecimal()]
    return sum(milliseconds) / 1000 if milliseconds else None


def _disks(tree: Tree) -> Iterator[list[str]]:
    for line in tree.text("proc/diskstats").splitlines():
        words = line.split()
        if len(words) > 12 and not words[2].startswith(("loop", "ram", "zram", "dm-", "md")):
            is_whole = (tree.root / "sys/block" / words[2].replace("/", "!")).exists()
            if is_whole:
                yield words


def _resent(tree: Tree) -> int | None:
    lines = [line.split() for line in tree.text("proc/net/snmp").splitlines() if line.startswith("Tcp:")]
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        return None
    value = dict(zip(*lines, strict=True)).get("RetransSegs", "")
    return int(value) if value.isdecimal() else None
