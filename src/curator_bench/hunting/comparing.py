"""Compares sides: measures them in turns until every metric is decided, or the rounds or the time are used up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from curator_bench.errors import BenchError
from curator_bench.hunting.alternation import Comparison, Measured, Series, metrics_to_compare
from curator_bench.verdict.judgement import Judgement, Unjudged
from curator_bench.verdict.turns import (
    ERROR,
    LEAST_ROUNDS,
    Standing,
    State,
    Turns,
    TurnsPlan,
    is_over,
    standings,
)
from curator_bench.words import how_many, readable_seconds

if TYPE_CHECKING:
    from curator_bench.hunting.sides import Side
    from curator_bench.verdict.cases import Rules
    from curator_bench.verdict.direction import Better


class Ended(StrEnum):
    """Why a comparison ended."""

    DECIDED = "more rounds would hardly decide more"
    ROUNDS = "all rounds are measured"
    BUDGET = "the time is used up"


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """The user's request: what is compared, and how long."""

    most: int
    """The most rounds."""
    metrics: tuple[str, ...]
    better: Better | None
    min_effect: float
    gates: Mapping[Series, Rules]
    deadline: float = math.inf
    """The time on the monotonic clock after which no round should end."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The difference of a side from the first one in a metric."""

    series: Series
    side: str
    standing: Standing
    limit: float
    """The smallest change that counts, as a fraction."""
    is_null: bool = False
    """True if the first side is compared with itself."""

    @property
    def judgement(self) -> Judgement:
        return self.standing.judgement


@dataclass(frozen=True, slots=True)
class Found:
    """The answers of a comparison, and how it ended."""

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
    """Measure and judge until it is decided. Rounds that an earlier call has finished count.

    `check` may refuse a side after its first run in this call: an earlier call may have ended before it could.
    """
    longest, unchecked = 0.0, {side.name for side in comparison.sides}
    rounds = comparison.finished(request.most)
    if rounds:
        known = "1 round is" if rounds == 1 else f"{rounds} rounds are"
        tell(f"continuing {comparison.session}-…: {known} measured (--fresh starts again)")
    while (ended := ended_by(comparison, request, rounds)) is None:
        began = time.monotonic()
        if longest and began + longest > request.deadline:
            return judged(comparison, request, rounds, Ended.BUDGET)
        rounds += 1
        comparison.measure_round(rounds, unchecked, tell, check)
        takes = time.monotonic() - began
        longest = max(longest, takes)
        if rounds == 1:
            all_of_them = readable_seconds(takes * request.most)
            tell(f"a round takes {readable_seconds(takes)}: at most {request.most} rounds take {all_of_them}")
    return judged(comparison, request, rounds, ended)


def ended_by(comparison: Comparison, request: CompareRequest, rounds: int) -> Ended | None:
    """Return why no further round is to be measured; None if one is."""
    if not rounds:
        return None
    found = [
        one.standing for one in _answers(comparison.measured(rounds), comparison, request, rounds) if not one.is_null
    ]
    if rounds >= request.most and any(one.state is not State.DECIDED for one in found):
        return Ended.ROUNDS
    return Ended.DECIDED if is_over(found) else None


def judged(comparison: Comparison, request: CompareRequest, rounds: int, ended: Ended) -> Found:
    """Judge the first rounds. Raises BenchError if nothing can be compared."""
    measured = comparison.measured(rounds)
    answers = _answers(measured, comparison, request, rounds)
    known = [one for one in answers if one.judgement.unjudged is not Unjudged.NO_HISTORY]
    if not known:
        if rounds < LEAST_ROUNDS:
            raise BenchError(f"{ended} after {how_many(rounds, 'round')}: nothing is compared with fewer than three")
        names = ", ".join(sorted({series.metric for series in measured[0]})[:20])
        raise BenchError(f"nothing to compare: {comparison.sides[0].name} measured {names or 'nothing'}")
    missing = [(one.series, one.side) for one in answers if one not in known and not one.is_null]
    is_broken = any(len(measured[0].get(series, ())) >= LEAST_ROUNDS for series, _ in missing)
    return Found(tuple(known), tuple(missing), is_broken, rounds, ended)


def _chosen(measured: Sequence[Measured], request: CompareRequest) -> dict[Series, Rules]:
    every = list(dict.fromkeys(series for side in measured for series in side))
    return metrics_to_compare(every, request.metrics, request.better, request.min_effect, request.gates)


def _answers(
    measured: Sequence[Measured], comparison: Comparison, request: CompareRequest, rounds: int
) -> list[Answer]:
    """Judge each side against the first, metric by metric. All sides share the chance of a false alarm."""
    chosen = _chosen(measured, request)
    first, *others = measured
    plan = TurnsPlan(request.most, ERROR / sum(not side.is_null for side in comparison.sides[1:]))
    return [
        Answer(series, side.name, standing, chosen[series].min_effect, side.is_null)
        for side, other in zip(comparison.sides[1:], others, strict=True)
        for series, standing in zip(
            chosen,
            standings([_turns(first, other, series, rules, rounds) for series, rules in chosen.items()], plan),
            strict=True,
        )
    ]


def _turns(first: Measured, other: Measured, series: Series, rules: Rules, rounds: int) -> Turns:
    sides = (side.get(series, {}) for side in (first, other))
    one, two = (
        np.array([side.get(number, np.nan) for number in range(1, rounds + 1)], dtype=np.float64) for side in sides
    )
    return Turns(one, two, rules)
