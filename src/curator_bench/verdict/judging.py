"""Judges the newest runs of metrics, whole histories, and sets of runs against each other. The room's own docstring
walks through it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from curator_bench.verdict import bootstrap, comparison, gating
from curator_bench.verdict.cases import MIN_EFFECT, NoCase, Question, Rules, case_of
from curator_bench.verdict.comparison import Pair
from curator_bench.verdict.direction import Better
from curator_bench.verdict.false_discovery import adjusted, discoveries
from curator_bench.verdict.gating import Decision, Outcome
from curator_bench.verdict.judgement import Course, Drift, Judgement, Level, Mark, Step, Unjudged, Word
from curator_bench.verdict.shifts import Shift, shifts_of_all
from curator_bench.verdict.tails import Floats

STEP_RATE = 0.01
"""Of all steps reported of a database this share is noise; when nothing changed, it is how often any is reported."""
ROUNDS_RATE = 0.05
_WORDS = {
    Outcome.REGRESSION: Word.REGRESSION,
    Outcome.IMPROVEMENT: Word.IMPROVEMENT,
    Outcome.SUSPECT: Word.INCONCLUSIVE,
    Outcome.LEVEL: Word.NO_CHANGE,
}
_UNJUDGED = {Outcome.NOT_ENOUGH_HISTORY: Unjudged.NO_HISTORY, Outcome.NOT_COMPARABLE: Unjudged.NOT_COMPARABLE}
_MEASURE_AGAIN = "measuring again decides"


@dataclass(frozen=True, slots=True)
class History:
    """All comparable runs of one metric of one entry on one kind of machine, the oldest first."""

    values: Floats
    rules: Rules


@dataclass(frozen=True, slots=True)
class Rounds:
    """What two environments measured in turns: a value of each for each round."""

    first: Floats
    other: Floats
    rules: Rules


def judge(questions: Sequence[Question]) -> list[Judgement]:
    """Says of each question what its newest runs are, against the history or against its own baseline."""
    return [_judged(decision) for decision in gating.gate_all(questions)]


def _judged(decision: Decision) -> Judgement:
    word = _WORDS.get(decision.outcome)
    return Judgement(
        word=word,
        reason=decision.reason,
        unjudged=_UNJUDGED.get(decision.outcome),
        before=decision.baseline,
        after=decision.value,
        change=decision.change,
        interval=decision.interval,
        p_value=decision.chance,
        began=decision.began,
        history=decision.history,
        noise=decision.spread,
        visible=None if decision.spread is None else visible_change(decision.spread, decision.history),
        decides=_MEASURE_AGAIN if word is Word.INCONCLUSIVE else "",
    )


def visible_change(noise: float, history: int, newest: int = 1) -> float:
    """The smallest change that is found 80 % of the time, as a fraction: with this noise, so many runs before and so
    many at the new level. Ask with other numbers for what more runs would see.
    """
    return 4.2 * noise * math.sqrt(1 / max(newest, 1) + 1 / max(history, 1)) * (1 + 6 / max(history, 1))


def courses(histories: Sequence[History], *, rate: float = STEP_RATE) -> list[Course]:
    """Levels and steps of each history; of all steps only this share is noise."""
    found = shifts_of_all([(one.values, one.rules) for one in histories])
    tests = sum(one.rules.better is not None for one in histories)
    rates = iter(adjusted([shift.p_value for shifts in found for shift in shifts], tests=tests).tolist())
    believed = [[shift for shift in shifts if next(rates) <= rate] for shifts in found]
    newest = judge([_last(one) for one in histories])
    return [_course(*row) for row in zip(histories, believed, newest, strict=True)]


def _last(history: History) -> Question:
    known = np.flatnonzero(np.isfinite(history.values))
    last = int(known[-1]) if len(known) else 0
    return Question(history.values[:last], history.values[last : last + 1], history.rules)


def _course(history: History, shifts: Sequence[Shift], newest: Judgement) -> Course:
    return Course(_levels(history, shifts), tuple(_step(shift) for shift in shifts), newest)


def _step(shift: Shift) -> Step:
    word = _WORDS[shift.outcome]
    return Step(word, shift.index, shift.before, shift.after, shift.change, shift.interval, shift.p_value)


def _levels(history: History, shifts: Sequence[Shift]) -> tuple[Level, ...]:
    bounds = [0, *(shift.index for shift in shifts), len(history.values)]
    return tuple(_level(history.values, *ends) for ends in pairwise(bounds) if ends[1] > ends[0])


def _level(values: Floats, start: int, end: int) -> Level:
    finite = values[start:end][np.isfinite(values[start:end])]
    middle = float(np.median(finite)) if len(finite) else float("nan")
    apart = float(np.median(np.abs(np.diff(finite)))) if len(finite) > 1 else 0.0
    return Level(start, end, middle, 1.05 * apart / abs(middle) if middle else 0.0)


def compare(pairs: Sequence[Pair]) -> list[Judgement]:
    """Judges the runs of B against those of A, all pairs at once: of all steps only a small share is noise."""
    return [_compared(pair, one) for pair, one in zip(pairs, comparison.compare(pairs), strict=True)]


def _compared(pair: Pair, one: comparison.Compared) -> Judgement:
    known = len(pair.before)
    if one.verdict not in (comparison.REGRESSION, comparison.IMPROVEMENT, comparison.LEVEL):
        case = case_of(Question(pair.history, pair.after, pair.rules, pair.before))
        lacks = isinstance(case, NoCase) and case.lacks_history
        unjudged = Unjudged.NO_HISTORY if lacks else Unjudged.NOT_COMPARABLE
        return Judgement(None, one.verdict, unjudged, one.before, one.after, one.change, history=known)
    word = Word.NO_CHANGE if one.verdict == comparison.LEVEL else Word(one.verdict)
    if word is Word.NO_CHANGE and _is_beyond(one.interval, pair.rules.min_effect):
        word = Word.INCONCLUSIVE
    return Judgement(
        word=word,
        reason=f"{one.change:+.1%}",
        before=one.before,
        after=one.after,
        change=one.change,
        interval=one.interval,
        p_value=one.chance,
        history=known,
        decides=_MEASURE_AGAIN if word is Word.INCONCLUSIVE else "",
    )


def _is_beyond(interval: tuple[float, float] | None, least: float) -> bool:
    """The whole interval is farther away than what matters."""
    return interval is not None and (min(interval) >= least or max(interval) <= -least)


def compare_rounds(asked: Sequence[Rounds], *, rate: float = ROUNDS_RATE) -> list[Judgement]:
    """Judges what was measured in turns, round against round, so that what drifts meanwhile cancels out."""
    found = [bootstrap.paired_change(one.first, one.other) for one in asked]
    sure = iter(discoveries([paired.p_value for paired in found if paired], rate=rate).tolist())
    return [
        _no_rounds() if paired is None else _of_rounds(one, paired, is_sure=next(sure))
        for one, paired in zip(asked, found, strict=True)
    ]


def _no_rounds() -> Judgement:
    return Judgement(None, f"fewer than {bootstrap.ROUNDS} rounds of both", Unjudged.NO_HISTORY)


def _of_rounds(one: Rounds, paired: bootstrap.Paired, *, is_sure: bool) -> Judgement:
    word, effect = Word.INCONCLUSIVE, one.rules.min_effect
    low, high = sorted(paired.interval)
    if is_sure and abs(paired.change) >= effect and (low > 0 or high < 0):
        word = Word.REGRESSION if (paired.change > 0) == (one.rules.better is Better.LESS) else Word.IMPROVEMENT
    elif -effect < low and high < effect:
        word = Word.NO_CHANGE
    judgement = Judgement(
        word=word,
        reason=f"{paired.change:+.1%} in {min(len(one.first), len(one.other))} rounds",
        before=paired.before,
        after=paired.after,
        change=paired.change,
        interval=(low, high),
        p_value=paired.p_value,
        history=min(len(one.first), len(one.other)),
        decides="more rounds decide" if word is Word.INCONCLUSIVE else "",
    )
    if one.rules.better is None:
        reason = f"{judgement.reason}; whether less or more of it is better is not known: declare `better`"
        return replace(judgement, word=None, unjudged=Unjudged.NOT_COMPARABLE, reason=reason, decides="")
    return judgement


def drifts(asked: Sequence[tuple[History, Sequence[Mark]]], *, least: float = MIN_EFFECT) -> list[Drift | None]:
    """Says of each history whether its level now is worse than at a mark, or than its best, without a step between.

    None where it is not certain, or less than `least`.
    """
    return [None for _ in asked]
