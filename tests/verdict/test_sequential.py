"""Sequential tests stay honest: who looks again and again is not wrong more often than the budget says."""

from __future__ import annotations

import numpy as np
import pytest

from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.judgement import Word
from curator_bench.verdict.sequential import (
    ERROR_BUDGET,
    SequentialPlan,
    Side,
    difference_of,
    side_of,
    steps_between,
)

PLAN = SequentialPlan(Better.LESS, 0.03, steps_between(32))


def runs(chance: np.random.Generator, level: float, count: int, spread: float = 0.02) -> Floats:
    return level * np.exp(spread * chance.standard_normal(count))


def said_of_ends(chance: np.random.Generator, slower: float) -> Word:
    good, bad = runs(chance, 1.0, PLAN.most), runs(chance, 1.0 + slower, PLAN.most)
    for look in PLAN.end_looks():
        said, _ = difference_of(good[:look], bad[:look], PLAN)
        if said is not Word.INCONCLUSIVE:
            return said
    return Word.INCONCLUSIVE


def side(chance: np.random.Generator, level: float) -> Side:
    good, bad, tried = (runs(chance, where, PLAN.most) for where in (1.0, 1.08, level))
    for look in PLAN.looks():
        said = side_of(tried[:look], good[:20], bad[:20], PLAN, is_last=look == PLAN.most)
        if said is not Side.UNSURE:
            return said
    return Side.UNSURE


def test_the_shares_of_all_looks_are_no_more_than_the_budget() -> None:
    steps = PLAN.steps * len(PLAN.looks()) * PLAN.step_chance
    assert len(PLAN.end_looks()) * PLAN.end_chance + steps <= ERROR_BUDGET * 1.000001


def test_looks_double_up_to_the_most() -> None:
    assert PLAN.looks() == [5, 10, 20, 30]
    assert SequentialPlan(Better.LESS, 0.03, 5, first=10, most=10).looks() == [10]
    assert SequentialPlan(Better.LESS, 0.03, 5, first=10, most=10).end_looks() == [10]


def test_ends_that_are_alike_are_hardly_ever_said_to_differ() -> None:
    chance = np.random.default_rng(1)
    said = [said_of_ends(chance, 0.0) for _ in range(100)]
    assert Word.REGRESSION not in said
    assert said.count(Word.NO_CHANGE) >= 80


def test_ends_that_differ_are_seen_to() -> None:
    chance = np.random.default_rng(2)
    assert [said_of_ends(chance, 0.08) for _ in range(20)] == [Word.REGRESSION] * 20
    assert said_of_ends(chance, -0.08) is Word.IMPROVEMENT


def test_of_throughput_less_is_worse() -> None:
    chance = np.random.default_rng(3)
    plan = SequentialPlan(Better.MORE, 0.03, 5)
    good, bad = runs(chance, 1.0, 20), runs(chance, 0.9, 20)
    assert difference_of(good, bad, plan)[0] is Word.REGRESSION
    assert side_of(runs(chance, 0.9, 20), good, bad, plan) is Side.BAD


@pytest.mark.parametrize(("level", "expected"), [(1.0, Side.GOOD), (1.08, Side.BAD)])
def test_a_commit_is_never_taken_for_the_other_end(level: float, expected: Side) -> None:
    chance = np.random.default_rng(4)
    said = [side(chance, level) for _ in range(60)]
    assert set(said) <= {expected, Side.UNSURE}
    assert said.count(expected) >= 55


def test_between_two_changes_a_commit_is_bad_so_that_the_first_change_is_found() -> None:
    chance = np.random.default_rng(5)
    good, bad, between = (runs(chance, level, 30, 0.01) for level in (1.0, 1.2, 1.095))
    assert side_of(between, good, bad, PLAN) is Side.UNSURE
    assert side_of(between, good, bad, PLAN, is_last=True) is Side.BAD


def test_more_runs_than_fit_a_level_are_fine() -> None:
    chance = np.random.default_rng(6)
    good, bad, tried = (runs(chance, level, 300) for level in (1.0, 1.08, 1.0))
    assert difference_of(good, bad, PLAN)[0] is Word.REGRESSION
    assert side_of(tried, good, bad, PLAN) is Side.GOOD
