"""Estimate how a metric scatters while nothing changes: level, noise, and correlation of neighbours.

Every function handles many rows at once. A row is a stretch of runs, the oldest first; NaN stands for no run.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from curator_bench.verdict.distributions import Bools, Floats, Ints, variance_of_mean

BLOCK = 50
"""The most runs that make up a level. A drift of 1 % in 50 runs hardly changes a level of so few runs."""
LEAST_NOISE = 0.001
"""The least noise. Measurements do not repeat better than to 0.1 %, and equal ones are not infinitely certain."""
OUTLIER = 3.0
"""In units of noise: a run farther from the level is an outlier."""
_CLIP = 2.5
# Clipping at 2.5 noises, and leaving out runs beyond 3, make the spread of normal noise smaller. These factors undo it.
_CLIPPED, _TRIMMED = 1.0114, 1.0136
_MOST_CORRELATED = 0.7
_APART = (2, 3)
_AT_ONCE = 100_000
"""The number of values in a batch. Larger ones take more memory, and longer, as they do not fit a processor's cache."""
_AS_NORMAL = 1.4826
"""Turns a median distance into the standard deviation of normal noise."""


@contextmanager
def rows_may_be_empty() -> Iterator[None]:
    """Silence numpy's warnings about rows without values. Their results are NaN, and not used."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def in_batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the numbers of rows to handle together: rows of similar length, and not too many for the memory."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        if batch and lengths[row] * (len(batch) + 1) > _AT_ONCE:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def table_of(rows: Sequence[Floats]) -> tuple[Floats, Ints]:
    """Return the rows as one table, each filled up with NaN at its end, and their lengths."""
    lengths = np.array([len(row) for row in rows], dtype=np.intp)
    table = np.full((len(rows), max(int(lengths.max(initial=0)), 1)), np.nan)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table, lengths


@dataclass(frozen=True, slots=True)
class Effects:
    """For each row, the smallest change that counts, and whether its scale is a logarithm."""

    fraction: Floats
    is_log: Bools

    def of(self, rows: Ints) -> Effects:
        return Effects(self.fraction[rows], self.is_log[rows])

    def least(self, level: Floats) -> Floats:
        """Return the distance from each level to a value that is larger by the fraction."""
        least: Floats = np.where(self.is_log, np.log1p(self.fraction), self.fraction * np.abs(level))
        return least


def before(table: Floats, rows: Ints, end: Ints, least: Ints, count: int) -> Floats:
    """For each of these rows, return the `count` values before `end`, with NaN for those before `least`."""
    places = end[:, None] - count + np.arange(count)
    return np.where(places >= least[:, None], table[rows[:, None], np.maximum(places, 0)], np.nan)


def after(table: Floats, rows: Ints, start: Ints, most: Ints, count: int) -> Floats:
    """For each of these rows, return the `count` values from `start`, with NaN for those from `most`."""
    places = start[:, None] + np.arange(count)
    return np.where(places < most[:, None], table[rows[:, None], np.minimum(places, table.shape[1] - 1)], np.nan)


def known(values: Floats) -> Floats:
    """Return the number of values of each row."""
    count: Floats = np.sum(~np.isnan(values), axis=-1).astype(np.float64)
    return count


def median(values: Floats) -> Floats:
    """Return the median of each row; NaN without values. numpy's own function takes ten times as long for few rows."""
    ordered = np.sort(values, axis=-1)
    middle = (known(values)[..., None] - 1) / 2
    places = np.concatenate([np.floor(middle), np.ceil(middle)], axis=-1).astype(np.intp)
    both: Floats = np.take_along_axis(ordered, places, axis=-1).mean(axis=-1)
    return both


