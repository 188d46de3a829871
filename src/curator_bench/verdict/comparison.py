"""Two sets of runs of one metric, each against the other: how much it changed, how sure that is, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from curator_bench.verdict.cases import MIN_HISTORY, Question, Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.false_discovery import discoveries
from curator_bench.verdict.gating import Decision, Outcome, gate_all
from curator_bench.verdict.intervals import change_between
from curator_bench.verdict.noise import BLOCK
from curator_bench.verdict.scale import as_floats
from curator_bench.verdict.tails import Floats

REGRESSION, IMPROVEMENT, LEVEL = "regression", "improvement", "level"
_FEWEST = 2


@dataclass(frozen=True, slots=True)
class Pair:
    """What is compared: the runs of A, of B, and all that are known beside those of B, for how the metric scatters."""

    before: Floats
    after: Floats
    history: Floats
    rules: Rules


@dataclass(frozen=True, slots=True)
class Compared:
    verdict: str
    """A regression, an improvement, level; or why nothing can be said."""
    before: float
    after: float
    change: float
    interval: tuple[float, float] | None = None
    chance: float = 1.0


def compare(pairs: Sequence[Pair]) -> list[Compared]:
    """All at once: of what is called a regression or an improvement only a small share is noise."""
    decisions = gate_all([_question(pair) for pair in pairs])
    found = [_compared(pair, decision) for pair, decision in zip(pairs, decisions, strict=True)]
    believed = discoveries([one.chance if one.verdict in (REGRESSION, IMPROVEMENT) else 1.0 for one in found])
    return [
        one if sure or one.verdict not in (REGRESSION, IMPROVEMENT) else replace(one, verdict=LEVEL)
        for one, sure in zip(found, believed.tolist(), strict=True)
    ]


def _question(pair: Pair) -> Question:
    return Question(pair.history, pair.after[-BLOCK:], pair.rules, pair.before[-BLOCK:])


def _compared(pair: Pair, decision: Decision) -> Compared:
    if decision.outcome is Outcome.NOT_ENOUGH_HISTORY:
        return _of_few(pair, decision.reason)
    if decision.baseline is None or decision.value is None or decision.change is None:
        return Compared(decision.reason, *_medians(pair))
    verdict = LEVEL
    suspects = (Outcome.REGRESSION, Outcome.SUSPECT) if len(pair.after) == 1 else (Outcome.REGRESSION,)
    if decision.outcome in suspects:
        verdict = REGRESSION
    elif decision.outcome is Outcome.IMPROVEMENT:
        verdict = IMPROVEMENT
    return Compared(verdict, decision.baseline, decision.value, decision.change, decision.interval, decision.chance)


def _of_few(pair: Pair, reason: str) -> Compared:
    """Without a history the two sets must tell themselves how they scatter."""
    few = min(len(pair.before), len(pair.after))
    if few < _FEWEST or len(pair.before) + len(pair.after) < MIN_HISTORY:
        return Compared(reason, *_medians(pair))
    change = change_between(pair.before, pair.after)
    is_worse = (change.change > 0) is (pair.rules.better is Better.LESS)
    is_sure = change.p_value <= 1 - pair.rules.confidence and abs(change.change) >= pair.rules.min_effect
    verdict = (REGRESSION if is_worse else IMPROVEMENT) if is_sure else LEVEL
    return Compared(verdict, change.before, change.after, change.change, change.interval, change.p_value)


def _medians(pair: Pair) -> tuple[float, float, float]:
    before, after = float(np.median(pair.before)), float(np.median(pair.after))
    return before, after, (after - before) / abs(before) if before else float("nan")


def pair_of(before: Sequence[float], after: Sequence[float], history: Sequence[float], rules: Rules) -> Pair:
    return Pair(as_floats(before), as_floats(after), as_floats(history), rules)
