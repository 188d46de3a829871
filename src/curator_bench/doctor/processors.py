"""The processors: governor, turbo, hyper-threading, clock and heat; quotas of control groups. Linux."""

from __future__ import annotations

from collections.abc import Iterator

from curator_bench.doctor.conditions import Condition, good, unknown, warning
from curator_bench.measure.cgroup import CgroupLimits, count_cpus
from curator_bench.measure.kernel_files import Tree

_CPU = "sys/devices/system/cpu"
_STEADY = ("performance", "userspace")
"""Governors that keep the clock where it is, whatever the load."""
_LIMITED = 0.99
"""It is a warning if the clock is limited to less than this share of the highest one."""


def processor_conditions(tree: Tree, limits: CgroupLimits, online: int) -> Iterator[Condition]:
    """Look at the processors. `online` is their number on this machine, whatever this process may use."""
    yield _governor(tree)
    yield _turbo(tree)
    yield _threads(tree)
    yield _clock(tree)
    yield _heat(tree)
    yield _quota(limits, online)


def _governor(tree: Tree) -> Condition:
    governors = sorted(set(tree.texts(f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor")))
    if not governors:
        return unknown("governor", "the kernel does not show it (usual in virtual machines)")
    if all(governor in _STEADY for governor in governors):
        return good("governor", ", ".join(governors))
    cost = "the clock rises only under load, so short work is measured at a low clock"
    return warning("governor", ", ".join(governors), cost, "sudo cpupower frequency-set --governor performance")


def _turbo(tree: Tree) -> Condition:
    cost = "the clock depends on heat and on what the other cores do, so times scatter"
    if (switched_off := tree.number(f"{_CPU}/intel_pstate/no_turbo")) is not None:
        is_on, remedy = not switched_off, f"echo 1 | sudo tee /{_CPU}/intel_pstate/no_turbo"
    elif (switched_on := tree.number(f"{_CPU}/cpufreq/boost")) is not None:
        is_on, remedy = bool(switched_on), f"echo 0 | sudo tee /{_CPU}/cpufreq/boost"
    else:
        return unknown("turbo", "the kernel does not show it (usual in virtual machines)")
    return warning("turbo", "on", cost, remedy) if is_on else good("turbo", "off")


def _threads(tree: Tree) -> Condition:
    active = tree.number(f"{_CPU}/smt/active")
    if active is None:
        return unknown("hyper-threading", "the kernel does not show it")
    if not active:
        return good("hyper-threading", "off")
    cost = "two threads share a core: a run is slower while another one has the other half"
    return warning("hyper-threading", "on", cost, f"echo off | sudo tee /{_CPU}/smt/control")


def _clock(tree: Tree) -> Condition:
    highest = tree.numbers(f"{_CPU}/cpu[0-9]*/cpufreq/cpuinfo_max_freq")
    allowed = tree.numbers(f"{_CPU}/cpu[0-9]*/cpufreq/scaling_max_freq")
    if not highest or len(highest) != len(allowed):
        return unknown("clock", "the kernel does not show it (usual in virtual machines)")
    limited = [pair for pair in zip(allowed, highest, strict=True) if pair[0] < _LIMITED * pair[1]]
    if not limited:
        return good("clock", f"up to {max(highest) / 1e6:.2f} GHz")
    found = f"limited to {min(low for low, _high in limited) / 1e6:.2f} of {max(highest) / 1e6:.2f} GHz"
    cost = "runs are slower than the machine can be, and not comparable with those at its full clock"
    return warning("clock", found, cost, f"sudo cpupower frequency-set --max {max(highest)}")


def _heat(tree: Tree) -> Condition:
    counts = tree.numbers(f"{_CPU}/cpu[0-9]*/thermal_throttle/core_throttle_count")
    if not counts:
        return unknown("heat", "the kernel does not count it (usual in virtual machines)")
    if not sum(counts):
        return good("heat", "no core was slowed down for heat since the machine started")
    cost = "a hot core is slowed down in the middle of a run"
    remedy = "improve its cooling, or lower the clock: sudo cpupower frequency-set --max CLOCK"
    return warning("heat", f"cores were slowed down {sum(counts):,} times since the machine started", cost, remedy)


def _quota(limits: CgroupLimits, online: int) -> Condition:
    pinned = limits.cpuset and count_cpus(limits.cpuset)
    has = min(online, pinned or online)
    if limits.cpus is None or limits.cpus >= has:
        return good("processors", f"{has}{f' of {online}' if has < online else ''}, without a quota of time")
    found = f"{limits.cpus:g} processors' time on {has} processors"
    cost = "a run that has used its share of a tenth of a second stands still until the next one"
    remedy = "give the container whole processors: docker run --cpuset-cpus 0-3 instead of --cpus 4"
    return warning("processors", found, cost, remedy)
