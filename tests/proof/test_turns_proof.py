"""Two sides in turns: what is slower is called, soon; what is equal is hardly ever called, whatever the noise.

Tables in docs/how-regressions-are-judged.md are printed by `make proof PYTEST_ARGS='-k turns -s'`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from proof.real_work import WORK
from proof.simulated_turns import KINDS, MOST, Ended, ended, fixed_rounds, normal, sides, two_values

from curator_bench.verdict.cases import MIN_EFFECT, Rules
from curator_bench.verdict.contrast import contrast
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.false_discovery import discoveries
from curator_bench.verdict.judgement import Word
from curator_bench.verdict.turns import ERROR, FIRST_LOOK, Standing, State, Turns, is_over, standings

FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
CASES = 50_000 if FULL else 4000
MOST_CALLED = 0.003 if FULL else 0.005
"""Fewer cases than in full show less surely what is rare: so much more is allowed for chance."""
WHOLE_CASES = 2000 if FULL else 100
"""Cases that are judged by the function that `ab` uses, metric by metric."""
SEED = 20_261_120
LESS = Rules(Better.LESS)


def in_turns(kind: str, change: float = 0.0, cases: int = CASES, limit: float = MIN_EFFECT) -> Ended:
    chance = np.random.default_rng([SEED, list(KINDS).index(kind)])
    return ended(*sides(KINDS[kind](chance, cases, 2 * MOST), change), change, limit)


def measured(first: Floats, other: Floats) -> tuple[int, Standing]:
    """Judge one metric after each round, as `ab` does, until it is over."""
    for rounds in range(1, MOST + 1):
        found = standings([Turns(first[:rounds], other[:rounds], LESS)])
        if is_over(found):
            return rounds, found[0]
    raise AssertionError(f"not over after {MOST} rounds")


@pytest.mark.parametrize("most", [15, 20, MOST])
def test_a_regression_is_seen_in_three_quarters_of_the_rounds_of_a_fixed_plan(most: int) -> None:
    """It is +5 % at 2 % of noise; both plans have the same chance of a false alarm, and are right as often."""
    first, other = sides(normal(np.random.default_rng(SEED), CASES, 2 * MOST), 0.05)
    found = ended(first, other, 0.05, most=most)
    mean, fixed = float(np.mean(found.rounds)), fixed_rounds(first, other, min(found.right, 1 - 4 / CASES))
    print(f"at most {most} rounds: right {found.right:.2%}, {mean:.2f} rounds, fixed {fixed}: {mean / fixed:.0%}")
    assert found.right >= 0.97
    assert mean <= 0.75 * fixed


@pytest.mark.parametrize(
    ("change", "spread", "right", "rounds"),
    [(0.05, 0.02, 0.99, 9.0), (0.1, 0.02, 0.999, 5.5), (0.05, 0.01, 0.999, 5.5), (0.1, 0.05, 0.98, 12.5)],
)
def test_the_rounds_follow_from_the_change_and_the_noise(
    change: float, spread: float, right: float, rounds: float
) -> None:
    found = ended(*sides(normal(np.random.default_rng(SEED), CASES, 2 * MOST, spread), change), change)
    print(row(f"{change:+.0%} at {spread:.1%}", found))
    assert found.right >= right
    assert np.mean(found.rounds) <= rounds


def row(name: str, found: Ended) -> str:
    words = "  ".join(f"{float(np.mean(found.word == word)):7.2%}" for word in (1, 0, -1, 2))
    return f"{name:22}  {words}  {np.mean(found.rounds):5.1f} rounds  {np.mean(found.is_missed):.1%} missed"


def test_what_is_slower_is_hardly_ever_no_change_and_never_faster() -> None:
    for spread in (0.005, 0.01, 0.02, 0.05):
        for change in (0.0, 0.03, 0.05, 0.1):
            found = ended(*sides(normal(np.random.default_rng(SEED), CASES, 2 * MOST, spread), change), change)
            print(row(f"{change:+.0%} at {spread:.1%}", found))
            assert np.mean(found.word == -1) <= MOST_CALLED
            assert np.mean(found.word == 0) <= 0.035 or change < MIN_EFFECT


@pytest.mark.parametrize("kind", KINDS)
def test_equal_sides_are_hardly_ever_called_whatever_the_noise(kind: str) -> None:
    found = in_turns(kind)
    print(row(kind, found))
    assert found.called <= MOST_CALLED
    assert np.mean(found.is_missed) <= 0.05 + 2 / np.sqrt(CASES)


def test_even_without_a_limit_equal_sides_are_hardly_ever_called() -> None:
    """A change below the limit is no regression, which hides false alarms where the noise is small."""
    rates = {kind: in_turns(kind, limit=1e-9).called for kind in ("normal, 2 %", "lognormal", "outliers", "drifting")}
    print(rates)
    assert max(rates.values()) <= (0.003 if FULL else 0.006)


def test_two_values_with_even_chances_are_called_less_than_once_in_a_hundred() -> None:
    """The known limit: five rounds of each side show one value each by chance in one of 500 cases."""
    found = ended(*sides(two_values(np.random.default_rng(SEED), CASES, 2 * MOST)))
    print(row("two values", found))
    assert found.called <= 0.01


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9])
def test_fifty_metrics_of_equal_sides_fail_a_comparison_no_more_often_than_one(shared: float) -> None:
    """`shared` is the part of their noise that all of them have in common. Any number of looks, and no limit."""
    comparisons, metrics = CASES // 20, 50
    chance = np.random.default_rng([SEED, 50])
    own = chance.standard_normal((comparisons, metrics, 2 * MOST))
    common = chance.standard_normal((comparisons, 1, 2 * MOST))
    noise = 0.02 * (np.sqrt(shared) * common + np.sqrt(1 - shared) * own)
    first, other = sides(noise.reshape(-1, 2 * MOST))
    is_called = np.zeros(comparisons, dtype=bool)
    for look in range(FIRST_LOOK, MOST + 1):
        p_values = contrast(first[:, :look], other[:, :look]).p_values.reshape(comparisons, metrics)
        is_called |= [bool(discoveries(one, rate=ERROR).any()) for one in p_values]
    print(f"{shared:.0%} shared: {is_called.mean():.2%} of {comparisons} comparisons")
    assert is_called.sum() <= 0.003 * comparisons + (0 if FULL else 3)


@pytest.mark.parametrize(("slower", "most"), [(1, 14.0), (50, 10.5)])
def test_fifty_metrics_cost_some_rounds_and_no_regression(slower: int, most: float) -> None:
    """So many of the fifty are +5 % at 2 % of noise; the rounds are those until one of these is called."""
    comparisons, metrics = CASES // 20, 50
    noise = normal(np.random.default_rng([SEED, 51]), comparisons * metrics, 2 * MOST)
    first, other = sides(noise)
    other.reshape(comparisons, metrics, MOST)[:, :slower] += np.log1p(0.05)
    rounds = np.full(comparisons, MOST + 1)
    for look in range(FIRST_LOOK, MOST + 1):
        found = contrast(first[:, :look], other[:, :look])
        is_large = (np.expm1(found.shift) >= MIN_EFFECT).reshape(comparisons, metrics)[:, 0]
        p_values = found.p_values.reshape(comparisons, metrics)
        is_called = is_large & [bool(discoveries(one, rate=ERROR)[0]) for one in p_values]
        rounds[is_called] = np.minimum(rounds[is_called], look)
    print(f"{slower} of 50 metrics slower: {rounds.mean():.1f} rounds, never {np.mean(rounds > MOST):.2%}")
    assert np.mean(rounds > MOST) <= 0.01
    assert rounds.mean() <= most


def test_the_words_of_whole_comparisons_are_those_that_were_simulated() -> None:
    """The simulations above follow the plan for many cases at once; here each is judged as `ab` judges it."""
    for change in (0.0, 0.05):
        noise = normal(np.random.default_rng([SEED, 2]), WHOLE_CASES, 2 * MOST)
        first, other = sides(noise, change)
        simulated = ended(first, other, change)
        words = {1: Word.REGRESSION, 0: Word.NO_CHANGE, -1: Word.IMPROVEMENT}
        got = [measured(np.exp(one), np.exp(two)) for one, two in zip(first, other, strict=True)]
        for (rounds, standing), end, word in zip(got, simulated.rounds, simulated.word, strict=True):
            if standing.state is State.DECIDED:
                assert (rounds, standing.judgement.word) == (end, words[word])
            else:
                assert standing.judgement.word is Word.INCONCLUSIVE
        said = [standing.judgement.word for _, standing in got]
        called = sum(one in (Word.REGRESSION, Word.IMPROVEMENT) for one in said) / WHOLE_CASES
        print(f"{change:+.0%}: {called:.2%} of {WHOLE_CASES} called, {np.mean([n for n, _ in got]):.2f} rounds")
        assert called >= 0.97 if change else called <= 0.005


UNITS = 100
"""Of work a repeat, which then takes some 10 to 30 ms."""
PLANTED = 0.08


def processor_time(name: str, units: int) -> float:
    command = [sys.executable, str(Path(__file__).with_name("real_work.py")), name, str(units)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def really(name: str, planted: float) -> tuple[int, Standing]:
    """Run both sides in turns, a process each time, until the plan says that it is over."""
    sizes = UNITS, round(UNITS * (1 + planted))
    values: tuple[list[float], list[float]] = [], []
    for rounds in range(1, MOST + 1):
        for side in (0, 1) if rounds % 2 else (1, 0):
            values[side].append(processor_time(name, sizes[side]))
        found = standings([Turns(np.array(values[0]), np.array(values[1]), LESS)])
        if is_over(found):
            return rounds, found[0]
    raise AssertionError(f"not over after {MOST} rounds")


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_real_work_that_takes_longer_is_called_and_equal_work_is_not(name: str) -> None:
    """The machine may be busy: then a judgement may be left open, but says that it could not see as much."""
    for planted, repeats in ((PLANTED, 5 if FULL else 1), (0.0, 10 if FULL else 1)):
        for _ in range(repeats):
            rounds, standing = really(name, planted)
            judgement, case = standing.judgement, f"{rounds} rounds: {standing}"
            print(f"{name} {planted:+.0%}: {judgement.says}, {judgement.reason}, noise {judgement.noise:.1%}")
            if planted:
                assert judgement.word is Word.REGRESSION or judgement.is_blind_to(planted), case
            assert planted or judgement.word not in (Word.REGRESSION, Word.IMPROVEMENT), case
