"""Judge two sides that are measured in turns, after each round, and say when to stop.

All judgements of a comparison, of all its metrics after all rounds, share one small chance of a false alarm;
`contrast` says how the looks share it. Among the metrics it is a rate of false discoveries. Nothing is remembered from
look to look.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

import numpy as np

from curator_bench.verdict.cases import Rules
from curator_bench.verdict.contrast import Contrast, contrast
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.false_discovery import discoveries
from curator_bench.verdict.judgement import Judgement, Unjudged, Word, word_by
from curator_bench.verdict.scale import Scale, scale_of
from curator_bench.verdict.visible import found_beyond

ERROR = 0.0025
"""The chance that a comparison of equal code reports anything. Noise of unusual kinds may double it."""
MISSED = 0.075
"""The share of each look in this keeps the interval right in 95 of 100 comparisons, whichever look is the last."""
LEAST_ROUNDS = 3
"""With fewer rounds, there is no judgement."""
FIRST_LOOK = 4
"""Nothing is decided earlier: A B B A A B B A."""
ENOUGH_TO_GIVE_UP = 10
"""With fewer rounds, no metric is hopeless: outliers cannot be told from noise yet."""
_HOPELESS = 0.02
"""A metric is hopeless if the rounds that are left decide it with less than this chance."""
_QUIETER = 0.7
"""Few rounds may show more noise than there is: hopeless is what would be so with this much of it."""


@dataclass(frozen=True, slots=True)
class TurnsPlan:
    """The rules of a comparison."""

    most: int = 30
    """The most rounds."""
    error: float = ERROR
    """The chance that a comparison of equal code reports anything, whenever it ends."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Values of one metric on two sides that were measured in turns: one of each for each round, NaN for none."""

    first: Floats
    other: Floats
    rules: Rules


class State(StrEnum):
    """The states of a metric: more rounds are worth their time or not."""

    OPEN = "open"
    DECIDED = "decided"
    """A certain regression or improvement, or all of its interval is within the limit."""
    HOPELESS = "hopeless"
    """The rounds that are left would hardly decide it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The judgement of a metric after the rounds so far, which stays if measuring ends now, and its state."""

    judgement: Judgement
    state: State


def is_over(found: Sequence[Standing]) -> bool:
    """True if no metric needs another round."""
    return all(one.state is not State.OPEN for one in found)


