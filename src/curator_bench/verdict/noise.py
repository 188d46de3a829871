"""How a metric scatters while nothing changes: its level, its spread, and how far one run resembles the one before.

Works on blocks, stretches of values of one level each, and on many questions at once: row by row. A level is that of
one block; spread and correlation are learnt from all blocks of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from curator_bench.verdict.tails import Bools, Floats, variance_of_mean

BLOCK = 70
"""As many runs as make up a level: a drift of 1 % in 50 runs hardly moves a mean that is not older than this."""
BLOCKS = 4
LEAST_SPREAD = 0.001
"""Nothing that is measured repeats itself better than to 0.1 %; what does is not infinitely certain of it."""
OUTLIER = 3.0
"""In spreads from the level: what is further away is an outlier."""
_CLIP = 2.5
_ROUNDS = 5
# What clipping at 2.5 spreads, and leaving out what is beyond 3, takes from the spread of normal noise.
_CLIPPED = 1.0114
_TRIMMED = 1.0136
_NO_CORRELATION = 0.9
"""How likely it is, before anything was measured, that runs do not depend on the run before."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Values in (rows, blocks, places), the last ones at the end, and which of these places are filled."""

    values: Floats
    filled: Bools


@dataclass(frozen=True, slots=True)
class Noise:
    """What the blocks of each row say. Where a second axis is given, it is one of possible correlations."""

    levels: Floats
    """(rows, blocks)."""
    counts: Floats
    """(rows, blocks): how many values each level stands on."""
    spreads: Floats
    """(rows, blocks): each block's own."""
    spread: Floats
    distances: Floats
    """(rows, places): how far every value is from the level of its own block; NaN where there is none."""
    weights: Floats
    """(rows, correlations): how likely each correlation is."""
    variance: Floats
    freedom: Floats

    @property
    def level(self) -> Floats:
        """Of the last block of each row."""
        return self.levels[:, -1]

    def level_variance(self, block: int = -1) -> Floats:
        """(rows, correlations): how uncertain the level of a block is, in units of `variance`."""
        return variance_of_mean(np.maximum(self.counts[:, block], 1)[:, None], correlations())

    def upside_down(self, rows: Bools) -> Noise:
        """With these rows turned over: what was far below the level is far above it."""
        sign = np.where(rows, -1.0, 1.0)[:, None]
        return replace(self, levels=self.levels * sign, distances=self.distances * sign)


@cache
def correlations() -> Floats:
    """The correlations from run to run that are reckoned with."""
    return np.linspace(0.0, 0.6, 7)


@cache
def _prior() -> Floats:
    others = len(correlations()) - 1
    return np.array([_NO_CORRELATION] + [(1 - _NO_CORRELATION) / others] * others)


def blocks_of(rows: Sequence[Sequence[Floats]]) -> Blocks:
    """The blocks of each row, oldest first; each at most `BLOCK` long, and at most `BLOCKS` of them."""
    values = np.zeros((len(rows), BLOCKS, BLOCK))
    filled = np.zeros(values.shape, dtype=bool)
    for row, blocks in enumerate(rows):
        for place, block in enumerate(reversed(blocks)):
            if len(block):
                values[row, -1 - place, -len(block) :] = block
                filled[row, -1 - place, -len(block) :] = True
    return Blocks(values, filled)


def noise_of(blocks: Blocks) -> Noise:
    """Learns levels, spread and correlation of each row."""
    rows, count, places = blocks.values.shape
    flat = Blocks(blocks.values.reshape(-1, places), blocks.filled.reshape(-1, places))
    levels, spreads, kept = robust_levels(flat)
    rest = np.where(kept, flat.values - levels[:, None], 0.0).reshape(rows, count, places)
    counts = kept.sum(axis=1).reshape(rows, count).astype(np.float64)
    levels = levels.reshape(rows, count)
    squares = np.sum(rest**2, axis=(1, 2))
    to_learn_from = np.sum(np.maximum(counts - 1, 0), axis=1)
    spread = _TRIMMED * np.sqrt(squares / np.maximum(to_learn_from, 1))
    distances = np.where(blocks.filled, blocks.values - levels[:, :, None], np.nan)
    return Noise(
        levels=levels,
        counts=counts,
        spreads=spreads.reshape(rows, count),
        spread=np.maximum(spread, LEAST_SPREAD),
        distances=distances.reshape(rows, -1),
        weights=_correlation_weights(rest, squares, counts),
        variance=_variance(squares, counts),
        freedom=np.maximum(to_learn_from[:, None] * _information(correlations()), 2.0),
    )


