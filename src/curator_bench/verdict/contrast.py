"""Measure how two sides differ that ran in turns, in two ways: all runs against all, and round against round.

Both ways find the same change, and differ in its error. All against all is surer of a change on a steady machine. Round
against round is surer where the machine drifts. The chance of an error is shared between them, so that the surer may be
believed.

All looks share it, too: one after each round, for as many rounds as there are. The look after n rounds has 1 / n of it.
Later looks see mostly what earlier ones saw, so these parts may add up to more than one: of a chance of 0.25 %, equal
sides with normal noise use 0.2 % in 30 looks (tests/proof/test_turns_proof.py measures it).

Every function handles many metrics at once: a row of a table has the rounds of one metric, as places on its scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from curator_bench.verdict.distributions import Bools, Floats, Ints, t_score, t_value
from curator_bench.verdict.noise import LEAST_NOISE, OUTLIER, median

_AS_NORMAL = 1.4826
"""Turns a median distance into the standard deviation of normal noise."""
_FEW = 1.2
"""The median distance of n runs from their own median is too small by this much over n."""
_ALL, _BY_ROUND = 0.8, 0.2
"""The part of the chance of an error that each of the two ways has."""
_LEAST_PAIRS = 3
_CHANCE_OF_MODES = 5e-4
"""Runs far from the others are left out only if a metric with two levels would hardly look as if they were outliers."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to measure the error of each row's change, and how much of the chance of an error it has."""

    error: Floats
    freedom: Floats
    part: float
    per_round: int
    """Degrees of freedom that each further round adds."""

    def reach(self, chance: float) -> Floats:
        return t_value(chance * self.part / 2, self.freedom) * self.error

    def after(self, rounds: int, more: int) -> Way:
        """Return what is to be expected after some more rounds like these."""
        error = self.error * math.sqrt(rounds / (rounds + more))
        return replace(self, error=error, freedom=self.freedom + more * self.per_round)


@dataclass(frozen=True, slots=True)
class Contrast:
    """The difference of each row's second side from its first, without outliers."""

    rounds: int
    level: Floats
    """The level of the first side."""
    shift: Floats
    spread: Floats
    """Standard deviation of one run."""
    outliers: Ints
    is_constant: Bools
    """True if neither side ever varied."""
    ways: tuple[Way, ...]

    @property
    def p_values(self) -> Floats:
        """The chance that noise makes two sides differ as much after any round, in either direction.

        Never less than that of a metric with two levels, which it takes by chance, to show one on each side.
        """
        modes = np.array([modes_apart(self.rounds, int(count)) for count in self.outliers])
        scores = [t_score(np.abs(self.shift) / way.error, way.freedom) + math.log(way.part) for way in self.ways]
        by_noise = 2 * np.exp(-np.maximum(*scores)) * self.rounds
        found = np.where(self.is_constant, np.where(self.shift == 0, 1.0, 0.0), by_noise)
        return np.clip(found, modes, 1.0)

    @property
    def error(self) -> Floats:
        """Standard error of the change, by the surer way."""
        return np.minimum(*(way.error for way in self.ways))

    def reach(self, chance: float) -> Floats:
        """Return how far the true change may be from what is measured after any round, except with this chance."""
        reaches = [way.reach(chance / self.rounds) for way in self.ways]
        return np.where(self.is_constant, 0.0, np.minimum(*reaches))

    def after(self, rounds: int) -> Contrast:
        """Return what is to be expected after so many rounds, if further ones are like those so far."""
        ways = tuple(way.after(self.rounds, rounds - self.rounds) for way in self.ways)
        return replace(self, rounds=rounds, ways=ways)


def contrast(first: Floats, other: Floats) -> Contrast:
    """Measure the change of each row. The tables are of the same rounds, two or more, and know all values."""
    rounds = first.shape[1]
    is_constant: Bools = (np.ptp(first, axis=1) == 0) & (np.ptp(other, axis=1) == 0)
    sides, is_out = _without_outliers(first, other)
    levels = [side.mean(axis=1) for side in sides]
    counts = [rounds - out.sum(axis=1) for out in is_out]
    squares = sum(np.sum((side - level[:, None]) ** 2, axis=1) for side, level in zip(sides, levels, strict=True))
    freedom = (counts[0] + counts[1] - 2).astype(np.float64)
    variance = np.maximum(squares / freedom, LEAST_NOISE**2)
    return Contrast(
        rounds=rounds,
        level=levels[0],
        shift=levels[1] - levels[0],
        spread=np.sqrt(variance),
        outliers=2 * rounds - counts[0] - counts[1],
        is_constant=is_constant,
        ways=(
            Way(np.sqrt(variance * (1 / counts[0] + 1 / counts[1])), freedom, _ALL, 2),
            _by_round(sides[1] - sides[0], ~(is_out[0] | is_out[1])),
        ),
    )


def _by_round(differences: Floats, is_known: Bools) -> Way:
    """Return the error by the differences of the rounds. Those with an outlier do not add to what is known."""
    pairs = is_known.sum(axis=1)
    freedom = np.maximum(pairs - 1, 1).astype(np.float64)
    squares = np.sum((differences - differences.mean(axis=1)[:, None]) ** 2, axis=1)
    error = np.sqrt(np.maximum(squares / freedom, 2 * LEAST_NOISE**2) / np.maximum(pairs, 1))
    return Way(np.where(pairs >= _LEAST_PAIRS, error, np.inf), freedom, _BY_ROUND, 1)


def _without_outliers(first: Floats, other: Floats) -> tuple[list[Floats], list[Bools]]:
    """Move outliers to where they end, and say which values they are.

    Their number is not counted as known, as for Tukey and McLaughlin's trimmed t. That keeps its chances right from
    five rounds on. If there are too many they are no outliers but another level, and stay as they are.
    """
    rounds = first.shape[1]
    middles = [median(side)[:, None] for side in (first, other)]
    distances = np.concatenate([first - middles[0], other - middles[1]], axis=1)
    noise = _AS_NORMAL * (1 + _FEW / rounds) * median(np.abs(distances))
    limit = OUTLIER * np.maximum(noise, LEAST_NOISE)[:, None]
    is_out: Bools = np.abs(distances) > limit
    is_out &= (is_out.sum(axis=1) <= _most_outliers(rounds))[:, None]
    moved = np.where(is_out, np.clip(distances, -limit, limit), distances)
    sides = [moved[:, :rounds] + middles[0], moved[:, rounds:] + middles[1]]
    return sides, [is_out[:, :rounds], is_out[:, rounds:]]


@cache
def _most_outliers(rounds: int) -> int:
    """Return how many outliers may be left out of so many rounds."""
    return sum(1 for _ in _outliers_allowed(rounds))


def _outliers_allowed(rounds: int) -> Iterator[int]:
    count = 1
    while modes_apart(rounds, count) <= _CHANCE_OF_MODES:
        yield count
        count += 1


@cache
def modes_apart(rounds: int, exceptions: int = 0) -> float:
    """Return the chance that a metric that takes either of two values by chance shows one on each side.

    Up to so many runs are exceptions.
    """
    ways = sum(math.comb(2 * rounds, count) for count in range(exceptions + 1))
    return min(1.0, ways * 0.5 ** (2 * rounds - 1))
