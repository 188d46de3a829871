"""Sequential tests of runs as they come: whether two commits differ, and which of the two a third is like.

Every look at the runs may be wrong. So all looks at all commits of a bisection share one error budget, and each look
may be wrong only with the chance of its share. A commit that is undecided after the last look stays undecided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.intervals import Change, change_between
from curator_bench.verdict.judgement import Word, word_by
from curator_bench.verdict.noise import BLOCK
from curator_bench.verdict.scale import scale_of

ERROR_BUDGET = 0.01
"""The chance that noise makes any decision of a bisection wrong."""


class Side(StrEnum):
    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class SequentialPlan:
    """The rules for all commits: the smallest difference that counts, and the looks at the runs of a commit."""

    better: Better
    min_effect: float
    steps: int
    """The number of commits to decide."""
    first: int = 5
    most: int = 30

    def looks(self) -> list[int]:
        """The numbers of runs of a commit at which they are judged; each is twice the one before."""
        counts = [self.first]
        while counts[-1] < self.most:
            counts.append(min(2 * counts[-1], self.most))
        return counts

    def end_looks(self) -> list[int]:
        """The same for the two ends. They begin with more runs, because all others are compared with them."""
        later = self.looks()[1:]
        return later or self.looks()

    @property
    def end_chance(self) -> float:
        """The chance that a look at the ends is wrong. The ends have half of the budget."""
        return ERROR_BUDGET / 2 / len(self.end_looks())

    @property
    def step_chance(self) -> float:
        return ERROR_BUDGET / 2 / max(self.steps, 1) / len(self.looks())


def difference_of(good: Floats, bad: Floats, plan: SequentialPlan) -> tuple[Word, Change]:
    """Return the change from the good end to the bad one, and its word."""
    change = change_between(good[-BLOCK:], bad[-BLOCK:], confidence=1 - 2 * plan.end_chance)
    is_certain = change.p_value / 2 <= plan.end_chance
    return word_by(change.change, plan.min_effect, is_worse=_worse(change, plan) > 0, is_certain=is_certain), change


def is_settled(word: Word, change: Change, plan: SequentialPlan) -> bool:
    """True if more runs would hardly say otherwise: the change is certain, or all of its interval within the limit."""
    is_within = max(map(abs, change.interval)) < plan.min_effect
    return is_within if word is Word.NO_CHANGE else word is not Word.INCONCLUSIVE


def side_of(runs: Floats, good: Floats, bad: Floats, plan: SequentialPlan, *, is_last: bool = False) -> Side:
    """Return the end that these runs are like.

    They are compared with the middle between the ends. If they are still in the middle at the last look, several
    changes lie between the ends. Then a commit that is certainly worse than the good end is bad, so that the first of
    these changes is found.
    """
    side = _beyond(_middle(good, bad), runs, plan)
    if side is not Side.UNSURE or not is_last:
        return side
    if _beyond(good, runs, plan) is Side.BAD:
        return Side.BAD
    return Side.GOOD if _beyond(bad, runs, plan) is Side.GOOD else Side.UNSURE


def _beyond(reference: Floats, runs: Floats, plan: SequentialPlan) -> Side:
    """Return bad if certainly worse than the reference, good if certainly better."""
    change = change_between(reference[-BLOCK:], runs[-BLOCK:])
    if change.p_value / 2 > plan.step_chance:
        return Side.UNSURE
    return Side.BAD if _worse(change, plan) > 0 else Side.GOOD


def _middle(good: Floats, bad: Floats) -> Floats:
    """Return the runs of both ends, moved to the middle between their levels."""
    good, bad = good[-BLOCK // 2 :], bad[-BLOCK // 2 :]
    scale = scale_of(np.concatenate([good, bad]))
    change = change_between(good, bad)
    before, after = scale.to(np.array([change.before, change.after]))
    half = (after - before) / 2
    places = np.concatenate([scale.to(good) + half, scale.to(bad) - half])
    return np.array([scale.back(float(place)) for place in places])


def _worse(change: Change, plan: SequentialPlan) -> float:
    return -change.change if plan.better is Better.MORE else change.change


def steps_between(commits: int) -> int:
    """Return the number of commits that bisecting has to try, plus one for commits that cannot be judged."""
    return math.ceil(math.log2(max(commits, 2))) + 1
