"""Trends: the levels of whole histories, and the steps between them. Of all steps reported, few are noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from curator_bench.verdict.cases import Case, History, Question, case_of
from curator_bench.verdict.distributions import Floats, t_value
from curator_bench.verdict.ends import FEWEST_BEFORE, End, Segmentation, segmentations
from curator_bench.verdict.false_discovery import adjusted
from curator_bench.verdict.judgement import Judgement, Level, Step, Trend, Unjudged, word_by
from curator_bench.verdict.judging import judged_end, why_unjudged
from curator_bench.verdict.levels import Cut
from curator_bench.verdict.locating import located
from curator_bench.verdict.newest import TAIL
from curator_bench.verdict.noise import middle

STEP_RATE = 0.01
"""The share of noise among all steps reported of a database. If nothing changed, the chance that any is reported."""
_SAME = 3
"""A step of the newest runs is the same as an earlier step if it is at most this many runs away."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Histories that were judged before. Their steps count in the control of false discoveries."""

    p_values: Sequence[float] = ()
    tests: int = 0


NOTHING_BESIDE = Beside()


def largest_believed(p_values: Sequence[float], tests: int, *, rate: float = STEP_RATE) -> float:
    """Return the largest p-value of a reported step; below 0 if none is reported."""
    rates = adjusted(p_values, tests=tests).tolist()
    return max((one for one, own in zip(p_values, rates, strict=True) if own <= rate), default=-1.0)


def trends(
    histories: Sequence[History],
    *,
    rate: float = STEP_RATE,
    beside: Beside = NOTHING_BESIDE,
    known: Sequence[Segmentation | None] | None = None,
) -> list[Trend]:
    """Return levels and steps of each history.

    Of all steps, including those of `beside`, only this share is noise. `known` are the segmentations of the histories.
    """
    cases = [case_of(np.asarray(one.values, dtype=np.float64), one.rules) for one in histories]
    ends = segmentations(histories) if known is None else known
    judged = {at: one for at, one in enumerate(ends) if one is not None}
    steps: list[list[Step]] = [[] for _ in histories]
    newest: list[Judgement] = [_why_no_trend(one) for one in histories]
    for at, (cuts, end) in judged.items():
        newest[at] = judged_end(cases[at], end, len(cases[at].places) - 1)
        steps[at] = _steps(cases[at], cuts, end)
    found = [*(step.p_value for own in steps for step in own), *beside.p_values]
    largest = largest_believed(found, len(judged) + beside.tests, rate=rate)
    return [
        _trend(history, case, own, last, largest=largest, is_tested=at in judged)
        for at, (history, case, own, last) in enumerate(zip(histories, cases, steps, newest, strict=True))
    ]


def _why_no_trend(history: History) -> Judgement:
    question = Question(history.values[:-1], history.values[-1:], replace(history.rules, min_history=FEWEST_BEFORE))
    known = int(np.isfinite(history.values).sum())
    return why_unjudged(question) or Judgement(None, "not enough history", Unjudged.NO_HISTORY, history=known)


def _steps(case: Case, cuts: Sequence[Cut], end: End) -> list[Step]:
    steps = [
        _step(case, cut.index, (cut.before, cut.shift), reach, len(case.places) * math.exp(-cut.score))
        for cut, reach in zip(cuts, _reaches(cuts), strict=True)
    ]
    began = len(case.places) - end.runs
    if end.holds and all(abs(began - cut.index) > _SAME for cut in cuts):
        steps.append(_step(case, began, (end.level, end.shift), end.reach, math.exp(-end.score)))
    return sorted(steps, key=lambda step: step.began)


def _reaches(cuts: Sequence[Cut]) -> list[float]:
    freedom = np.array([cut.freedom for cut in cuts])
    reaches: list[float] = (t_value(TAIL, freedom) * np.array([cut.error for cut in cuts])).tolist()
    return reaches


def _step(case: Case, index: int, change: tuple[float, float], reach: float, p_value: float) -> Step:
    level, shift = change
    fraction = case.change(level, shift)
    return Step(
        word=word_by(fraction, case.rules.min_effect, is_worse=shift > 0, is_certain=True),
        began=int(case.indices[index]),
        last_before=int(case.indices[index - 1]),
        first_after=int(case.indices[index]),
        before=case.value(level),
        after=case.value(level + shift),
        change=fraction,
        interval=case.interval(level, shift, reach),
        p_value=min(p_value, 1.0),
    )


def _with_ranges(case: Case, steps: Sequence[Step]) -> list[Step]:
    """Add to each step the runs between which it certainly lies."""
    ranges = located(case.places, np.searchsorted(case.indices, [step.began for step in steps]).tolist())
    return [
        replace(step, last_before=int(case.indices[before]), first_after=int(case.indices[after]))
        for step, (before, after) in zip(steps, ranges, strict=True)
    ]


def _trend(
    history: History, case: Case, steps: Sequence[Step], newest: Judgement, *, largest: float, is_tested: bool
) -> Trend:
    """Return the levels between the reported steps: those with a p-value of at most `largest`."""
    believed = _with_ranges(case, [step for step in steps if step.p_value <= largest])
    doubted = tuple(step.p_value for step in steps if step.p_value > largest)
    bounds = [0, *(step.began for step in believed), len(history.values)]
    levels = tuple(_level(history.values, *ends) for ends in pairwise(bounds) if ends[1] > ends[0])
    newest = newest if _is_among(newest, believed, case) else newest.doubted()
    return Trend(levels, tuple(believed), newest, doubted, is_tested)


def _is_among(newest: Judgement, believed: Sequence[Step], case: Case) -> bool:
    """True if the change that the newest runs show is one of the reported steps."""
    if newest.began is None:
        return True
    began, *places = np.searchsorted(case.indices, [newest.began, *(step.began for step in believed)]).tolist()
    return any(abs(place - began) <= _SAME for place in places)


def _level(values: Floats, start: int, end: int) -> Level:
    finite = values[start:end][np.isfinite(values[start:end])]
    level = middle(finite) if len(finite) else float("nan")
    apart = middle(np.abs(np.diff(finite))) if len(finite) > 1 else 0.0
    return Level(start, end, level, 1.05 * apart / abs(level) if level else 0.0)
