"""How likely noise alone explains the newest runs of a metric, against how likely a new level does.

Noise has two parts: the ordinary spread, with what one run takes over from the run before, and outliers, as often and
about where the history had them. So the newest runs may be explained by chance, by outliers, or by a few outliers among
runs that are only by chance a little worse. The chances of all these explanations are added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from curator_bench.verdict.noise import OUTLIER, Noise, correlations
from curator_bench.verdict.tails import LEAST, Bools, Floats, covariance_of_neighbours, t_tail, variance_of_mean

# A history without outliers may have them yet: so many are added to those it had, and to all its runs so many.
_OUTLIERS_TO_EXPECT = 0.3
_RUNS_TO_EXPECT = 10.3
_ELSEWHERE = 0.1
"""What an outlier counts that was not where the newest runs are: the next may be anywhere."""
_MOST_OUTLIERS = 0.5
_CLIP = 2.0
_SAME_PLACE = 0.5
_NOT_ORDINARY = 2.0
_BELOW, _ABOVE = 3.0, 5.0


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest runs of each row in (rows, places), the oldest first, and which places are filled."""

    values: Floats
    filled: Bools


@dataclass(frozen=True, slots=True)
class Explained:
    """For each row: how far the newest are above the level, and the chance that this is noise, by all and by chance."""

    shift: Floats
    log_noise: Floats
    log_chance: Floats
    """By chance alone, as if there were no outliers."""


@dataclass(frozen=True, slots=True)
class _Sorted:
    """The newest runs as distances from the level, the highest first; `clipped` ones do not stand out of the rest."""

    distances: Floats
    clipped: Floats
    middle: Floats
    counts: Floats
    filled: Bools


def explain(noise: Noise, newest: Newest) -> Explained:
    """Weighs the explanations for each row. Up is worse; for improvements turn everything upside down."""
    ordered = _sorted(noise, newest)
    by_chance = _by_chance(noise, newest, ordered)
    outliers = _log_outliers(noise, ordered)
    none = np.zeros((len(outliers), 1))
    log_chance = np.log(by_chance)
    partly = np.where(ordered.filled, np.concatenate([none, outliers[:, :-1]], axis=1) + log_chance, -np.inf)
    partly = np.minimum(partly + _log_choices(ordered), 0.0)
    wholly = _log_one_place(noise, ordered)
    log_noise = np.logaddexp(np.logaddexp.reduce(partly, axis=1), wholly)
    shift = np.sum(ordered.clipped, axis=1) / ordered.counts
    return Explained(shift, np.minimum(log_noise - _log_fit(noise, ordered), 0.0), log_chance[:, 0])


