"""Cut histories into levels: many histories at once, each on its scale, the oldest run first.

1. Optimal partitioning places the cuts: each further cut must reduce the sum of squares by more than its cost.
2. Each cut moves to the place that separates the runs around it best.
3. The least certain cut is dropped, one after the other, until all are certain, clear and large enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from curator_bench.verdict.distributions import Bools, Floats, Ints, t_score, variance_of_mean
from curator_bench.verdict.noise import (
    Effects,
    after,
    before,
    clipped,
    known,
    mean,
    median,
    noise_apart,
    share_in_order,
)

SHORTEST = 9
"""The shortest level. At the end of a history `ends` finds shorter ones."""
_SHORTEST_MOVED = 7
"""The shortest level after a cut was moved."""
NEAR = 10
"""The number of runs on each side of a cut that tell how large and how clear it is."""
_COST = 3.5
"""Price of a further cut, in squares of the noise, times the logarithm of the length."""
_FARTHEST = 150
_NEIGHBOURS = 7
_STANDS_OUT = 3.0
"""In units of noise: the farthest that a run counts from its neighbours when levels are sought."""
_MOVES = np.array(sorted(range(-5, 6), key=abs))
_SIDE = 25
"""The number of runs on each side of a cut that tell how certain it is."""
_CERTAIN = 11.0
"""Least score of a cut: one in 60,000, because there are many places for a cut."""
_CLEAR = 0.93
"""Of all pairs of one of the ten runs before and one of the ten after a cut, this share must be in order."""
_NEAREST, _CLEARLY_BETTER = 15, 0.9
"""A straight line through so many runs on each side of a cut is clearly better than two levels if its sum of squares is
less than this share of theirs."""
_AS_CLEAR = 0.001
"""Weight of the distance between the levels, which decides between two places that are equally clear."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A level begins at `index`, by `shift` away from the level before."""

    index: int
    before: float
    shift: float
    error: float
    """Standard error of the shift."""
    freedom: float
    score: float


@dataclass(frozen=True, slots=True)
class _Sides:
    """The places of many cuts: row, run, and the ends of the levels before and after."""

    row: Ints
    start: Ints
    at: Ints
    end: Ints


@dataclass(frozen=True, slots=True)
class _Rows:
    """The histories, with the noise and the correlation of each."""

    table: Floats
    lengths: Ints
    effects: Effects
    noise: Floats
    correlation: Floats


def cuts_of(table: Floats, lengths: Ints, effects: Effects) -> list[list[Cut]]:
    """The cuts of each row."""
    smooth = without_outliers(table)
    rows = _Rows(table, lengths, effects, *noise_apart(smooth))
    return _settled(rows, _moved(rows, _partition(smooth, lengths, rows.noise)))


def without_outliers(table: Floats) -> Floats:
    """Return the values, each moved to within three times the noise of the median of the seven around it."""
    noise, _ = noise_apart(table)
    half = _NEIGHBOURS // 2
    padded = np.pad(table, ((0, 0), (half, half)), constant_values=np.nan)
    middle = median(sliding_window_view(padded, _NEIGHBOURS, axis=1))
    reach = _STANDS_OUT * noise[:, None]
    return np.clip(table, middle - reach, middle + reach)


def _partition(table: Floats, lengths: Ints, noise: Floats) -> list[list[int]]:
    """For each row, return the cuts with the least sum of squares and costs."""
    order = np.argsort(-lengths, kind="stable")
    lengths, scaled = lengths[order], ((table - table[:, :1]) / noise[:, None])[order]
    sums = np.pad(np.cumsum(np.nan_to_num(scaled), axis=1), ((0, 0), (1, 0)))
    cost = _COST * np.log(np.maximum(lengths, 2))
    # The sum of squares up to each run, without the squares of all values: they are the same whatever is cut.
    best = np.full(sums.shape, np.inf)
    best[:, 0] = -cost
    came_from = np.zeros(sums.shape, dtype=np.intp)
    share = 1 / np.arange(_FARTHEST, SHORTEST - 1, -1)
    as_long = np.searchsorted(-lengths, -np.arange(sums.shape[1]), side="right").tolist()
    every_row = np.arange(len(lengths))
    for end in range(SHORTEST, sums.shape[1]):
        rows, first, last = as_long[end], max(0, end - _FARTHEST), end - SHORTEST + 1
        left = (
            best[:rows, first:last]
            - (sums[:rows, end : end + 1] - sums[:rows, first:last]) ** 2 * share[first - last :]
        )
        place = left.argmin(axis=1)
        best[:rows, end] = left[every_row[:rows], place] + cost[:rows]
        came_from[:rows, end] = first + place
    cuts: list[list[int]] = [[] for _ in order]
    for row, original in enumerate(order):
        end = int(came_from[row, lengths[row]])
        while end > 0:
            cuts[original].insert(0, end)
            end = int(came_from[row, end])
    return cuts