@dataclass(frozen=True, slots=True)
class _Metric:
    """One metric that can be judged."""

    rules: Rules
    scale: Scale
    found: Contrast
    """A contrast of one row: this metric."""

    @property
    def rounds(self) -> int:
        return self.found.rounds

    @property
    def level(self) -> float:
        return float(self.found.level[0])

    @property
    def shift(self) -> float:
        return float(self.found.shift[0])

    @property
    def change(self) -> float:
        return self._changed(0.0)

    @property
    def p_value(self) -> float:
        return float(self.found.p_values[0])

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the change, whichever round is the last."""
        reach = self.reach(MISSED)
        low, high = sorted((self._changed(-reach), self._changed(reach)))
        return low, high

    @property
    def is_within(self) -> bool:
        """True if the whole interval is within the limit."""
        farthest = max(map(abs, self.interval))
        return word_by(farthest, self.rules.min_effect, is_worse=True, is_certain=False) is Word.NO_CHANGE

    @property
    def spread(self) -> float:
        return float(self.found.spread[0])

    @property
    def error(self) -> float:
        return float(self.found.error[0])

    def reach(self, chance: float) -> float:
        return float(self.found.reach(chance)[0])

    def _changed(self, more: float) -> float:
        return self.scale.change(self.level, self.level + self.shift + more)


def standings(asked: Sequence[Turns], plan: TurnsPlan | None = None) -> list[Standing]:
    """Judge all metrics of a comparison by the rounds so far."""
    plan = plan or TurnsPlan()
    metrics = [_metric_of(one) for one in asked]
    is_tested = [metric is not None and metric.rules.better is not None for metric in metrics]
    p_values = [metric.p_value for metric, tested in zip(metrics, is_tested, strict=True) if metric and tested]
    sure = iter(discoveries(p_values, rate=plan.error).tolist())
    return [
        _standing(metric, plan, is_certain=tested and next(sure)) if metric else _without_values(one)
        for one, metric, tested in zip(asked, metrics, is_tested, strict=True)
    ]


def _metric_of(one: Turns) -> _Metric | None:
    """Return the metric by the rounds that both sides have; None if there are too few."""
    rounds = min(len(one.first), len(one.other))
    first, other = one.first[:rounds], one.other[:rounds]
    is_known = np.isfinite(first) & np.isfinite(other)
    first, other = first[is_known], other[is_known]
    if len(first) < LEAST_ROUNDS:
        return None
    scale = scale_of(np.concatenate([first, other]))
    return _Metric(one.rules, scale, contrast(scale.to(first)[None], scale.to(other)[None]))


def _without_values(one: Turns) -> Standing:
    tried = min(len(one.first), len(one.other))
    judgement = Judgement(None, f"fewer than {LEAST_ROUNDS} rounds of both", Unjudged.NO_HISTORY)
    return Standing(judgement, State.OPEN if tried < FIRST_LOOK else State.HOPELESS)


def _standing(metric: _Metric, plan: TurnsPlan, *, is_certain: bool) -> Standing:
    judgement = _judgement(metric, plan, is_certain=is_certain)
    if metric.rules.better is None:
        reason = f"{judgement.reason}; whether less or more of it is better is not known: declare `better`"
        unknown = replace(judgement, word=None, unjudged=Unjudged.NOT_COMPARABLE, reason=reason, decides="")
        return Standing(unknown, State.HOPELESS)
    return Standing(judgement, _state(metric, judgement, plan))


def _judgement(metric: _Metric, plan: TurnsPlan, *, is_certain: bool) -> Judgement:
    change, level = metric.change, metric.level
    is_worse = (change > 0) == (metric.rules.better is Better.LESS)
    word = word_by(change, metric.rules.min_effect, is_worse=is_worse, is_certain=is_certain)
    if word is Word.NO_CHANGE and not metric.is_within:
        word = Word.INCONCLUSIVE  # a gate must not call equal what might as well be half as slow again
    before = metric.scale.back(level)
    return Judgement(
        word=word,
        reason=f"{change:+.1%} in {metric.rounds} rounds",
        before=before,
        after=metric.scale.back(level + metric.shift),
        change=change,
        interval=metric.interval,
        p_value=metric.p_value,
        history=metric.rounds,
        noise=_finite(metric.scale.fraction(metric.spread, before)),
        visible=_visible(metric, before, plan),
        decides=_decides(metric, plan) if word is Word.INCONCLUSIVE else "",
    )


def _visible(metric: _Metric, before: float, plan: TurnsPlan) -> float | None:
    reach, error = (metric.scale.fraction(place, before) for place in (metric.reach(plan.error), metric.error))
    return found_beyond(max(math.log1p(metric.rules.min_effect), reach), error) if math.isfinite(error) else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _decides(metric: _Metric, plan: TurnsPlan) -> str:
    """Say how many rounds would make this change certain."""
    if metric.p_value <= plan.error:
        return "more rounds decide: of so many metrics some differ as much by chance"
    size, limit = abs(metric.shift), _limit(metric)
    for rounds in range(metric.rounds + 1, plan.most + 1):
        then = metric.found.after(rounds)
        is_certain = size >= limit and float(then.reach(plan.error)[0]) <= size
        if is_certain or size + float(then.reach(MISSED)[0]) < limit:
            return f"{rounds} rounds like these would be certain"
    return "more rounds, a quieter machine, or less noise: the fastest of many repeats"


def _state(metric: _Metric, judgement: Judgement, plan: TurnsPlan) -> State:
    if metric.rounds < FIRST_LOOK:
        return State.OPEN
    is_certain = judgement.word in (Word.REGRESSION, Word.IMPROVEMENT)
    if is_certain or metric.is_within:
        return State.DECIDED
    is_enough = metric.rounds >= min(ENOUGH_TO_GIVE_UP, plan.most)
    return State.HOPELESS if is_enough and _chance_to_decide(metric, plan) < _HOPELESS else State.OPEN


def _chance_to_decide(metric: _Metric, plan: TurnsPlan) -> float:
    """Return how likely the change is certain, or within the limit, after the last round."""
    if metric.rounds >= plan.most:
        return 0.0
    at_end = metric.found.after(plan.most)
    certain, reach = (_QUIETER * float(at_end.reach(chance)[0]) for chance in (plan.error, MISSED))
    moves = NormalDist(0.0, max(_QUIETER * metric.error * math.sqrt(1 - metric.rounds / plan.most), sys.float_info.min))
    limit = _limit(metric)
    least, most = max(limit, certain), max(limit - reach, 0.0)
    size = abs(metric.shift)
    beyond: float = moves.cdf(size - least) + moves.cdf(-size - least)
    return beyond + max(moves.cdf(most - size) - moves.cdf(-most - size), 0.0)


def _limit(metric: _Metric) -> float:
    """Return the limit as a distance on the metric's scale."""
    if metric.scale.unit is None:
        return math.log1p(metric.rules.min_effect)
    return metric.rules.min_effect * abs(metric.level)
