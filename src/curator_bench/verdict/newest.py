"""Decide whether the newest runs are on a new level, or noise explains them. Many rows at once.

The newest runs are compared with the runs of the level before. Noise can explain them in two ways. One is chance: the
ordinary scatter, including the correlation of a run with the one before. The other is outliers, as frequent and as far
away as in the history. The best explanation counts, also a mixture of a few outliers and chance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from curator_bench.verdict.cases import CONFIDENCE, MIN_EFFECT
from curator_bench.verdict.distributions import Bools, Floats, Ints, t_score, t_value, variance_of_mean
from curator_bench.verdict.levels import NEAR
from curator_bench.verdict.noise import (
    BLOCK,
    OUTLIER,
    Effects,
    Noise,
    known,
    mean,
    median,
    noise_of,
    share_in_order,
    trimmed,
)

CERTAIN = 8.0
"""Least score of a new level: one in 3,000."""
CERTAIN_OF_FEW = 6.2
"""The same for a history of fewer than `FEW` runs, for which Student's t is strict already."""
FEW = 14
TAIL = (1 - CONFIDENCE) / 2
_NO_OUTLIERS = 6.25
"""Least score against the explanation that all newest runs are outliers: one in 500. Most histories have none."""
_CLEAR_OF_FEW, _CLEAR = 0.93, 0.82
"""Share of pairs (a newest run, one of the ten before) that must be in order: for up to three newest runs; for more."""
_SUDDEN = 0.6
"""The share of the shift that must lie between the newest runs and the ten before; the rest is drift."""
_LEAST = {3: 0.06, 5: 0.045}
_LEAST_OF_MORE = 0.031
"""A change must be 6 % in up to three runs and 4.5 % in up to five, because smaller changes often go away.

This is for the usual smallest effect, 3 %. For a smaller one, it is less in proportion.
"""
# A history without outliers may have them yet: so many are added to those it had, and to all its runs so many.
_OUTLIERS_TO_EXPECT, _RUNS_TO_EXPECT = 0.3, 10.0
_MOST_OUTLIERS = 0.5
_ELSEWHERE = 0.1
"""Weight of an outlier at another distance than the newest runs: the next outlier may be anywhere."""
_ALIKE = 0.7
"""An outlier of at least this share of the distance counts as one at the same distance."""
_MANY_TIMES = 8.0
_ALONE = 0.4
"""A run is no outlier if it is 40 % higher, and this many times as far away as any run of the history."""
_MANY_OUTLIERS = 3
"""After so many outliers as far away, two newest runs must also be near each other: two outliers rarely are."""
_FEW_OUTLIERS = 6
_WAYS = np.array([[math.comb(runs, some) for some in range(_FEW_OUTLIERS + 1)] for runs in range(BLOCK + 1)])
_FARTHER, _LONGEST_EXCURSION = 2.5, 12
_CLEAR_OF_RESTLESS = 0.95
_LEAST_OF_RESTLESS = {5: 0.065}
"""A history with earlier levels changes often, and often back.

Its newest runs must be 2.5 times as far away as any stretch of as many runs that went back, and clear of all of the ten
before. Few runs must show a larger change.
"""
_FEWEST_OF_LEVEL = 3
"""Among fewer newest runs, none counts as an outlier."""
_STRAY, _STRAY_COSTS = 0.1, 3.0
"""A newest run that is lower than the others by this share of the shift counts against a new level."""


class Weighed(NamedTuple):
    """The result of the newest runs of each row."""

    holds: Bools
    """True if they are on a new level: certain, clear, sudden and large enough."""
    history: Ints
    """The number of runs from which the noise is estimated."""
    level: Floats
    """The level before."""
    shift: Floats
    reach: Floats
    """Half of the 95 % confidence interval around `shift`."""
    noise: Floats
    chance: Floats
    """Score of the chance that ordinary scatter moves the newest runs as far, in this direction."""
    score: Floats
    """The same, with outliers as a further explanation."""

    def of(self, rows: Ints) -> Weighed:
        return Weighed._make(column[rows] for column in self)

    @property
    def sign(self) -> Floats:
        """-1 if the newest runs are below the level before, else 1."""
        return np.where(self.shift < 0, -1.0, 1.0)