def _sides(cuts: Sequence[Sequence[int]], lengths: Ints) -> _Sides:
    found = [
        (row, *bounds)
        for row, own in enumerate(cuts)
        for bounds in zip([0, *own], own, [*own[1:], int(lengths[row])], strict=False)
    ]
    return _Sides(*np.array(found, dtype=np.intp).reshape(-1, 4).T)


def _moved(rows: _Rows, cuts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Move each cut to where most pairs of the ten runs before and after it are in order.

    Cuts near the end are dropped.
    """
    table, lengths = rows.table, rows.lengths
    sides = _sides(cuts, lengths)
    if not len(sides.at):
        return [[] for _ in cuts]
    at = (sides.at[:, None] + _MOVES).ravel()
    row, start, end = (np.repeat(one, len(_MOVES)) for one in (sides.row, sides.start, sides.end))
    is_last = end == lengths[row]
    fits = (at - start >= _SHORTEST_MOVED) & (end - at >= np.where(is_last, 2, _SHORTEST_MOVED))
    first, second = before(table, row, at, start, NEAR), after(table, row, at, end, NEAR)
    apart = np.abs(mean(second) - mean(first))
    clear = np.abs(share_in_order(first, second) - 0.5) + _AS_CLEAR * apart / (1 + apart) * is_last
    clear = np.where(fits, np.round(clear, 9), -1.0).reshape(-1, len(_MOVES))
    place = sides.at + np.where(clear.max(axis=1) >= 0, _MOVES[clear.argmax(axis=1)], 0)
    found: list[set[int]] = [set() for _ in cuts]
    for row, at in zip(sides.row.tolist(), place.tolist(), strict=True):
        if at <= lengths[row] - SHORTEST:
            found[row].add(at)
    return [sorted(own) for own in found]


def _settled(rows: _Rows, cuts: Sequence[Sequence[int]]) -> list[list[Cut]]:
    """Return the cuts that hold. The least certain is dropped first, and its neighbours are weighed again."""
    left = [list(own) for own in cuts]
    settled: list[list[Cut]] = [[] for _ in cuts]
    while any(left):
        weighed = iter(_weighed(rows, _sides(left, rows.lengths)))
        for row, own in enumerate(left):
            found = [next(weighed) for _ in own]
            failed = [(cut.score, cut.index) for cut, holds in found if not holds]
            if failed:
                own.remove(min(failed)[1])
            elif found:
                settled[row], left[row] = [cut for cut, _ in found], []
    return settled


def _weighed(rows: _Rows, sides: _Sides) -> list[tuple[Cut, bool]]:
    """Return each cut with its certainty, and whether it holds."""
    noise, correlation = rows.noise[sides.row], rows.correlation[sides.row]
    first = before(rows.table, sides.row, sides.at, sides.start, _SIDE)
    second = after(rows.table, sides.row, sides.at, sides.end, _SIDE)
    usual = clipped(first, noise), clipped(second, noise)
    variances = [variance_of_mean(known(side), correlation) for side in (first, second)]
    error = noise * np.sqrt(variances[0] + variances[1])
    freedom = np.maximum(rows.lengths[sides.row] / 2, 3.0)
    apart = np.abs(mean(usual[1]) - mean(usual[0]))
    score = t_score(apart / error, freedom)
    level, new = mean(usual[0][:, -NEAR:]), mean(usual[1][:, :NEAR])
    share = share_in_order(first[:, -NEAR:], second[:, :NEAR])
    is_large = np.abs(new - level) >= rows.effects.of(sides.row).least(level)
    is_clear = np.maximum(share, 1 - share) >= _CLEAR
    holds = is_large & is_clear & (score >= _CERTAIN) & ~_is_drift(*usual)
    columns = (sides.at, level, new - level, error, freedom, score)
    cuts = [Cut(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return list(zip(cuts, holds.tolist(), strict=True))


def _is_drift(first: Floats, second: Floats) -> Bools:
    """True if a straight line fits the runs around a cut better than two levels: of all these runs, or of the nearest.

    The nearest show a drift that lasted for a few runs only. There the line must be clearly better.
    """
    nearest = _line_to_levels(first[:, -_NEAREST:], second[:, :_NEAREST])
    is_drift: Bools = (_line_to_levels(first, second) < 1) | (nearest < _CLEARLY_BETTER)
    return is_drift


def _line_to_levels(first: Floats, second: Floats) -> Floats:
    """Sum of squares around the best straight line, as a multiple of that around two levels."""
    squares = [np.nansum((side - mean(side)[:, None]) ** 2, axis=1) for side in (first, second)]
    runs = np.concatenate([first, second], axis=1)
    rest = runs - mean(runs)[:, None]
    time = np.where(np.isnan(runs), np.nan, np.arange(runs.shape[1]))
    time = time - mean(time)[:, None]
    line = np.nansum(rest**2, axis=1) - np.nansum(time * rest, axis=1) ** 2 / np.nansum(time**2, axis=1)
    ratio: Floats = line / (squares[0] + squares[1])
    return ratio
