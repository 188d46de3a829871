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
_MOST_AT_ONCE = 6
"""More outliers among the newest runs are no explanation. `_WAYS[runs, some]`: so many choices of some of the runs."""
_WAYS = np.array([[math.comb(runs, some) for some in range(_MOST_AT_ONCE + 1)] for runs in range(BLOCK + 1)])
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


class _Compared(NamedTuple):
    """The newest runs of each row and past ones, as distances in the direction of the shift."""

    past: Floats
    """The distances of past runs from their own levels."""
    past_runs: Floats
    """Their number."""
    newest: Floats
    """The distances of the newest runs from the level before, the farthest first, without outliers of the new level."""
    newest_runs: Floats
    """Their number."""
    usual: Floats
    """The same, each at most two noises beyond the shift."""
    spread: Floats
    correlation: Floats
    variance: Floats
    freedom: Floats
    variance_of_level: Floats
    """Variance of the level before, as a multiple of that of one run."""

    def error(self, runs: Floats) -> Floats:
        """Standard error of the distance between the level before and the mean of so many newest runs."""
        error: Floats = np.sqrt(self.variance * (variance_of_mean(runs, self.correlation) + self.variance_of_level))
        return error

    def chance(self, outliers: int) -> Floats:
        """Score of the chance that ordinary scatter moves the newest runs as far, without so many of the farthest."""
        error = self.error(self.newest_runs - outliers)
        return t_score(mean(self.usual[:, outliers:]) / error, self.freedom)


def weigh(level_runs: Floats, newest: Floats, effects: Effects, earlier: Floats, restless: Bools) -> Weighed:
    """Compare the newest runs of each row with the runs of the level before; rows are filled up with NaN.

    `earlier` are the distances of older runs from their own levels, which also count for the noise. `restless` are the
    histories that had other levels before.
    """
    level, _, kept = trimmed(level_runs)
    shift = median(newest) - level
    scatter = np.concatenate([earlier, level_runs - level[:, None]], axis=1)
    noise = noise_of(scatter)
    compared = _compared(noise, scatter, newest - level[:, None], shift, kept)
    chance = compared.chance(0)
    alone = Effects(np.full(len(level), _ALONE), effects.is_log).least(level)
    score = np.minimum(chance, _as_outliers(compared, alone)) - _STRAY_COSTS * _strays(compared, np.abs(shift))
    count = known(newest)
    certain = np.where(known(level_runs) + count < FEW, CERTAIN_OF_FEW, CERTAIN)
    floor = Effects(least_of(count, effects.fraction, restless), effects.is_log)
    is_large = (mean(compared.usual) >= floor.least(level)) & (np.abs(shift) >= effects.least(level))
    holds = (score >= certain) & is_large & _stands_out(level_runs[:, -NEAR:], kept[:, -NEAR:], newest, shift, restless)
    far = np.flatnonzero(holds & restless)
    holds[far] = np.abs(shift[far]) >= _FARTHER * _farthest_excursion(compared.past[far], count[far])
    history = np.sum(noise.kept, axis=1)
    reach = t_value(TAIL, noise.freedom) * compared.error(compared.newest_runs)
    return Weighed(holds, history, level, shift, reach, noise.spread, chance, score)


def _compared(noise: Noise, scatter: Floats, distances: Floats, shift: Floats, kept: Bools) -> _Compared:
    sign = np.where(shift < 0, -1.0, 1.0)
    newest = _farthest_first(sign[:, None] * distances, np.abs(shift), noise.spread)
    of_level = np.maximum(np.sum(kept, axis=1), 1).astype(np.float64)
    return _Compared(
        past=sign[:, None] * scatter,
        past_runs=known(scatter),
        newest=newest,
        newest_runs=known(newest),
        usual=np.minimum(newest, (np.abs(shift) + 2 * noise.spread)[:, None]),
        spread=noise.spread,
        correlation=noise.correlation,
        variance=noise.variance,
        freedom=noise.freedom,
        variance_of_level=variance_of_mean(of_level, noise.correlation),
    )


def _strays(compared: _Compared, shift: Floats) -> Floats:
    """Return the number of newest runs that are clearly nearer to the level before than the new one is."""
    reach = np.maximum(OUTLIER * compared.spread, _STRAY * shift)
    strays: Floats = np.sum(compared.newest < (shift - reach)[:, None], axis=1)
    return strays


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


def _as_outliers(compared: _Compared, alone: Floats) -> Floats:
    """Score of the best explanation in which the farthest of the newest runs, some or all, are outliers.

    A run beyond `alone`, and many times as far away as any past run, is no outlier.
    """
    newest = compared.newest_runs
    most = np.maximum(_MANY_TIMES * np.nanmax(np.abs(compared.past), axis=1), alone)
    best = np.full(len(newest), np.inf)
    for outliers in range(1, min(compared.newest.shape[1], _MOST_AT_ONCE) + 1):
        is_too_far = compared.newest[:, outliers - 1] - compared.spread / 2 > most
        first, further = _scores_of_outliers(compared, outliers)
        ways = _WAYS[newest.astype(np.intp), outliers]
        # So many of the newest runs are outliers, any of them, and chance explains the others; or there are no others.
        some = outliers * further - np.log(ways) + compared.chance(outliers)
        every = first + (outliers - 1) * further + (CERTAIN - _NO_OUTLIERS)
        if outliers == 1:
            every = np.minimum(every, _NO_OUTLIERS)
        elif outliers == 2:
            every = every - _disagreement(compared)
        every = np.where(is_too_far, np.inf, every)
        score = np.where(newest > outliers, some, np.where(newest == outliers, every, np.inf))
        best = np.minimum(best, score)
    return best


def _scores_of_outliers(compared: _Compared, outliers: int) -> tuple[Floats, Floats]:
    """Score of the chance that a run is an outlier like the farthest newest ones, for the first of them and a further.

    The first may be at any distance, the others must be about as far away as the first.
    """
    half, least = compared.spread / 2, 2 * compared.spread
    nearest, farthest = compared.newest[:, outliers - 1] - half, compared.newest[:, 0] + half
    here = np.sum((compared.past >= np.maximum(nearest, least)[:, None]) & (compared.past <= farthest[:, None]), axis=1)
    alike = np.sum(compared.past >= np.maximum(_ALIKE * nearest, least)[:, None], axis=1)
    elsewhere = alike - here
    runs = compared.past_runs
    return _score_of_rate(alike, runs), _score_of_rate(here + _ELSEWHERE * elsewhere, runs)


def _disagreement(compared: _Compared) -> Floats:
    """Score of the chance that two runs of one level differ as much as these; 0 if the history had few outliers."""
    first, second = compared.newest[:, 0], compared.newest[:, 1]
    least = np.maximum(_ALIKE * second, OUTLIER * compared.spread)
    alike = np.sum(compared.past >= least[:, None], axis=1)
    return np.where(alike >= _MANY_OUTLIERS, (first - second) ** 2 / (4 * compared.spread**2), 0.0)


def _score_of_rate(outliers: Floats, runs: Floats) -> Floats:
    """Score of the chance that a run is such an outlier, given how many the history had."""
    rate = (outliers + _OUTLIERS_TO_EXPECT) / (runs + _RUNS_TO_EXPECT)
    score: Floats = -np.log(np.minimum(rate, _MOST_OUTLIERS))
    return score