def _sorted(noise: Noise, newest: Newest) -> _Sorted:
    counts = newest.filled.sum(axis=1)
    distances = np.where(newest.filled, newest.values - noise.level[:, None], -np.inf)
    distances = -np.sort(-distances, axis=1)
    middle = distances[np.arange(len(counts)), counts // 2]
    filled = np.isfinite(distances)
    highest = middle + _CLIP * noise.spread
    clipped = np.where(filled, np.minimum(distances, highest[:, None]), 0.0)
    return _Sorted(distances, clipped, middle, counts, filled)


def _by_chance(noise: Noise, newest: Newest, ordered: _Sorted) -> Floats:
    """(rows, j): the chance that all but the j highest are as high as they are; over all correlations."""
    totals = np.sum(ordered.clipped, axis=1, keepdims=True)
    dropped = np.cumsum(ordered.clipped, axis=1) - ordered.clipped
    rest = np.maximum(ordered.counts[:, None] - np.arange(dropped.shape[1]), 1.0)
    means = ((totals - dropped) / rest)[:, :, None]
    count, level_count = rest[:, :, None], np.maximum(noise.counts[:, -1], 1)[:, None, None]
    variance = variance_of_mean(count, correlations()) + noise.level_variance()[:, None, :]
    variance = variance - 2 * covariance_of_neighbours(count, level_count, correlations())
    scores = means / np.sqrt(noise.variance[:, None, :] * variance)
    scores[:, 0] = _scores_by_what_is_new(noise, newest, ordered)
    tails = t_tail(scores, noise.freedom[:, None, :])
    chances: Floats = np.sum(noise.weights[:, None, :] * tails, axis=2)
    return np.maximum(chances, LEAST)


def _scores_by_what_is_new(noise: Noise, newest: Newest, ordered: _Sorted) -> Floats:
    """(rows, correlations): of all newest runs, by what each has that the run before it does not explain.

    With correlated noise this finds a shift earlier than the mean does; without correlation it is the mean.
    """
    correlation, counts = correlations(), ordered.counts[:, None]
    highest = ordered.middle + _CLIP * noise.spread
    distances = np.minimum(newest.values - noise.level[:, None], highest[:, None])
    distances = np.where(newest.filled, distances, 0.0)
    reach = OUTLIER * noise.spread
    before = np.clip(noise.distances[:, -1], -reach, reach)[:, None]
    before = np.concatenate([before, distances[:, :-1]], axis=1)
    new = np.where(newest.filled[:, :, None], distances[:, :, None] - correlation * before[:, :, None], 0.0)
    rest = 1 - correlation
    weight = 1 + (counts - 1) * rest**2
    shift = (new[:, 0] + rest * np.sum(new[:, 1:], axis=1)) / weight
    of_level = noise.level_variance() * (rest * (1 + rest * (counts - 1)) / weight) ** 2
    scores: Floats = shift / np.sqrt(noise.variance * ((1 - correlation**2) / weight + of_level))
    return scores


def _log_outliers(noise: Noise, ordered: _Sorted) -> Floats:
    """(rows, j - 1): the chance that j given runs are outliers about where the j highest are."""
    near, elsewhere = _visits(noise, ordered)
    return np.arange(1, near.shape[1] + 1) * np.log(_rate(noise, near + _ELSEWHERE * elsewhere))


def _log_one_place(noise: Noise, ordered: _Sorted) -> Floats:
    """The chance that all newest are outliers: the first wherever outliers are, the others where the first is."""
    near, elsewhere = _visits(noise, ordered)
    rows, last = np.arange(len(near)), ordered.counts - 1
    anywhere = np.log(_rate(noise, near + elsewhere))[rows, last]
    same = np.log(_rate(noise, near + _ELSEWHERE * elsewhere))[rows, last]
    log_chance: Floats = anywhere + last * same
    return log_chance


def _visits(noise: Noise, ordered: _Sorted) -> tuple[Floats, Floats]:
    """(rows, j - 1): how many runs of the history were as far up as the j highest of the newest; how many elsewhere."""
    margin = _SAME_PLACE * noise.spread[:, None]
    lowest = np.where(ordered.filled, ordered.distances, np.inf) - margin
    lowest = np.maximum(lowest, _NOT_ORDINARY * noise.spread[:, None])
    highest = ordered.distances[:, :1] + margin
    far = np.where(np.isnan(noise.distances), -np.inf, noise.distances)
    far = -np.sort(-far, axis=1)
    most = int(np.max(np.sum(far > _NOT_ORDINARY * noise.spread[:, None], axis=1), initial=1))
    far = far[:, None, :most]
    above = far >= lowest[:, :, None]
    near = np.sum(above & (far <= highest[:, :, None]), axis=2)
    outliers = np.sum(far > OUTLIER * noise.spread[:, None, None], axis=2)
    return near.astype(np.float64), np.maximum(np.sum(above, axis=2), outliers) - near


def _rate(noise: Noise, visits: Floats) -> Floats:
    runs = np.sum(~np.isnan(noise.distances), axis=1).astype(np.float64)
    runs = runs.reshape((-1,) + (1,) * (visits.ndim - 1))
    rate: Floats = (visits + _OUTLIERS_TO_EXPECT) / (runs + _RUNS_TO_EXPECT)
    return np.minimum(rate, _MOST_OUTLIERS)


def _log_fit(noise: Noise, ordered: _Sorted) -> Floats:
    """How well a new level explains the newest: runs far off it would have to be outliers too."""
    spread = noise.spread[:, None]
    middle = ordered.middle[:, None]
    below = np.sum(ordered.filled & (ordered.distances < middle - _BELOW * spread), axis=1)
    above = np.sum(ordered.filled & (ordered.distances > middle + _ABOVE * spread), axis=1)
    low = _rate(noise, np.nansum(noise.distances < -OUTLIER * spread, axis=1))
    high = _rate(noise, np.nansum(noise.distances > OUTLIER * spread, axis=1))
    return _log_binomial(ordered.counts, below, low) + _log_binomial(ordered.counts, above, high)


def _log_binomial(counts: Floats, hits: Floats, rate: Floats) -> Floats:
    choices = _log_factorials()[counts] - _log_factorials()[hits] - _log_factorials()[counts - hits]
    log_chance: Floats = choices + hits * np.log(rate)
    return np.minimum(log_chance, 0.0)


def _log_choices(ordered: _Sorted) -> Floats:
    """(rows, j): in how many ways j of the newest can be chosen."""
    chosen = np.minimum(np.arange(ordered.filled.shape[1]), ordered.counts[:, None])
    counts = ordered.counts[:, None]
    choices: Floats = _log_factorials()[counts] - _log_factorials()[chosen] - _log_factorials()[counts - chosen]
    return choices


@cache
def _log_factorials() -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, 200)))])
