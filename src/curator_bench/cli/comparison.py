"""Compares two sets of recorded runs by metric and machine, for `compare` and the dashboard."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from curator_bench.metric_names import is_secondary
from curator_bench.store.all_series import Group
from curator_bench.store.measured import Kind, Measure, Measured
from curator_bench.verdict.cases import Rules
from curator_bench.verdict.comparable import Origin, difference
from curator_bench.verdict.direction import Better, better_of
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.judgement import Judgement, Unjudged
from curator_bench.verdict.judging import Pair, compare

Declared: TypeAlias = Mapping[tuple[str, str, str], str]
"""The better direction that requirements declare, by name, path and metric."""
Required: TypeAlias = Mapping[tuple[str, str], Sequence[str]]
"""The metrics that requirements name, by name and path."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The runs of A, the runs of B, and all other runs, which show the noise of a metric."""

    before: Measured
    after: Measured
    history: Measured
    declared: Declared
    required: Required
    identities: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Arguments, datasets and the like of each series, for messages."""

    def direction(self, measure: Measure, better: str | None) -> Better | None:
        return better_of(measure.metric, self.declared.get(measure), better)

    def is_required(self, measure: Measure) -> bool:
        return measure.metric in self.required.get((measure.name, measure.path), ())

    def only_in_one(self, better: str | None) -> tuple[list[str], list[str]]:
        """Return the names of directed metrics that only A measured, and those that only B measured."""
        first = self._without(self.before, self.after, better)
        return list(first), list(self._without(self.after, self.before, better))

    def _without(self, one: Measured, other: Measured, better: str | None) -> Iterator[str]:
        for measure in _own_metrics(one):
            if not self.direction(measure, better):
                continue
            if measure not in other:
                yield f"{measure.name} {measure.metric}"
                continue
            there = _machines(other[measure])
            here = _machines(one[measure])
            if not here & there:
                continue  # a row in the table says so
            yield from (f"{measure.name} {measure.metric} on machine {name}" for name in sorted(here - there))


@dataclass(frozen=True, slots=True)
class Compared:
    """The judgement of one metric of one entry on one machine. `runs` are the counts of A and of B."""

    measure: Measure
    machine_id: str | None
    runs: tuple[int, int]
    judgement: Judgement
    between: tuple[int, int] | None = None
    """Ids of the last session of A and the first of B that measured it; None if they are not comparable."""

    @property
    def group(self) -> Group:
        return self.measure.name, self.measure.path, self.machine_id


def compare_sides(sides: Sides, better: str | None, min_effect: float) -> list[Compared]:
    """Judge every directed metric that both sides measured. Machines are never mixed."""
    pairs: list[Pair] = []
    asked: list[tuple[Measure, Kind]] = []
    unlike: list[Compared] = []
    for measure in _own_metrics(sides.before.keys() & sides.after.keys()):
        rules = Rules(sides.direction(measure, better), min_effect)
        if rules.better is None:
            continue
        kinds, reasons = _kinds(measure, sides)
        unlike += [Compared(measure, machine, (0, 0), _not_comparable(why)) for machine, why in reasons.items()]
        for kind in kinds:
            a, b, known = (_values(side, measure, kind) for side in (sides.before, sides.after, sides.history))
            pairs.append(Pair(a, b, known, rules))
            asked.append((measure, kind))
    found = [
        Compared(
            measure, kind.machine_id, (len(pair.before), len(pair.after)), judgement, _between(sides, measure, kind)
        )
        for (measure, kind), pair, judgement in zip(asked, pairs, compare(pairs), strict=True)
    ]
    return [*found, *unlike]


def _between(sides: Sides, measure: Measure, kind: Kind) -> tuple[int, int]:
    return int(sides.before[measure][kind].sessions[-1]), int(sides.after[measure][kind].sessions[0])


def _own_metrics(measures: Collection[Measure]) -> list[Measure]:
    """Return the measures without statistics of other metrics and without bookkeeping."""
    of_entry: dict[tuple[str, str], set[str]] = defaultdict(set)
    for measure in measures:
        of_entry[measure.name, measure.path].add(measure.metric)
    return [one for one in sorted(measures) if not is_secondary(one.metric, of_entry[one.name, one.path])]


def _values(side: Measured, measure: Measure, kind: Kind) -> Floats:
    found = side.get(measure, {}).get(kind)
    return np.zeros(0) if found is None else found.values


def _machines(kinds: Collection[Kind]) -> set[str]:
    return {kind.machine_id or "(unknown)" for kind in kinds}


def _kinds(measure: Measure, sides: Sides) -> tuple[list[Kind], dict[str | None, str]]:
    """Return the kind of run to compare for each machine of both sides, and the reasons for machines without one."""
    before, after = sides.before[measure], sides.after[measure]
    by_machine: dict[str | None, list[Kind]] = defaultdict(list)
    for kind in after:
        by_machine[kind.machine_id].append(kind)
    there = {kind.machine_id for kind in before}
    shared = [machine for machine in by_machine if machine in there]
    if not shared:
        return [], {None: _why_unlike(measure, sides, next(iter(after)))}
    found, reasons = [], {}
    for machine in shared:
        common = [kind for kind in by_machine[machine] if kind in before]
        if common:
            found.append(max(common, key=lambda kind: len(after[kind].values)))
        else:
            reasons[machine] = _why_unlike(measure, sides, by_machine[machine][-1])
    return found, reasons


def _why_unlike(measure: Measure, sides: Sides, kind: Kind) -> str:
    before = sides.before[measure]
    other = next((one for one in before if one.machine_id == kind.machine_id), next(iter(before)))
    origins = (
        Origin(measure.name, one.series_hash, one.machine_id, sides.identities.get(one.series_hash or "", {}))
        for one in (kind, other)
    )
    return f"not comparable because {difference(*origins)}"


def _not_comparable(why: str) -> Judgement:
    return Judgement(None, why, Unjudged.NOT_COMPARABLE)
