"""Divides the wall time of a run among its stages: one after the other, through a bottleneck, or on shared CPUs.

Stages whose times overlap form a phase, and phases follow each other. Within a phase there are three shapes. If the
stages were never active at the same time, their times add up. If their tasks keep all CPUs of the cluster busy, each
second of work costs its share of a CPU. Else the phase takes as long as its bottleneck: the stage with most work per
worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

import numpy as np

from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.noise import rows_may_be_empty


class Shape(StrEnum):
    """Division of the time of a phase among its stages."""

    SERIAL = "one after the other"
    STREAMING = "streaming"
    SHARED = "on shared CPUs"


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one stage in each run of one side; NaN where they are not known."""

    work: Floats
    """Worker-seconds."""
    active: Floats
    started: Floats
    ended: Floats


@dataclass(frozen=True, slots=True)
class Side:
    """The runs of one side."""

    wall: Floats
    cpus: Floats
    stages: Mapping[str, Times]


@dataclass(frozen=True, slots=True)
class Phase:
    """Stages that ran at the same time, or one stage alone, with its part of the wall time in each run."""

    shape: Shape
    stages: tuple[str, ...]
    parts: Mapping[str, tuple[Floats, Floats]]
    """Seconds of wall time in each run before and after, by stage; stages without a part are left out."""
    bottlenecks: tuple[str, str] | None = None
    """The stage that limited the phase before and after; None if it was not streaming."""


_APART = 0.05
"""Spans that overlap by less than this share of the shorter one follow each other."""
_AT_ONCE = 1.05
"""Stages that were active longer in sum than their phase lasted were active at the same time."""
_NEAR = 0.85
"""A stage with at least this share of the most work per worker may be the bottleneck."""
_SATURATED = 0.85


def phases(before: Side, after: Side) -> list[Phase]:
    """Divide the wall time of two sides into phases.

    Both sides have the same stages; one that a side does not have took no time there. Stages whose times are not
    known on any side are left out.
    """
    with rows_may_be_empty():
        names = [name for name in before.stages if any(_is_timed(side.stages[name]) for side in (before, after))]
        return [_phase(group, before, after) for group in _groups(names, before, after)]


def _is_timed(times: Times) -> bool:
    return all(bool(np.isfinite(values).any()) for values in (times.active, times.started, times.ended))


def _groups(names: Sequence[str], before: Side, after: Side) -> Iterator[list[str]]:
    """Yield groups of stages whose spans overlap on either side, in the order in which they begin."""
    left = sorted(names, key=lambda name: _begins(before.stages[name], after.stages[name]))
    while left:
        group = [left.pop(0)]
        while more := [
            name
            for name in left
            if any(overlap(side.stages[name], side.stages[other]) for side in (before, after) for other in group)
        ]:
            group += more
            left = [name for name in left if name not in more]
        yield group


def _begins(before: Times, after: Times) -> float:
    return _mean(after.started if _is_timed(after) else before.started)


def overlap(one: Times, other: Times) -> bool:
    """True if two stages ran at the same time."""
    starts, ends = ([_mean(of) for of in pair] for pair in ((one.started, other.started), (one.ended, other.ended)))
    shorter = min(end - start for start, end in zip(starts, ends, strict=True))
    return min(ends) - max(starts) > _APART * shorter


def _phase(group: Sequence[str], before: Side, after: Side) -> Phase:
    lasted = [_lasted(group, side) for side in (before, after)]
    for times in ("active", "work"):
        sums = [_sum(group, side, times) for side in (before, after)]
        if len(group) == 1 or all(_mean(one) <= _AT_ONCE * _mean(time) for one, time in zip(sums, lasted, strict=True)):
            # A stage inside another is active while the other is; their work does not count twice.
            parts = {name: (getattr(before.stages[name], times), getattr(after.stages[name], times)) for name in group}
            return Phase(Shape.SERIAL, tuple(group), parts)
    streaming = _streaming(group, before, after, lasted)
    shared = _shared(group, before, after, lasted)
    if shared is None:
        return streaming
    wanted = _mean(lasted[1]) - _mean(lasted[0])
    off = [abs(wanted - sum(_gain(part) for part in one.parts.values())) for one in (shared, streaming)]
    return shared if off[0] <= off[1] else streaming