def weigh(level_runs: Floats, newest: Floats, effects: Effects, earlier: Floats, restless: Bools) -> Weighed:
    """Compare the newest runs of each row with the runs of the level before; rows are filled up with NaN.

    `earlier` are the distances of older runs from their own levels, which also count for the noise. `restless` are the
    histories that had other levels before.
    """
    level, _, kept = trimmed(level_runs)
    scatter = np.concatenate([earlier, level_runs - level[:, None]], axis=1)
    noise = noise_of(scatter)
    count, of_level = known(newest), np.maximum(known(np.where(kept, level_runs, np.nan)), 1)
    shift = median(newest) - level
    sign = np.where(shift < 0, -1.0, 1.0)
    distances = _farthest_first(sign[:, None] * (newest - level[:, None]), sign * shift, noise.spread)
    error_of_level = variance_of_mean(of_level, noise.correlation)
    error = np.sqrt(noise.variance * (variance_of_mean(known(distances), noise.correlation) + error_of_level))
    clipped = np.minimum(distances, (sign * shift + 2 * noise.spread)[:, None])
    usual = mean(clipped)
    chance = t_score(usual / error, noise.freedom)
    alone = Effects(np.full(len(count), _ALONE), effects.is_log).least(level)
    outliers = _as_outliers(noise, error_of_level, sign[:, None] * scatter, distances, clipped, alone)
    reach = np.maximum(OUTLIER * noise.spread, _STRAY * sign * shift)
    stray = np.sum(distances < (sign * shift - reach)[:, None], axis=1)
    score = np.minimum(chance, outliers) - _STRAY_COSTS * stray
    certain = np.where(known(level_runs) + count < FEW, CERTAIN_OF_FEW, CERTAIN)
    floor = Effects(least_of(count, effects.fraction, restless), effects.is_log)
    is_large = (usual >= floor.least(level)) & (np.abs(shift) >= effects.least(level))
    holds = (score >= certain) & is_large & _stands_out(level_runs[:, -NEAR:], kept[:, -NEAR:], newest, shift, restless)
    far = np.flatnonzero(holds & restless)
    excursion = _farthest_excursion(sign[far, None] * scatter[far], count[far])
    holds[far] = np.abs(shift[far]) >= _FARTHER * excursion
    history = np.sum(noise.kept, axis=1)
    return Weighed(holds, history, level, shift, t_value(TAIL, noise.freedom) * error, noise.spread, chance, score)


def _farthest_first(distances: Floats, shift: Floats, spread: Floats) -> Floats:
    """Leave out the outliers of the new level: they would be outliers without a new level, too."""
    is_outlier = (distances > (shift + OUTLIER * spread)[:, None]) & (known(distances) >= _FEWEST_OF_LEVEL)[:, None]
    ordered: Floats = -np.sort(np.where(is_outlier, np.nan, -distances), axis=1)
    return ordered


