"""Two sides in turns: judged after each round, and measured no longer than it takes to know."""

from __future__ import annotations

import math

import numpy as np
import pytest

from curator_bench.verdict.cases import Rules
from curator_bench.verdict.contrast import contrast, modes_apart
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.judgement import Judgement, Unjudged, Word
from curator_bench.verdict.turns import (
    ENOUGH_TO_GIVE_UP,
    FIRST_LOOK,
    Standing,
    State,
    Turns,
    TurnsPlan,
    is_over,
    standings,
)

LESS = Rules(Better.LESS)


def noisy(seed: int, rounds: int = 30, spread: float = 0.02) -> tuple[Floats, Floats]:
    chance = np.random.default_rng(seed)
    return np.exp(spread * chance.standard_normal(rounds)), np.exp(spread * chance.standard_normal(rounds))


def of(first: Floats | list[float], other: Floats | list[float], rules: Rules = LESS, most: int = 30) -> Standing:
    (standing,) = standings([Turns(np.array(first), np.array(other), rules)], TurnsPlan(most))
    return standing


def until_over(first: Floats, other: Floats, rules: Rules = LESS) -> Standing:
    for rounds in range(1, len(first) + 1):
        standing = of(first[:rounds], other[:rounds], rules)
        if is_over([standing]):
            return standing
    raise AssertionError("not over")


def test_a_large_change_is_over_soon() -> None:
    first, other = noisy(1)
    standing = until_over(first, 1.2 * other)
    assert (standing.judgement.word, standing.state) == (Word.REGRESSION, State.DECIDED)
    assert standing.judgement.history == 5


def test_equal_sides_are_over_when_their_interval_is_within_the_limit() -> None:
    standing = until_over(*noisy(2))
    judgement = standing.judgement
    assert (judgement.word, standing.state) == (Word.NO_CHANGE, State.DECIDED)
    assert judgement.interval is not None
    assert max(map(abs, judgement.interval)) < 0.03


def test_sides_that_differ_by_the_limit_stay_open_until_few_rounds_are_left() -> None:
    first, other = noisy(3, spread=0.005)
    spread = np.log(other) - np.log(first)
    other = 1.029 * other / math.exp(float(spread.mean()))
    assert of(first[:12], other[:12]).state is State.OPEN
    assert of(first, other).state is State.HOPELESS


def test_wide_noise_is_given_up_before_all_rounds_are_used_but_not_at_once() -> None:
    first, other = noisy(4, spread=0.2)
    standing = until_over(first, other)
    assert standing.state is State.HOPELESS
    assert ENOUGH_TO_GIVE_UP <= standing.judgement.history < 15


def test_nothing_is_decided_before_both_sides_ran_first_twice() -> None:
    for rounds in range(FIRST_LOOK):
        assert of([7.0] * rounds, [7.0] * rounds).state is State.OPEN
    assert of([7.0] * FIRST_LOOK, [7.0] * FIRST_LOOK).state is State.DECIDED


def test_no_difference_is_certain_before_five_rounds() -> None:
    """A metric that takes either of two values by chance shows one on each side in one of 128 cases after four."""
    assert of([7.0] * 4, [9.0] * 4).judgement.word is Word.INCONCLUSIVE
    assert of([7.0] * 5, [9.0] * 5).judgement.word is Word.REGRESSION
    assert modes_apart(4) == pytest.approx(1 / 128)


def test_a_count_that_never_varies_is_exact() -> None:
    same, more = of([7.0] * 5, [7.0] * 5), of([1000.0] * 5, [1001.0] * 5, Rules(Better.LESS, 0.0005))
    assert same.judgement.interval == (0.0, 0.0)
    assert (same.judgement.word, same.state) == (Word.NO_CHANGE, State.DECIDED)
    assert (more.judgement.word, more.state) == (Word.REGRESSION, State.DECIDED)
    assert more.judgement.interval == pytest.approx((0.001, 0.001))


def test_of_more_is_better_less_is_a_regression() -> None:
    first, other = noisy(5)
    more = Rules(Better.MORE)
    assert until_over(first, 0.85 * other, more).judgement.word is Word.REGRESSION
    assert until_over(first, 1.15 * other, more).judgement.word is Word.IMPROVEMENT


def test_a_metric_without_a_direction_is_not_compared_and_keeps_nobody_waiting() -> None:
    first, other = noisy(6)
    standing = of(first[:4], 1.5 * other[:4], Rules(None))
    assert standing.judgement.unjudged is Unjudged.NOT_COMPARABLE
    assert standing.state is State.HOPELESS


def test_fewer_than_three_rounds_of_both_are_no_history() -> None:
    standing = of([1.0, 1.1], [2.0, 2.1])
    assert standing.judgement.unjudged is Unjudged.NO_HISTORY
    assert standing.state is State.OPEN


