"""Two sets of runs against each other: the same words, and the same answer whatever was measured later."""

from __future__ import annotations

import numpy as np
import pytest

from curator_bench.verdict.cases import Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.judgement import Judgement, Unjudged, Word
from curator_bench.verdict.judging import Pair, compare
from curator_bench.verdict.rounds import Rounds, compare_rounds
from curator_bench.verdict.scale import as_floats

LESS, MORE = Rules(Better.LESS), Rules(Better.MORE)


def level(points: int, noise: float = 0.01, seed: int = 0) -> Floats:
    return 1 + noise * np.random.default_rng(seed).standard_normal(points)


def compared(before: Floats, after: Floats, history: Floats, rules: Rules = LESS) -> Judgement:
    return compare([Pair(as_floats(before), as_floats(after), as_floats(history), rules)])[0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("slow", range(1, 10))
def test_slow_runs_that_follow_are_no_noise(slow: int, seed: int) -> None:
    """Twenty runs, then slow ones: the last before and the first since are compared, with all others beside them."""
    runs = level(20 + slow, seed=seed) * np.repeat([1, 2], [20, slow])
    for beside in (runs[:20], np.delete(runs, 20)):
        judgement = compared(runs[19:20], runs[20:21], beside)
        if slow == 1 or beside is not runs[:20]:
            assert judgement.interval is not None
            assert judgement.interval[0] > 0.8
        assert judgement.word in (Word.REGRESSION, Word.INCONCLUSIVE)
    assert compared(runs[19:20], runs[20:21], runs[:20]).word is Word.REGRESSION


def test_alike_is_no_change_and_much_slower_is_a_regression() -> None:
    history = level(40)
    assert compared(history[-5:], level(5, seed=4), history).word is Word.NO_CHANGE
    assert compared(history[-5:], 1.1 * level(5, seed=4), history).word is Word.REGRESSION
    assert compared(history[-5:], 0.9 * level(5, seed=4), history).word is Word.IMPROVEMENT
    assert compared(history[-5:], 0.9 * level(5, seed=4), history, MORE).word is Word.REGRESSION


def test_without_a_history_the_two_tell_themselves_how_they_scatter() -> None:
    assert compared(level(6), 1.5 * level(6, seed=2), np.array([])).word is Word.REGRESSION
    assert compared(level(6), level(6, seed=2), np.array([])).word is Word.NO_CHANGE
    assert compared(level(1), level(1, seed=2), np.array([])).unjudged is Unjudged.NO_HISTORY


def test_of_many_that_are_alike_hardly_one_is_called() -> None:
    pairs = [Pair(level(5, seed=2 * n), level(5, seed=2 * n + 1), level(30, seed=5000 + n), LESS) for n in range(500)]
    assert sum(one.word in (Word.REGRESSION, Word.IMPROVEMENT) for one in compare(pairs)) <= 1


def rounds(chance: np.random.Generator, at: float, count: int) -> Floats:
    drift = 1 + 0.2 * np.arange(count) / count
    noisy: Floats = at * drift * np.exp(0.02 * chance.standard_normal(count))
    return noisy


def in_turns(slower: float, count: int) -> list[Judgement]:
    chance = np.random.default_rng(count)
    pairs = [(rounds(chance, 1.0, count), rounds(chance, 1 + slower, count)) for _ in range(200)]
    return [compare_rounds([Rounds(*pair, LESS)])[0] for pair in pairs]


@pytest.mark.parametrize("count", [5, 8, 20])
def test_the_interval_of_rounds_holds_the_true_change_as_often_as_it_says(count: int) -> None:
    found = [one.interval for one in in_turns(0.08, count)]
    assert np.mean([low <= 0.08 <= high for low, high in filter(None, found)]) >= 0.91


@pytest.mark.parametrize("count", [5, 8, 20])
def test_what_is_alike_is_found_to_differ_no_more_often_than_it_says(count: int) -> None:
    assert np.mean([one.p_value < 0.05 for one in in_turns(0.0, count)]) <= 0.085


def test_a_change_is_found_through_a_drift_that_is_larger() -> None:
    assert np.mean([one.word is Word.REGRESSION for one in in_turns(0.08, 8)]) >= 0.95


def test_of_two_rounds_nothing_is_said() -> None:
    (judgement,) = compare_rounds([Rounds(np.array([1.0, 1.1]), np.array([2.0, 2.1]), LESS)])
    assert judgement.unjudged is Unjudged.NO_HISTORY


def test_rounds_that_never_change_are_no_change() -> None:
    (judgement,) = compare_rounds([Rounds(np.full(5, 7.0), np.full(5, 7.0), LESS)])
    assert (judgement.change, judgement.word) == (0.0, Word.NO_CHANGE)


@pytest.mark.parametrize("at", [1.0, -0.1], ids=["on a logarithm", "without one"])
def test_the_change_is_that_of_the_values_shown(at: float) -> None:
    """However rounds scatter: medians of the two and a mean change might even have opposite signs."""
    sides = at + np.array([0.1, 0.1, 5.0]), at + np.array([0.2, 0.2, 0.3])
    (one,) = compare_rounds([Rounds(*sides, LESS)])
    assert one.before is not None
    assert one.after is not None
    assert one.change == pytest.approx((one.after - one.before) / abs(one.before))
