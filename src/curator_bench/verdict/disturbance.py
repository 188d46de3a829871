"""Decides whether the machine did something else during a run, from its `machine.…` metrics. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from curator_bench.values import MACHINE, Scalar

LEAST_SHARE = 0.05
"""A run is disturbed if it lost a larger share of the processor time that it was ready to use.

Quiet runs lose up to 4 %, and one whose machine is busy for a third of it loses 7 % or more (docs/machine.md).
"""
LEAST_OF_TIME = 0.01
"""A run that hardly computes may wait for all of its processor time, and lose nothing that could be measured."""
LEAST_S = 0.1
"""Less than this is not told from the steps of 10 ms in which the kernel counts, of each processor and each process."""
SHORTEST_S = 0.25
"""Of less processor time, with the time waited for it, nothing is said: the kernel counts in steps of 10 ms."""
RECENT = 10
"""The number of runs that decide whether gates can be decided at all."""
_LEAST_RECENT = 3
TRACED_BY = f"{MACHINE}traced_by"
"""What traced the Python code of the run; absent if nothing did."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Processor time that a run lost, as shares of all that it was ready to use."""

    by_others: float
    by_host: float
    seconds: float
    """All of it."""
    of_time: float
    """All of it as a share of the run's duration."""

    @property
    def share(self) -> float:
        return self.by_others + self.by_host

    @property
    def is_disturbed(self) -> bool:
        return self.share > LEAST_SHARE and self.of_time > LEAST_OF_TIME and self.seconds > LEAST_S


def disturbance(metrics: Mapping[str, Scalar]) -> Disturbance | None:
    """Return what a run lost; None if that is unknown, as for a short run."""
    seconds, own = _figure(metrics, "seconds"), _figure(metrics, "cpu_s")
    waited = _figure(metrics, "cpu_wait_for_others_s")
    if seconds is None or own is None or waited is None or seconds <= 0.0 or own + waited < SHORTEST_S:
        return None
    stolen = _stolen_from_run(metrics, own)
    ready = own + waited + stolen
    return Disturbance(waited / ready, stolen / ready, waited + stolen, (waited + stolen) / seconds)


def disturbed(metrics: Mapping[str, Scalar]) -> str | None:
    """Say what disturbed a run; empty if nothing did, None if it is not known."""
    if tracer := metrics.get(TRACED_BY):
        return f"its Python code was traced by {tracer}, which slows it down"
    found = disturbance(metrics)
    if found is None:
        return None
    return _text(found, metrics) if found.is_disturbed else ""


def is_machine_disturbed(recent: Sequence[bool | None]) -> bool:
    """True if most of the recent runs, the newest last, were disturbed. None means that it is not known of a run."""
    known = [one for one in recent if one is not None][-RECENT:]
    return len(known) >= _LEAST_RECENT and 2 * sum(known) > len(known)


def _stolen_from_run(metrics: Mapping[str, Scalar], own: float) -> float:
    """Return the run's part of the stolen time: as much as it has of all work of the machine."""
    stolen, others = _figure(metrics, "stolen_s") or 0.0, _figure(metrics, "others_cpu_s") or 0.0
    return stolen * own / (own + others) if own > 0.0 else 0.0


def _text(found: Disturbance, metrics: Mapping[str, Scalar]) -> str:
    parts = []
    if found.by_others >= found.by_host or found.by_others > LEAST_SHARE:
        waited = _figure(metrics, "cpu_wait_for_others_s") or 0.0
        who = metrics.get(f"{MACHINE}others")
        named = f"; most of it took {who}" if isinstance(who, str) and who else ""
        took = _figure(metrics, "others_cpu_s") or 0.0
        parts.append(
            f"it waited {waited:.1f} s for processors that others had, {found.by_others:.0%} of its processor time "
            f"(they used {took:.1f} s{named})"
        )
    if found.by_host > found.by_others or found.by_host > LEAST_SHARE:
        stolen = _figure(metrics, "stolen_s") or 0.0
        parts.append(
            f"the host of this virtual machine took {stolen:.1f} s, {found.by_host:.0%} of the run's processor time"
        )
    return " and ".join(parts)


def _figure(metrics: Mapping[str, Scalar], name: str) -> float | None:
    value = metrics.get(f"{MACHINE}{name}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
