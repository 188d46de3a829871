"""Simulated comparisons of two sides in turns: kinds of noise, and the plan of `verdict.turns` for many cases at once.

A kind of noise makes a table with a case per row and the runs of the machine, in the order A B B A A B B A …, as
columns. Values are logarithms, so that noise of 0.02 is 2 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from generated_series import FAMILIES, SPREADS

from curator_bench.verdict.cases import MIN_EFFECT
from curator_bench.verdict.contrast import contrast
from curator_bench.verdict.distributions import Bools, Floats, Ints, t_score
from curator_bench.verdict.turns import ERROR, FIRST_LOOK, MISSED, TurnsPlan

MOST = TurnsPlan().most
Random = np.random.Generator


def normal(chance: Random, cases: int, runs: int, spread: float = 0.02) -> Floats:
    return spread * chance.standard_normal((cases, runs))


def of_family(name: str) -> Callable[[Random, int, int], Floats]:
    """Return noise as in the histories of docs/how-regressions-are-judged.md, by 1 to 10 %."""

    def made(chance: Random, cases: int, runs: int) -> Floats:
        spreads = np.exp(chance.uniform(math.log(SPREADS[0]), math.log(SPREADS[1]), cases))
        return np.log([np.maximum(FAMILIES[name](chance, runs, spread), 0.05) for spread in spreads])

    return made


def strongly_correlated(chance: Random, cases: int, runs: int) -> Floats:
    """Each run takes over 90 % of how far the one before was off."""
    off = chance.standard_normal((cases, runs))
    for run in range(1, runs):
        off[:, run] = 0.9 * off[:, run - 1] + math.sqrt(1 - 0.9**2) * off[:, run]
    return 0.03 * off


def two_percent_an_hour(chance: Random, cases: int, runs: int) -> Floats:
    """The machine gets slower all the time, and a run takes a minute."""
    return normal(chance, cases, runs) + 0.02 / 60 * np.arange(runs)


def twenty_percent_in_all(chance: Random, cases: int, runs: int) -> Floats:
    return normal(chance, cases, runs) + 0.2 / runs * np.arange(runs)


def wandering(chance: Random, cases: int, runs: int) -> Floats:
    return normal(chance, cases, runs, 0.01) + np.cumsum(normal(chance, cases, runs, 0.01), axis=1)


def throttled(chance: Random, cases: int, runs: int) -> Floats:
    """The machine is 10 % slower for stretches of some ten runs."""
    is_slow = np.cumsum(chance.random((cases, runs)) < 0.1, axis=1) % 2
    return normal(chance, cases, runs) + 0.1 * is_slow


def many_outliers(chance: Random, cases: int, runs: int) -> Floats:
    """Every tenth run takes 10 to 100 % longer."""
    is_slow = chance.random((cases, runs)) < 0.1
    return normal(chance, cases, runs) + np.where(is_slow, np.log(chance.uniform(1.1, 2.0, (cases, runs))), 0.0)


def first_run_slow(chance: Random, cases: int, runs: int) -> Floats:
    """Caches are cold: the first run of all takes 35 % longer, and the next ones still a little."""
    return normal(chance, cases, runs) + 0.3 * np.exp(-np.arange(runs))


def two_values(chance: Random, cases: int, runs: int) -> Floats:
    """Each run takes one of two values, 10 % apart, with even chances: the hardest noise there is for few runs."""
    return 0.1 * (chance.random((cases, runs)) < 0.5) + normal(chance, cases, runs, 0.001)


KINDS: dict[str, Callable[[Random, int, int], Floats]] = {
    "normal, 2 %": normal,
    **{name: of_family(name) for name in FAMILIES},
    "strongly correlated": strongly_correlated,
    "2 % slower an hour": two_percent_an_hour,
    "20 % slower in all": twenty_percent_in_all,
    "wandering": wandering,
    "throttled": throttled,
    "many outliers": many_outliers,
    "first run slow": first_run_slow,
}


@dataclass(frozen=True, slots=True)
class Ended:
    """How comparisons of one metric ended, one each case."""

    rounds: Ints
    word: Ints
    """1 for a regression, -1 for an improvement, 0 for no change, 2 for undecided after the last round."""
    is_missed: Bools
    """True if the interval misses the true change."""

    @property
    def called(self) -> float:
        """The share called a regression or an improvement."""
        return float(np.mean(np.abs(self.word) == 1))

    @property
    def right(self) -> float:
        return float(np.mean(self.word == 1))


def sides(noise: Floats, change: float = 0.0) -> tuple[Floats, Floats]:
    """Return the runs of A and of B, which is slower by the change."""
    turns = np.resize([0, 1, 1, 0], noise.shape[1] // 2 * 2)
    return noise[:, turns == 0], noise[:, turns == 1] + math.log1p(change)


def ended(first: Floats, other: Floats, truth: float = 0.0, limit: float = MIN_EFFECT, most: int = MOST) -> Ended:
    """Follow the plan, except that no case is hopeless: a look after each round, until each case is decided."""
    cases = len(first)
    rounds, word, is_missed = np.full(cases, most), np.full(cases, 2), np.zeros(cases, dtype=bool)
    left = np.arange(cases)
    for look in range(FIRST_LOOK, most + 1):
        found = contrast(first[left, :look], other[left, :look])
        change, reach = np.expm1(found.shift), found.reach(MISSED)
        farthest = np.maximum(np.abs(np.expm1(found.shift - reach)), np.abs(np.expm1(found.shift + reach)))
        is_certain = (found.p_values <= ERROR) & (np.abs(change) >= limit)
        is_over = is_certain | (farthest < limit)
        over = left[is_over]
        rounds[over], word[over] = look, np.where(is_certain, np.sign(change), 0)[is_over]
        is_missed[left] = np.abs(found.shift - math.log1p(truth)) > reach
        left = left[~is_over]
    return Ended(rounds, word, is_missed)


def right_after(first: Floats, other: Floats, rounds: int, limit: float = MIN_EFFECT) -> float:
    """Return the share of regressions by a fixed number of rounds: Student's t, once, with the same error."""
    before, after = first[:, :rounds], other[:, :rounds]
    shift = after.mean(axis=1) - before.mean(axis=1)
    error = np.sqrt((before.var(axis=1, ddof=1) + after.var(axis=1, ddof=1)) / rounds)
    p_values = 2 * np.exp(-t_score(np.abs(shift) / error, np.full(len(shift), 2.0 * rounds - 2)))
    return float(np.mean((p_values <= ERROR) & (np.expm1(shift) >= limit)))


def fixed_rounds(first: Floats, other: Floats, right: float, limit: float = MIN_EFFECT) -> int:
    """Return the rounds that a fixed plan needs to be right as often."""
    for rounds in range(FIRST_LOOK, first.shape[1] + 1):
        if right_after(first, other, rounds, limit) >= right:
            return rounds
    raise ValueError(f"{first.shape[1]} rounds are too few for a fixed plan that is right in {right:.2%}")
