"""Drift: a metric slowly becomes worse, and no step explains it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curator_bench.verdict.cases import MIN_EFFECT, Case, History, case_of
from curator_bench.verdict.distributions import Floats, t_score, t_value, variance_of_mean
from curator_bench.verdict.ends import End, Segmentation, effects_of, segmentations
from curator_bench.verdict.judgement import Drift, Mark
from curator_bench.verdict.levels import Cut, without_outliers
from curator_bench.verdict.newest import TAIL
from curator_bench.verdict.noise import in_batches, middle, noise_apart, rows_may_be_empty, table_of
from curator_bench.verdict.visible import found_beyond

BEST = "its best"
_SPAN = 20
"""The number of runs that make up the level at a mark, the best level, and the level now; fewer in a short history."""
FEWEST_FOR_DRIFT = 15
"""In fewer runs no drift is found."""
_CERTAIN = 15.0
"""Least score of a drift. It is high because the best level, the lowest of many, is low by noise alone."""
_FEWEST_ERRORS = 4.9
"""A drift of fewer standard errors is not scored: in normal noise it would score 14.6 at most, so it is never certain.
Most drifts are smaller, so this saves time."""
_MOST_OF_IT = 0.8
"""A mark is named instead of the best level if this share of the drift came after it, because people know marks."""


@dataclass(frozen=True, slots=True)
class _Flat:
    """A history without its steps and outliers, on its scale; higher is worse."""

    case: Case
    places: Floats
    noise: float
    correlation: float

    @property
    def span(self) -> int:
        return min(_SPAN, len(self.places) // 3)

    @property
    def error(self) -> float:
        """Standard error of the difference between two levels."""
        return self.noise * math.sqrt(2 * float(variance_of_mean(float(self.span), np.array(self.correlation))))

    @property
    def freedom(self) -> float:
        return len(self.places) / 2


def drifts(
    asked: Sequence[tuple[History, Sequence[Mark]]],
    *,
    least: float = MIN_EFFECT,
    known: Sequence[Segmentation | None] | None = None,
) -> list[Drift | None]:
    """For each history, tell whether its level now is worse than at a mark, or than its best, without a step between.

    `before` of a drift is the level at the mark plus the steps since then, so `change` is the drift alone. None if the
    drift is not certain, or less than `least`. `known` are the segmentations of the histories.
    """
    known = segmentations([history for history, _ in asked]) if known is None else known
    found: list[Drift | None] = [None] * len(asked)
    cases = [case_of(np.asarray(one.values, dtype=np.float64), one.rules) for one, _ in asked]
    levels = {at: one for at, one in enumerate(known) if one is not None and len(cases[at].places) >= FEWEST_FOR_DRIFT}
    rows = list(levels)
    for batch in in_batches([len(cases[at].places) for at in rows]):
        chosen = [rows[at] for at in batch]
        for at, flat in zip(chosen, _flat([cases[at] for at in chosen], [levels[at] for at in chosen]), strict=True):
            found[at] = _drift(flat, asked[at][1], least)
    return found


@dataclass(frozen=True, slots=True)
class DriftSight:
    """The drift that could have been seen in a history. Both are fractions."""

    runs: int
    noise: float
    visible: float
    """The smallest drift that would have been found 80 % of the time."""


def drift_sight(history: History, *, least: float = MIN_EFFECT) -> DriftSight | None:
    """Return how small a drift, of at least `least`, this history would show; None if it is too short for any."""
    case = case_of(np.asarray(history.values, dtype=np.float64), history.rules)
    (known,) = segmentations([history])
    if known is None or len(case.places) < FEWEST_FOR_DRIFT:
        return None
    (flat,) = _flat([case], [known])
    now = case.value(middle(case.places[-flat.span :]))
    noise, error = case.scale.fraction(flat.noise, now), case.scale.fraction(flat.error, now)
    certain = max(float(t_value(math.exp(-_CERTAIN), flat.freedom)), _FEWEST_ERRORS) * error
    return DriftSight(len(case.places), noise, found_beyond(max(math.log1p(least), certain), error))


def _flat(cases: Sequence[Case], levels: Sequence[Segmentation]) -> list[_Flat]:
    table, lengths = table_of([_without_steps(case, *known) for case, known in zip(cases, levels, strict=True)])
    with rows_may_be_empty():
        smooth = without_outliers(table)
        noise, correlation = noise_apart(smooth)
    rows = zip(cases, smooth, lengths.tolist(), noise.tolist(), correlation.tolist(), strict=True)
    return [_Flat(case, places[:length], *scatter) for case, places, length, *scatter in rows]


def _without_steps(case: Case, cuts: Sequence[Cut], end: End) -> Floats:
    places = case.places.copy()
    for cut in cuts:
        places[cut.index :] -= cut.shift
    if end.holds:
        places[len(places) - end.runs :] -= end.shift
    return places


def _drift(flat: _Flat, marks: Sequence[Mark], least: float) -> Drift | None:
    """Measure drift since the mark that shows the most, or since the best level if marks show too little."""
    span, last = flat.span, len(flat.places) - flat.span
    sums = np.concatenate([[0.0], np.cumsum(flat.places)])
    means = (sums[span:] - sums[:-span]) / span
    places = [(mark.name, _window(flat, mark.index)) for mark in marks]
    known = [_since(flat, name, start, means, least) for name, start in places if start + span <= last]
    at_mark = max((one for one in known if one), key=_size, default=None)
    at_best = _since(flat, BEST, int(np.argmin(means[: last - span + 1])), means, least) if last >= span else None
    if at_mark and (at_best is None or _size(at_mark) >= _MOST_OF_IT * _size(at_best)):
        return at_mark
    return at_best


def _size(drift: Drift) -> float:
    return abs(drift.change)


def _window(flat: _Flat, index: int) -> int:
    """Return the index at which the window around a run begins."""
    place = int(np.searchsorted(flat.case.indices, index))
    return max(0, min(place - flat.span // 2, len(flat.places) - flat.span))


def _since(flat: _Flat, name: str, start: int, means: Floats, least: float) -> Drift | None:
    crept, error = float(means[-1] - means[start]), flat.error
    if crept / error < _FEWEST_ERRORS:
        return None
    score = float(t_score(np.array(crept / error), np.array(flat.freedom)))
    now = middle(flat.case.places[-flat.span :])
    enough = float(effects_of([flat.case], least).least(np.array([now - crept]))[0])
    if score < _CERTAIN or crept < enough:
        return None
    return Drift(
        since=name,
        index=int(flat.case.indices[start + flat.span // 2]),
        before=flat.case.value(now - crept),
        after=flat.case.value(now),
        change=flat.case.change(now - crept, crept),
        interval=flat.case.interval(now - crept, crept, float(t_value(TAIL, flat.freedom)) * error),
        p_value=math.exp(-score),
    )