def _farthest_excursion(past: Floats, counts: Floats) -> Floats:
    """Return the largest distance that half of as many consecutive runs exceeded together before they went back."""
    farthest = np.zeros(len(past))
    for count in range(2, _LONGEST_EXCURSION + 1):
        rows = np.flatnonzero(counts == count)
        if len(rows):
            windows = np.sort(sliding_window_view(past[rows], count, axis=1), axis=2)
            is_whole = np.isfinite(windows[:, :, -1])
            farthest[rows] = np.where(is_whole, windows[:, :, (count - 1) // 2], 0.0).max(axis=1)
    return farthest


def _stands_out(nearest: Floats, kept: Bools, newest: Floats, shift: Floats, restless: Bools) -> Bools:
    """True if the newest runs are clearly and suddenly away from the ones before.

    Outliers count in a restless history.
    """
    usual = np.where(kept, nearest, np.nan)
    clear = np.where(known(newest) <= 3, _CLEAR_OF_FEW, _CLEAR)
    is_clear = _share_beyond(usual, newest, shift) >= clear
    is_clear &= ~restless | (_share_beyond(nearest, newest, shift) >= _CLEAR_OF_RESTLESS)
    sudden = (median(newest) - median(usual)) / shift >= _SUDDEN
    stands_out: Bools = ~np.isfinite(usual).any(axis=1) | (is_clear & sudden)
    return stands_out


def _share_beyond(nearest: Floats, newest: Floats, shift: Floats) -> Floats:
    share = share_in_order(nearest, newest)
    return np.where(shift < 0, 1 - share, share)


def least_of(runs: Floats, effect: Floats, restless: Bools) -> Floats:
    """Return the smallest change that so many runs can show, if changes of `effect` count."""
    usual, of_restless = (
        np.select([runs <= most for most in least], list(least.values()), _LEAST_OF_MORE)
        for least in (_LEAST, _LEAST_OF_RESTLESS)
    )
    least: Floats = np.where(restless, of_restless, usual) * np.minimum(effect / MIN_EFFECT, 1.0)
    return np.maximum(least, effect)


def _as_outliers(
    noise: Noise, error_of_level: Floats, past: Floats, distances: Floats, clipped: Floats, alone: Floats
) -> Floats:
    """Score of the best explanation in which the highest of the newest runs, some or all, are outliers.

    A run beyond `alone`, and many times as far away as any past run, is no outlier.
    """
    runs, newest = known(past), known(distances)
    variance, freedom = noise.variance, noise.freedom
    highest = distances[:, 0] + noise.spread / 2
    farthest = np.maximum(_MANY_TIMES * np.nanmax(np.abs(past), axis=1), alone)
    best = np.full(len(past), np.inf)
    for outliers in range(1, min(distances.shape[1], _FEW_OUTLIERS) + 1):
        low = distances[:, outliers - 1] - noise.spread / 2
        least = np.maximum(low, 2 * noise.spread)
        here = np.sum((past >= least[:, None]) & (past <= highest[:, None]), axis=1)
        alike = np.sum(past >= np.maximum(_ALIKE * low, 2 * noise.spread)[:, None], axis=1) - here
        same = _score_of_rate(here + _ELSEWHERE * alike, runs)
        rest = newest - outliers
        error = np.sqrt(variance * (variance_of_mean(rest, noise.correlation) + error_of_level))
        others = t_score(mean(clipped[:, outliers:]) / error, freedom)
        some = outliers * same - np.log(_WAYS[newest.astype(np.intp), outliers]) + others
        # The first outlier may be at any distance, the others must be as far away as the first.
        all_of_them = _score_of_rate(here + alike, runs) + (outliers - 1) * same + (CERTAIN - _NO_OUTLIERS)
        all_of_them -= _disagreement(past, distances, noise.spread) if outliers == 2 else 0.0
        all_of_them = np.minimum(all_of_them, _NO_OUTLIERS) if outliers == 1 else all_of_them
        all_of_them = np.where(low > farthest, np.inf, all_of_them)
        score = np.where(rest > 0, some, np.where(rest == 0, all_of_them, np.inf))
        best = np.minimum(best, score)
    return best


def _disagreement(past: Floats, distances: Floats, spread: Floats) -> Floats:
    """Score of the chance that two runs of one level differ as much as these; 0 if the history had few outliers."""
    first, second = distances[:, 0], distances[:, 1]
    alike = np.sum(past >= np.maximum(_ALIKE * second, OUTLIER * spread)[:, None], axis=1)
    return np.where(alike >= _MANY_OUTLIERS, (first - second) ** 2 / (4 * spread**2), 0.0)


def _score_of_rate(outliers: Floats, runs: Floats) -> Floats:
    """Score of the chance that a run is such an outlier, given how many the history had."""
    rate = (outliers + _OUTLIERS_TO_EXPECT) / (runs + _RUNS_TO_EXPECT)
    score: Floats = -np.log(np.minimum(rate, _MOST_OUTLIERS))
    return score
