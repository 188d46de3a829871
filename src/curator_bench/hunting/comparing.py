"""Compares sides: measures them in turns until every metric is decided, or the rounds or the time are used up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from curator_bench.errors import BenchError
from curator_bench.hunting.alternation import Comparison, Measured, Series, metrics_to_compare
from curator_bench.verdict.judgement import Judgement, Unjudged

if TYPE_CHECKING:
    from curator_bench.hunting.sides import Side
    from curator_bench.verdict.cases import Rules
    from curator_bench.verdict.direction import Better
    from curator_bench.verdict.rounds import Rounds
    from curator_bench.verdict.turns import TurnsPlan


class Ended(StrEnum):
    """Why a comparison ended."""

    DECIDED = "every metric is decided"
    ROUNDS = "all rounds are measured"
    BUDGET = "the time is used up"


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """The user's request: what is compared, and how long."""

    plan: TurnsPlan
    metrics: tuple[str, ...]
    better: Better | None
    min_effect: float
    gates: Mapping[Series, Rules]
    budget_s: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The difference of a side from the first one in a metric."""

    series: Series
    side: str
    judgement: Judgement
    is_decided: bool
    is_null: bool = False
    """True if the first side is compared with itself."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a comparison has found."""

    answers: tuple[Answer, ...]
    missing: tuple[tuple[Series, str], ...]
    """Series that could not be compared, each with its side."""
    is_broken: bool
    """True if the first side measured one of the missing series."""
    rounds: int
    ended: Ended


def compare(
    comparison: Comparison,
    request: CompareRequest,
    tell: Callable[[str], None],
    check: Callable[[Side], None] = lambda _: None,
) -> Found:
    """Measure and judge until it is decided. Rounds that an earlier call has finished count."""
    began, longest = time.monotonic(), 0.0
    rounds = comparison.finished(request.plan.most)
    if rounds:
        tell(f"continuing {comparison.session}-…: {rounds} rounds are measured (--fresh starts again)")
    while (ended := ended_by(comparison, request, rounds)) is None:
        if request.budget_s is not None and longest and time.monotonic() - began + longest > request.budget_s:
            return judged(comparison, request, rounds, Ended.BUDGET)
        round_began = time.monotonic()
        rounds += 1
        comparison.measure_round(rounds, tell)
        longest = max(longest, time.monotonic() - round_began)
        if rounds == 1:
            for side in comparison.sides:
                check(side)
    return judged(comparison, request, rounds, ended)


def ended_by(comparison: Comparison, request: CompareRequest, rounds: int) -> Ended | None:
    """Return why no further round is to be measured; None if one is."""
    if rounds >= request.plan.first and _all_decided(comparison, request, rounds):
        return Ended.DECIDED
    return Ended.ROUNDS if rounds >= request.plan.most else None


def _all_decided(comparison: Comparison, request: CompareRequest, rounds: int) -> bool:
    answers = _answers(comparison.measured(rounds), comparison, request)
    return bool(answers) and all(one.is_decided for one in answers if not one.is_null)


def judged(comparison: Comparison, request: CompareRequest, rounds: int, ended: Ended) -> Found:
    """Judge the first rounds. Raises BenchError if nothing can be compared."""
    measured = comparison.measured(rounds)
    answers = _answers(measured, comparison, request)
    if not answers:
        known = ", ".join(sorted({series.metric for series in measured[0]})[:20])
        raise BenchError(f"nothing to compare: {comparison.sides[0].name} measured {known or 'nothing'}")
    there = {(one.series, one.side) for one in answers}
    asked = _chosen(measured, request)
    others = [side.name for side in comparison.sides[1:] if not side.is_null]
    missing = [(series, name) for series in asked for name in others if (series, name) not in there]
    is_broken = any(len(measured[0].get(series, ())) >= request.plan.fewest for series, _ in missing)
    return Found(tuple(answers), tuple(missing), is_broken, rounds, ended)


def _chosen(measured: Sequence[Measured], request: CompareRequest) -> dict[Series, Rules]:
    every = list(dict.fromkeys(series for side in measured for series in side))
    return metrics_to_compare(every, request.metrics, request.better, request.min_effect, request.gates)


def _answers(measured: Sequence[Measured], comparison: Comparison, request: CompareRequest) -> list[Answer]:
    """Judge each side against the first, metric by metric. Metrics that too few rounds have measured are left out."""
    from curator_bench.verdict.turns import judge_turns

    chosen = _chosen(measured, request)
    first, *others = measured
    answers = []
    for side, other in zip(comparison.sides[1:], others, strict=True):
        asked = [_rounds(first.get(series, {}), other.get(series, {}), rules) for series, rules in chosen.items()]
        for series, (judgement, is_decided) in zip(chosen, judge_turns(asked, request.plan), strict=True):
            if judgement.unjudged is not Unjudged.NO_HISTORY:
                answers.append(Answer(series, side.name, judgement, is_decided, side.is_null))
    return answers


def _rounds(first: Mapping[int, float], other: Mapping[int, float], rules: Rules) -> Rounds:
    """Return the values of the rounds that both sides have, so that equal rounds are compared."""
    import numpy as np

    from curator_bench.verdict.rounds import Rounds

    both = sorted(first.keys() & other.keys())
    one, two = (np.array([side[number] for number in both], dtype=np.float64) for side in (first, other))
    return Rounds(one, two, rules)