def _gain(part: tuple[Floats, Floats]) -> float:
    return _mean(part[1]) - _mean(part[0])


def _mean(values: Floats) -> float:
    return float(np.nanmean(values))


def _sum(group: Sequence[str], side: Side, times: str) -> Floats:
    total: Floats = np.nansum([getattr(side.stages[name], times) for name in group], axis=0)
    return total


def _lasted(group: Sequence[str], side: Side) -> Floats:
    start = np.nanmin([side.stages[name].started for name in group], axis=0)
    end = np.nanmax([side.stages[name].ended for name in group], axis=0)
    lasted: Floats = np.nan_to_num(end - start)
    return lasted


def _shared(group: Sequence[str], before: Side, after: Side, lasted: Sequence[Floats]) -> Phase | None:
    """Return the phase if its tasks keep all CPUs busy: then a second of work costs the same, whoever does it."""
    for side, time in zip((before, after), lasted, strict=True):
        work = np.nansum([side.stages[name].work for name in group], axis=0)
        if not _mean(work) >= _SATURATED * _mean(side.cpus * time):
            return None
    parts = {name: (before.stages[name].work / before.cpus, after.stages[name].work / after.cpus) for name in group}
    return Phase(Shape.SHARED, tuple(group), parts)


def _streaming(group: Sequence[str], before: Side, after: Side, lasted: Sequence[Floats]) -> Phase:
    """Find the bottleneck of each side.

    The workers of a stage are not recorded, only how many were busy at a time. So a stage that was busy all the time
    with a part of its workers looks like a bottleneck. Of the stages that may be the bottleneck, this chooses the one
    whose change of work explains the change of the phase best; of equally good ones, that with most work per worker.
    """
    per_worker = {name: _per_worker(before.stages[name], after.stages[name]) for name in group}
    nearest = [_near(group, [_mean(per_worker[name][at]) for name in group]) for at in (0, 1)]
    wanted = _mean(lasted[1]) - _mean(lasted[0])
    limits = [_Limit.of((old, new), per_worker) for old, new in product(*nearest)]
    best = min(limits, key=lambda one: one.distance(wanted, _mean(lasted[0])))
    return Phase(Shape.STREAMING, tuple(group), {best.blamed: best.part}, best.bottlenecks)


@dataclass(frozen=True, slots=True)
class _Limit:
    """Two stages that may have been the bottleneck before and after, and what the change of one of them costs."""

    bottlenecks: tuple[str, str]
    blamed: str
    part: tuple[Floats, Floats]
    most: float
    """The most work per worker before and after, in sum."""

    @classmethod
    def of(cls, pair: tuple[str, str], per_worker: Mapping[str, tuple[Floats, Floats]]) -> _Limit:
        """A stage that becomes the bottleneck costs what it exceeds the old one by, and never more than it gained."""
        old, new = pair
        part = per_worker[old][0], per_worker[new][1]
        blamed = new if _gain(part) >= 0 else old
        own = per_worker[blamed]
        if abs(_gain(own)) < abs(_gain(part)) or _gain(own) * _gain(part) < 0:
            part = own
        return cls(pair, blamed, part, _mean(per_worker[old][0]) + _mean(per_worker[new][1]))

    def distance(self, wanted: float, lasted: float) -> tuple[float, float]:
        """Sort the best explanation first; of equally good ones, that with the most work."""
        return round(abs(wanted - _gain(self.part)) / max(lasted, 1e-9), 2), -self.most


def _per_worker(before: Times, after: Times) -> tuple[Floats, Floats]:
    """Return work by worker. As many workers count as were busy at a time on the busier side."""
    workers = max(_mean(side.work) / _mean(side.active) if _mean(side.active) else 0.0 for side in (before, after))
    return before.work / (workers or 1.0), after.work / (workers or 1.0)


def _near(names: Sequence[str], values: Sequence[float]) -> list[str]:
    return [name for name, value in zip(names, values, strict=True) if value >= _NEAR * max(values)]