def robust_levels(blocks: Blocks) -> tuple[Floats, Floats, Bools]:
    """The level and the spread of each row of values without its outliers, and which values are none.

    A second mode is noise when every sixth value or more is in it, and consists of outliers when it is rarer.
    """
    values, filled = blocks.values, blocks.filled
    counts = np.maximum(filled.sum(axis=1), 1)
    level, spread = _medians(values, filled, counts)
    for _ in range(_ROUNDS):
        reach = _CLIP * spread
        clipped = np.clip(values, (level - reach)[:, None], (level + reach)[:, None])
        level, spread = _means(clipped, filled, counts, _CLIPPED)
    kept = filled
    for _ in range(2):
        kept = filled & (np.abs(values - level[:, None]) <= OUTLIER * spread[:, None])
        level, spread = _means(values, kept, np.maximum(kept.sum(axis=1), 1), _TRIMMED)
    return level, spread, kept


def _medians(values: Floats, filled: Bools, counts: Floats) -> tuple[Floats, Floats]:
    """Median and spread by median distance; by mean distance where more than half of the values are the same."""
    level = _median(values, filled, counts)
    distances = np.where(filled, np.abs(values - level[:, None]), 0.0)
    deviation = np.sqrt(np.sum(distances**2, axis=1) / np.maximum(counts - 1, 1))
    spread = 1.4826 * _median(distances, filled, counts)
    return level, np.maximum(np.where(spread <= 0.1 * deviation, deviation, spread), LEAST_SPREAD)


def _median(values: Floats, filled: Bools, counts: Floats) -> Floats:
    ordered = np.sort(np.where(filled, values, np.inf), axis=1)
    rows = np.arange(len(ordered))
    middle = 0.5 * (ordered[rows, (counts - 1) // 2] + ordered[rows, counts // 2])
    return np.where(filled.any(axis=1), middle, 0.0)


def _means(values: Floats, kept: Bools, counts: Floats, correction: float) -> tuple[Floats, Floats]:
    level = np.sum(np.where(kept, values, 0.0), axis=1) / counts
    rest = np.where(kept, values - level[:, None], 0.0)
    spread = correction * np.sqrt(np.sum(rest**2, axis=1) / np.maximum(counts - 1, 1))
    return level, np.maximum(spread, LEAST_SPREAD)


def _correlation_weights(rest: Floats, squares: Floats, counts: Floats) -> Floats:
    """How likely each correlation is, given that of neighbours; which short blocks show too low."""
    products = np.sum(rest[:, :, 1:] * rest[:, :, :-1], axis=(1, 2))
    measured = products / np.maximum(squares, 1e-300)
    total = np.maximum(counts.sum(axis=1), 1)[:, None]
    block = total / np.maximum(np.sum(counts > 0, axis=1), 1)[:, None]
    expected = correlations() - (1 + 3 * correlations()) / block
    variance = (1 - correlations() ** 2) / total
    likelihood = -0.5 * (measured[:, None] - expected) ** 2 / variance - 0.5 * np.log(variance)
    weights = _prior() * np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    shares: Floats = weights / np.sum(weights, axis=1, keepdims=True)
    return shares


def _variance(squares: Floats, counts: Floats) -> Floats:
    """(rows, correlations): of one value; the more correlated, the more is it than what is seen around block levels."""
    seen = 1 - variance_of_mean(np.maximum(counts, 1)[:, :, None], correlations())
    expected = np.maximum(np.sum(counts[:, :, None] * seen, axis=1), 1e-9)
    variance: Floats = _TRIMMED**2 * squares[:, None] / expected
    return np.maximum(variance, LEAST_SPREAD**2)


def _information(correlation: Floats) -> Floats:
    """Of how many independent values one is worth when a spread is estimated."""
    worth: Floats = (1 - correlation**2) / (1 + correlation**2)
    return worth
