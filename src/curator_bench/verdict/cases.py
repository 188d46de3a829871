"""What is asked about a metric, and the runs an answer may use: those of the newest, and those of the levels before.

A question is made into a case: its values on their scale, so that up is worse, without what is no number; and with the
cuts between earlier levels, so that only runs of one level are taken together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curator_bench.verdict.change_points import Cut, cuts_of
from curator_bench.verdict.direction import Better
from curator_bench.verdict.explanations import Newest
from curator_bench.verdict.intervals import CONFIDENCE
from curator_bench.verdict.noise import BLOCK, BLOCKS
from curator_bench.verdict.scale import Scale, scale_of
from curator_bench.verdict.tails import Floats

CERTAINTY = 0.0014
"""With it, and what gating adds in doubt, fewer than 1 of 1,000 clean series is an alarm: benchmarks/statistics."""
MIN_EFFECT = 0.03
MIN_HISTORY = 5
STRETCHES = (1, 2, 4, 6)
"""Of so many newest runs at least one must be able to show a shift: a small one needs all six."""
SHORT_STRETCHES = (1, 2, 3, 4, 5, 6)
"""Where there are few runs before, one of them that is worse, too, would pass for an outlier, and hide the shift."""
FEW = 23
SHORTEST_BLOCK = 5


@dataclass(frozen=True, slots=True)
class Rules:
    """What makes a shift a regression. Fractions are fractions: 3 % is 0.03."""

    better: Better | None
    min_effect: float = MIN_EFFECT
    min_history: int = MIN_HISTORY
    certainty: float = CERTAINTY
    confidence: float = CONFIDENCE


@dataclass(frozen=True, slots=True)
class Question:
    """One metric of one entry: are the newest runs worse than the history, or than a baseline of its own?"""

    history: Floats
    newest: Floats
    rules: Rules
    baseline: Floats | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A question that can be answered."""

    rules: Rules
    scale: Scale
    sign: float
    places: Floats
    """The values of history and newest on their scale; up is worse."""
    newest: int
    cuts: tuple[Cut, ...]
    indices: tuple[int, ...]
    """Which value of the question each place is."""
    baseline: Floats | None = None

    def stretches(self) -> list[int]:
        """How many of the newest runs are held together against those before them."""
        counts = STRETCHES if len(self.places) - max(STRETCHES) > FEW else SHORT_STRETCHES
        longer = [count for count in counts if count > self.newest and self.baseline is None]
        most = len(self.places) - max(self.rules.min_history, 1)
        return [self.newest, *(count for count in longer if count <= most)]

    def blocks(self, end: int) -> list[Floats]:
        """The levels before `end`, the last of them the one to compare with."""
        most = BLOCKS if self.baseline is None else BLOCKS - 1
        limits = [0, *(cut.index for cut in self.cuts if cut.index <= end - SHORTEST_BLOCK)]
        blocks: list[Floats] = []
        while end > 0 and len(blocks) < most:
            limits = [limit for limit in limits if limit < end]
            start = max(end - BLOCK, limits[-1])
            if end - start >= SHORTEST_BLOCK or not blocks:
                blocks.insert(0, self.places[start:end])
            end = start
        return blocks if self.baseline is None else [*blocks, self.baseline[-BLOCK:]]


@dataclass(frozen=True, slots=True)
class NoCase:
    """A question without an answer, and why."""

    reason: str
    lacks_history: bool = False
    history: int = 0


def case_of(question: Question) -> Case | NoCase:
    rules = question.rules
    if rules.better is None:
        return NoCase("whether less or more of it is better is not known: declare `better`")
    if len(question.newest) == 0 or not np.all(np.isfinite(question.newest)):
        return NoCase("the newest value is not a finite number")
    past = question.history[np.isfinite(question.history)]
    baseline = None if question.baseline is None else question.baseline[np.isfinite(question.baseline)]
    has_baseline = baseline is None or len(baseline) > 0
    known = max(len(past), 0 if baseline is None else len(baseline)) if has_baseline else 0
    if known < rules.min_history or not has_baseline:
        return NoCase(f"not enough history: {known} of the {rules.min_history} runs it takes", True, known)
    return _case(question, past, baseline)


def _case(question: Question, past: Floats, baseline: Floats | None) -> Case:
    values = np.concatenate([past, question.newest])
    scale = scale_of(values if baseline is None else np.concatenate([values, baseline]))
    sign = -1.0 if question.rules.better is Better.MORE else 1.0
    places = sign * scale.to(values)
    first = len(question.history)
    return Case(
        rules=question.rules,
        scale=scale,
        sign=sign,
        places=places,
        newest=len(question.newest),
        cuts=_cuts(places[: len(past)], scale, question.rules),
        indices=(*np.flatnonzero(np.isfinite(question.history)).tolist(), *range(first, first + len(question.newest))),
        baseline=None if baseline is None else sign * scale.to(baseline),
    )


def _cuts(past: Floats, scale: Scale, rules: Rules) -> tuple[Cut, ...]:
    if len(past) == 0:
        return ()
    least = scale.least_shift(np.median(past, keepdims=True), min(rules.min_effect, MIN_EFFECT))
    return tuple(cuts_of(past, least_shift=float(least[0])))


def newest_of(asked: Sequence[tuple[Case, int]]) -> Newest:
    """As many of the newest runs of each case as are asked about."""
    counts = np.array([count for _, count in asked])
    values = np.zeros((len(asked), int(counts.max())))
    for row, (case, count) in enumerate(asked):
        values[row, :count] = case.places[len(case.places) - count :]
    return Newest(values, np.arange(values.shape[1]) < counts[:, None])