def test_a_metric_that_one_side_never_has_keeps_nobody_waiting() -> None:
    standing = of([math.nan] * 4, [2.0] * 4)
    assert standing.judgement.unjudged is Unjudged.NO_HISTORY
    assert standing.state is State.HOPELESS


def test_rounds_that_one_side_lacks_do_not_count() -> None:
    first, other = noisy(7, 8)
    gaps = of(np.append(first, [math.nan, 5.0, 5.0]), np.append(other, [9.0, math.inf]))
    assert gaps == of(first, other)


def test_a_side_that_is_a_run_ahead_waits_for_the_other() -> None:
    first, other = noisy(8, 8)
    assert of(first, other[:7]) == of(first[:7], other[:7])


@pytest.mark.parametrize(
    ("first", "other", "word"),
    [
        ([0.0] * 5, [0.0] * 5, Word.NO_CHANGE),
        ([0.0] * 5, [3.0] * 5, Word.REGRESSION),
        ([5.0] * 5, [0.0] * 5, Word.IMPROVEMENT),
        ([-2.0] * 5, [-3.0] * 5, Word.IMPROVEMENT),
        ([0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0], Word.INCONCLUSIVE),
    ],
)
def test_zeros_and_negative_values_are_compared(first: list[float], other: list[float], word: Word) -> None:
    judgement = of(first, other).judgement
    assert judgement.word is word
    assert judgement.noise is None or math.isfinite(judgement.noise)


def test_an_outlier_does_not_hide_a_change() -> None:
    first, other = noisy(9, 10)
    slower = 1.08 * other
    first[3] *= 1.5
    found = of(first, slower).judgement
    assert found.word is Word.REGRESSION
    assert found.change == pytest.approx(0.08, abs=0.02)


def test_a_drift_that_is_larger_than_the_change_does_not_hide_it() -> None:
    """By all runs against all it would take more rounds than there are."""
    first, other = noisy(10, 12)
    drift = 1 + 0.3 * np.arange(12) / 12
    assert until_over(drift * first, 1.08 * drift * other).judgement.word is Word.REGRESSION


def test_two_levels_that_a_side_takes_by_turns_are_no_outliers() -> None:
    """Left out as outliers, the fewer of each side would leave one level on each side, which looks certain."""
    first = np.array([1.0, 1.0, 1.0, 1.2, 1.0, 1.2, 1.0, 1.0])
    assert of(first, 1.2 / first).judgement.word is Word.INCONCLUSIVE


def test_of_many_metrics_one_must_be_more_certain_than_alone() -> None:
    first, other = noisy(11, 7)
    slower = Turns(first, 1.065 * other, LESS)
    (alone,) = standings([slower])
    among = standings([slower, *(Turns(*noisy(100 + n, 7), LESS) for n in range(49))])[0]
    assert alone.judgement.word is Word.REGRESSION
    assert (among.judgement.word, among.state) == (Word.INCONCLUSIVE, State.OPEN)
    assert "many metrics" in among.judgement.decides


def test_many_metrics_that_are_all_slower_are_as_certain_as_one() -> None:
    turns = [Turns(first, 1.2 * other, LESS) for first, other in (noisy(seed, 5) for seed in range(50))]
    assert {one.judgement.word for one in standings(turns)} == {Word.REGRESSION}


def test_what_would_decide_is_some_number_of_rounds_that_does() -> None:
    first, other = noisy(12)
    early = of(first[:6], 1.05 * other[:6]).judgement
    assert early.word is Word.INCONCLUSIVE
    rounds = int(early.decides.split()[0])
    assert early.decides == f"{rounds} rounds like these would be certain"
    assert of(np.resize(first[:6], rounds), np.resize(1.05 * other[:6], rounds)).judgement.word is Word.REGRESSION


def test_the_smallest_change_it_could_have_seen_is_seen_four_times_in_five() -> None:
    chance = np.random.default_rng(13)

    def judged(slower: float) -> Judgement:
        values = np.exp(0.02 * chance.standard_normal((2, 10)))
        return of(values[0], (1 + slower) * values[1]).judgement

    visible = float(np.median([judged(0.0).visible or math.nan for _ in range(50)]))
    seen = [judged(visible).word is Word.REGRESSION for _ in range(200)]
    assert 0.7 <= np.mean(seen) <= 0.9


def test_the_last_round_leaves_nothing_open() -> None:
    first, other = noisy(14, 6, 0.05)
    assert of(first, other, most=6).state is State.HOPELESS
    assert of(first[:5], other[:5], most=6).state is State.OPEN


def test_many_rows_are_measured_as_each_alone() -> None:
    table = np.random.default_rng(15).standard_normal((20, 9)) / 50
    table[3, 2] += 1.0
    together = contrast(table[:10], table[10:])
    for row in range(10):
        alone = contrast(table[[row]], table[[10 + row]])
        assert (together.shift[row], together.p_values[row]) == (alone.shift[0], alone.p_values[0])
        assert together.reach(0.05)[row] == alone.reach(0.05)[0]