def middle(values: Floats) -> float:
    """Return the median of some numbers. `np.median` takes five times as long for a few dozen."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def mean(values: Floats) -> Floats:
    """Return the mean of each row; NaN without values."""
    found: Floats = np.nansum(values, axis=-1) / known(values)
    return found


def share_in_order(first: Floats, second: Floats) -> Floats:
    """Return the share of all pairs, one value of each side, in which the second value is higher."""
    apart = second[:, None, :] - first[:, :, None]
    pairs = np.maximum(known(first) * known(second), 1)
    share: Floats = (np.sum(apart > 0, axis=(1, 2)) + 0.5 * np.sum(apart == 0, axis=(1, 2))) / pairs
    return share


def clipped(values: Floats, noise: Floats) -> Floats:
    """Return the values of each row, each moved to within three times the noise of the median."""
    middle, reach = median(values)[:, None], OUTLIER * noise[:, None]
    return np.clip(values, middle - reach, middle + reach)


@dataclass(frozen=True, slots=True)
class Noise:
    """The scatter of each row."""

    level: Floats
    spread: Floats
    kept: Bools
    """True for values that are no outliers."""
    correlation: Floats

    @property
    def count(self) -> Floats:
        counted: Floats = np.maximum(np.sum(self.kept, axis=1), 1).astype(np.float64)
        return counted

    @property
    def freedom(self) -> Floats:
        """Degrees of freedom of the spread; correlated runs have fewer."""
        independent = (1 - self.correlation**2) / (1 + self.correlation**2)
        return np.maximum((self.count - 1) * independent, 2.0)

    @property
    def variance(self) -> Floats:
        """Variance of one run. Correlated runs show less than that around their level."""
        seen = 1 - variance_of_mean(self.count, self.correlation)
        return self.spread**2 * (1 - 1 / np.maximum(self.count, 2)) / np.maximum(seen, 0.3)


def noise_of(values: Floats) -> Noise:
    """Return level and noise of each row, without its outliers."""
    _, correlation = noise_apart(values)
    certain = np.clip(correlation - 1 / np.sqrt(np.maximum(known(values), 1)), 0, _MOST_CORRELATED)
    return Noise(*trimmed(values), certain)


def trimmed(values: Floats) -> tuple[Floats, Floats, Bools]:
    """Return level and spread of each row, and which of its values are no outliers."""
    level, spread = _by_medians(values)
    for _ in range(2):
        reach = _CLIP * spread
        level, spread = _by_means(np.clip(values, (level - reach)[:, None], (level + reach)[:, None]), _CLIPPED)
    for _ in range(2):
        kept: Bools = np.abs(values - level[:, None]) <= OUTLIER * spread[:, None]
        level, spread = _by_means(np.where(kept, values, np.nan), _TRIMMED)
    return level, spread, kept


def _by_medians(values: Floats) -> tuple[Floats, Floats]:
    """Return median, and spread by median distance, or by mean distance if over half of the values are equal."""
    level = median(values)
    distances = np.abs(values - level[:, None])
    deviation = np.sqrt(np.nansum(distances**2, axis=1) / np.maximum(known(values) - 1, 1))
    spread = _AS_NORMAL * median(distances)
    return level, np.maximum(np.where(spread < 0.1 * deviation, deviation, spread), LEAST_NOISE)


def _by_means(values: Floats, correction: float) -> tuple[Floats, Floats]:
    level = mean(values)
    squares = np.nansum((values - level[:, None]) ** 2, axis=1)
    return level, np.maximum(correction * np.sqrt(squares / np.maximum(known(values) - 1, 1)), LEAST_NOISE)


def noise_apart(values: Floats) -> tuple[Floats, Floats]:
    """Estimate the noise of each row from differences between runs that are two or three apart.

    Steps in the row do not inflate it. The correlation of neighbours tells how much less neighbours differ.
    """
    neighbours = _square_of_difference(values, 1)
    apart = mean(np.stack([_square_of_difference(values, lag) for lag in _APART], axis=1))
    apart = np.where(np.isfinite(apart), apart, neighbours)
    correlation = np.nan_to_num(np.clip(1 - neighbours / apart, 0, _MOST_CORRELATED))
    return np.maximum(np.nan_to_num(np.sqrt(apart / 2)), LEAST_NOISE), correlation


def _square_of_difference(values: Floats, lag: int) -> Floats:
    """Return the mean square of differences between runs `lag` apart, each limited to three times the usual."""
    if values.shape[1] <= lag:
        return np.full(len(values), np.nan)
    apart = np.abs(values[:, lag:] - values[:, :-lag])
    usual = np.maximum(_AS_NORMAL * median(apart), LEAST_NOISE)
    return mean(np.minimum(apart, OUTLIER * usual[:, None]) ** 2)
