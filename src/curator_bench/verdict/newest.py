"""Do the newest runs lie on a new level, or does noise explain them? Many rows at once.

The newest runs are held against the runs of the level before them. Noise has two ways to explain them: chance, which is
the ordinary scatter with what a run takes over from the one before; and outliers, as often and as far away as the
history has shown them. The best explanation counts, also one of a few outliers among runs that are high by chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from curator_bench.verdict.cases import MIN_EFFECT
from curator_bench.verdict.levels import NEAR
from curator_bench.verdict.noise import OUTLIER, Effects, Noise, known, median, noise_of, share_in_order
from curator_bench.verdict.tails import Bools, Floats, t_score, variance_of_mean

CERTAIN = 8.0
"""A score: one in 3,000."""
CERTAIN_OF_FEW = 6.5
"""The same with a history below `FEW` runs, in which Student's t asks for much already."""
FEW = 14
_NO_OUTLIERS = 6.25
"""One in 500: so unlikely must it be that all newest runs are outliers. Most histories have none."""
_CLEAR_OF_FEW, _CLEAR = 0.93, 0.85
"""Of pairs of a run of the nearest ten and a newest one this share must be in order, where there are two or three
newest, and where there are more."""
_SUDDEN = 0.6
"""So much of the shift must be between the nearest ten runs and the newest; the rest is drift."""
_LEAST = {3: 0.065, 5: 0.045}
_LEAST_OF_MORE = 0.033
"""What up to three runs show must be 6.5 %, up to five 4.5 %: smaller changes often pass. So with the usual effect that
counts, 3 %; where less counts, in proportion less."""
# A history without outliers may have them yet: so many are added to those it had, and to all its runs so many.
_OUTLIERS_TO_EXPECT, _RUNS_TO_EXPECT = 0.3, 10.0
_MOST_OUTLIERS = 0.5
_ELSEWHERE = 0.1
"""What an outlier counts that was not where the newest runs are: the next may be anywhere."""
_ALIKE = 0.7
"""An outlier of this part of the size is one like it."""
_MANY_TIMES = 8.0
"""What is so many times as far away as anything the history has shown is not explained away as an outlier."""
_FEW_OUTLIERS = 6
_STRAY, _STRAY_COSTS = 0.1, 3.0
"""A newest run that is lower than the others by this part of the shift is no sign of a new level."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """For each row what its newest runs say; `sign` is -1 where they are below the level before."""

    level: Floats
    noise: Noise
    shift: Floats
    sign: Floats
    chance: Floats
    """Score of the chance that ordinary scatter makes the newest runs differ as much, in this direction."""
    score: Floats
    """The same with outliers among the explanations."""
    error: Floats
    holds: Bools
    """It is certain, clear, sudden and large enough."""


def weigh(level_runs: Floats, newest: Floats, effects: Effects, earlier: Floats) -> Weighed:
    """Weighs `newest` (rows of equally many) against the runs of the level before them, filled from the left with NaN.

    `earlier` are the distances of the runs before that from their own levels: noise is learnt from all.
    """
    level = noise_of(level_runs)
    scatter = np.concatenate([earlier, level_runs - level.level[:, None]], axis=1)
    noise = noise_of(scatter)
    count = newest.shape[1]
    middle = median(newest)
    shift = middle - level.level
    sign = np.where(shift < 0, -1.0, 1.0)
    distances = -np.sort(-sign[:, None] * (newest - level.level[:, None]), axis=1)
    past = sign[:, None] * scatter
    error = np.sqrt(
        noise.variance
        * (variance_of_mean(float(count), noise.correlation) + variance_of_mean(level.count, noise.correlation))
    )
    clipped = np.minimum(distances, (sign * shift + 2 * noise.spread)[:, None])
    chance = t_score(np.mean(clipped, axis=1) / error, noise.freedom)
    outliers = _as_outliers(noise, level.count, past, distances, clipped)
    reach = np.maximum(OUTLIER * noise.spread, _STRAY * sign * shift)
    stray = np.sum(distances < (sign * shift - reach)[:, None], axis=1)
    score = np.minimum(chance, outliers) - _STRAY_COSTS * stray
    certain = np.where(known(level_runs) + count < FEW, CERTAIN_OF_FEW, CERTAIN)
    floor = Effects(np.array([least_of(count, effect) for effect in effects.fraction]), effects.is_log)
    is_large = np.mean(clipped, axis=1) >= floor.least(level.level)
    holds = (score >= certain) & is_large & _stands_out(level_runs, level, newest, shift, effects)
    return Weighed(level.level, noise, shift, sign, chance, score, error, holds)


def _stands_out(level_runs: Floats, level: Noise, newest: Floats, shift: Floats, effects: Effects) -> Bools:
    """The newest runs are clear of the nearest ten that are no outliers, suddenly so, and by enough."""
    nearest = np.where(level.kept, level_runs, np.nan)[:, -NEAR:]
    is_known = np.isfinite(nearest).any(axis=1)
    share = share_in_order(nearest, newest)
    clear = np.where(shift < 0, 1 - share, share) >= (_CLEAR_OF_FEW if newest.shape[1] <= 3 else _CLEAR)
    sudden = (median(newest) - median(nearest)) / shift >= _SUDDEN
    least = effects.least(level.level)
    return (~is_known | (clear & sudden)) & (np.abs(shift) >= least)


def least_of(runs: int, effect: float) -> float:
    """The smallest change that so many runs show, where changes of `effect` count."""
    least = next((least for most, least in _LEAST.items() if runs <= most), _LEAST_OF_MORE)
    return max(least * min(effect / MIN_EFFECT, 1.0), effect)


def _as_outliers(noise: Noise, count: Floats, past: Floats, distances: Floats, clipped: Floats) -> Floats:
    """Score of the best explanation in which some of the newest runs, the highest, are outliers; or all."""
    runs = known(past)
    newest = distances.shape[1]
    highest = distances[:, 0] + noise.spread / 2
    variance, freedom = noise.variance, noise.freedom
    of_level = variance_of_mean(count, noise.correlation)
    best = np.full(len(past), np.inf)
    for outliers in range(1, min(newest, _FEW_OUTLIERS) + 1):
        low = distances[:, outliers - 1] - noise.spread / 2
        here = _how_many(past, np.maximum(low, 2 * noise.spread), highest)
        alike = _how_many(past, np.maximum(_ALIKE * low, 2 * noise.spread), np.full(len(past), np.inf)) - here
        same = _score_of_rate(here + _ELSEWHERE * alike, runs)
        if outliers < newest:
            rest = newest - outliers
            error = np.sqrt(variance * (variance_of_mean(float(rest), noise.correlation) + of_level))
            others = t_score(np.mean(clipped[:, outliers:], axis=1) / error, freedom)
            score = outliers * same - math.log(math.comb(newest, outliers)) + others
        else:
            # The first may be anywhere, the others where the first is.
            score = _score_of_rate(here + alike, runs) + (newest - 1) * same + (CERTAIN - _NO_OUTLIERS)
            score = score if newest > 1 else np.minimum(score, _NO_OUTLIERS)
            score = np.where(low > _MANY_TIMES * np.nanmax(np.abs(past), axis=1), np.inf, score)
        best = np.minimum(best, score)
    return best


def _how_many(past: Floats, low: Floats, high: Floats) -> Floats:
    count: Floats = np.sum((past >= low[:, None]) & (past <= high[:, None]), axis=1).astype(np.float64)
    return count


def _score_of_rate(outliers: Floats, runs: Floats) -> Floats:
    """Of the chance that a run is such an outlier, of which the history had so many."""
    rate = (outliers + _OUTLIERS_TO_EXPECT) / (runs + _RUNS_TO_EXPECT)
    score: Floats = -np.log(np.minimum(rate, _MOST_OUTLIERS))
    return score
