"""Two sets of runs against each other: the same words, and the same answer whatever was measured later."""

from __future__ import annotations

import numpy as np
import pytest

from curator_bench.verdict.cases import Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.judgement import Judgement, Unjudged, Word
from curator_bench.verdict.judging import Pair, compare
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
