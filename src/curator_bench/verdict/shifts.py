"""All shifts in the history of a metric: those between its earlier levels, and the one its newest runs may show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from curator_bench.verdict.cases import Case, NoCase, Question, Rules, case_of
from curator_bench.verdict.change_points import Cut
from curator_bench.verdict.gating import Decision, Outcome, decide
from curator_bench.verdict.intervals import Change, changes_of
from curator_bench.verdict.noise import BLOCK, blocks_of, noise_of
from curator_bench.verdict.scale import as_floats
from curator_bench.verdict.tails import Floats

_SAME = 3
"""What gating finds within so many runs of an earlier shift is that shift."""


@dataclass(frozen=True, slots=True)
class Shift:
    """The level changed with the run at `index`; values are in the metric's own unit, changes are fractions."""

    index: int
    outcome: Outcome
    before: float
    after: float
    change: float
    interval: tuple[float, float]
    p_value: float
    """The chance that noise explains it; comparable between metrics, so fit for `false_discovery`."""


def shifts_of(values: Sequence[float] | Floats, rules: Rules) -> list[Shift]:
    """The shifts of one metric over comparable runs, the oldest first. None where there is not enough history."""
    return shifts_of_all([(values, rules)])[0]


def shifts_of_all(series: Iterable[tuple[Sequence[float] | Floats, Rules]]) -> list[list[Shift]]:
    """The shifts of many metrics, in their order; much faster than one by one."""
    cases = [case_of(_question(as_floats(values), rules)) for values, rules in series]
    decisions = decide(cases)
    return [
        [] if isinstance(case, NoCase) else _shifts(case, decision)
        for case, decision in zip(cases, decisions, strict=True)
    ]


def _question(values: Floats, rules: Rules) -> Question:
    """The last value that is a number is the newest."""
    known = np.flatnonzero(np.isfinite(values))
    last = int(known[-1]) if len(known) else 0
    return Question(values[:last], values[last : last + 1], rules)


def _shifts(case: Case, decision: Decision) -> list[Shift]:
    earlier = _between_levels(case)
    return [*earlier, *(shift for shift in _newest(decision) if not any(_is_same(shift, known) for known in earlier))]


def _between_levels(case: Case) -> list[Shift]:
    """The shifts between earlier levels, as far as they are large enough."""
    if not case.cuts:
        return []
    bounds = [0, *(cut.index for cut in case.cuts), len(case.places)]
    levels = [case.sign * case.places[start:end] for start, end in pairwise(bounds)]
    noise = noise_of(blocks_of([[before[-BLOCK:], after[:BLOCK]] for before, after in pairwise(levels)]))
    rows = len(case.cuts)
    changes = changes_of(noise, [case.scale] * rows, [case.rules.confidence] * rows)
    shifts = [_shift(case, cut, change) for cut, change in zip(case.cuts, changes, strict=True)]
    return [shift for shift in shifts if shift is not None]


def _shift(case: Case, cut: Cut, change: Change) -> Shift | None:
    before, after = (float(place) for place in case.scale.to(np.array([change.before, change.after])))
    if abs(after - before) < case.scale.least_shift(np.array(before), case.rules.min_effect):
        return None
    outcome = Outcome.REGRESSION if case.sign * (after - before) > 0 else Outcome.IMPROVEMENT
    return Shift(
        index=case.indices[cut.index],
        outcome=outcome,
        before=change.before,
        after=change.after,
        change=change.change,
        interval=change.interval,
        p_value=cut.p_value,
    )


def _is_same(newest: Shift, earlier: Shift) -> bool:
    return newest.outcome is earlier.outcome and earlier.index >= newest.index - _SAME


def _newest(decision: Decision) -> list[Shift]:
    """The shift that gating found, if it found one."""
    began, before, after = decision.began, decision.baseline, decision.value
    change, interval = decision.change, decision.interval
    if began is None or before is None or after is None or change is None or interval is None:
        return []
    return [Shift(began, decision.outcome, before, after, change, interval, decision.p_value)]
