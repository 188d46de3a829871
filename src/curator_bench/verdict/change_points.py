"""Where the level of a metric changed: over a whole series of runs, the oldest first.

Cuts are looked for by comparing the means of the runs before and after every place, and believed when noise does not
explain the difference of the two levels, a straight line does not explain them better, and it is large enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from curator_bench.verdict.intervals import tail_of_difference
from curator_bench.verdict.noise import LEAST_SPREAD, blocks_of, noise_of
from curator_bench.verdict.tails import Floats

SHORTEST = 5
"""A level that lasted fewer runs is not looked for here; whether the newest runs are one is for gating."""
CERTAINTY = 0.001
_WINDOW = 50
_WIDTHS = (SHORTEST, 16, _WINDOW)
_NEIGHBOURS = 7
_WORTH_A_LOOK = 4.5
_TRIES = 3
_ROUGHLY = 0.7
_SURE = 3.5


@dataclass(frozen=True, slots=True)
class Cut:
    """A level begins at `index`; `p_value` is the chance that noise makes such a cut anywhere in the series."""

    index: int
    p_value: float


def cuts_of(places: Floats, *, least_shift: float, certainty: float = CERTAINTY) -> list[Cut]:
    """The cuts between levels of a series on its scale, which differ by `least_shift` or more."""
    if len(places) < 2 * SHORTEST:
        return []
    smooth, spread = _without_outliers(places)
    search = _Search(places, smooth, spread, least_shift, certainty)
    indices = search.split(0, len(places))
    return search.settle(sorted(indices))


def _without_outliers(places: Floats) -> tuple[Floats, float]:
    """The series with what stands out of its neighbourhood clipped, and the spread within neighbourhoods."""
    half = _NEIGHBOURS // 2
    padded = np.concatenate([places[half:0:-1], places, places[-2 : -half - 2 : -1]])
    middle = np.sort(sliding_window_view(padded, _NEIGHBOURS), axis=1)[:, half]
    rest = places - middle
    spread = max(1.4826 * float(np.sort(np.abs(rest))[len(rest) // 2]), LEAST_SPREAD)
    return middle + np.clip(rest, -2.5 * spread, 2.5 * spread), spread


@dataclass(frozen=True, slots=True)
class _Search:
    places: Floats
    smooth: Floats
    spread: float
    least_shift: float
    certainty: float

    def split(self, start: int, end: int) -> list[int]:
        """The places where the level changes between `start` and `end`, found by halving again and again."""
        found = self._best(start, end)
        if found is None:
            return []
        return [*self.split(start, found), found, *self.split(found, end)]

    def _best(self, start: int, end: int) -> int | None:
        """The most likely cut that holds; after one that does not, the next a little way off."""
        contrast = self._contrast(start, end)
        for _ in range(_TRIES):
            if len(contrast) == 0:
                return None
            place = int(np.argmax(contrast))
            if contrast[place] < _WORTH_A_LOOK * self.spread:
                return None
            index = self._held(start, start + SHORTEST + place, end)
            if index is not None:
                return index
            contrast[max(0, place - SHORTEST) : place + SHORTEST + 1] = 0.0
        return None

    def _held(self, start: int, place: int, end: int) -> int | None:
        """Where near a place the level changes: as far as both levels reach, or nearby where one was short."""
        for width in reversed(_WIDTHS):
            low, high = max(start, place - width), min(end, place + width)
            index = self._moved(low, place, high)
            if self.chance(low, index, high) <= self.certainty:
                return index
        return None

    def _contrast(self, start: int, end: int) -> Floats:
        """For each place the difference of the means on its two sides, in standard errors of one run's spread."""
        sums = np.concatenate([[0.0], np.cumsum(self.smooth[start:end])])
        index = np.arange(SHORTEST, end - start - SHORTEST + 1)
        best = np.zeros(len(index))
        for width in _WIDTHS:
            before, after = np.minimum(width, index), np.minimum(width, end - start - index)
            means = (sums[index + after] - sums[index]) / after - (sums[index] - sums[index - before]) / before
            best = np.maximum(best, np.abs(means) / np.sqrt(1 / before + 1 / after))
        return best

    def _moved(self, start: int, index: int, end: int) -> int:
        """The cut where the runs around it are nearest to the two levels; outliers pull no more than others."""
        low, high = max(start, index - _WINDOW), min(end, index + _WINDOW)
        before, after = float(np.median(self.places[low:index])), float(np.median(self.places[index:high]))
        around = self.places[low:high]
        most = max(abs(after - before), 3 * self.spread) ** 2
        cost = np.minimum((around - before) ** 2, most) - np.minimum((around - after) ** 2, most)
        total = np.concatenate([[0.0], np.cumsum(cost)])
        shortest = min(SHORTEST, index - low, high - index)
        return low + shortest + int(np.argmin(total[shortest : len(total) - shortest]))

    def chance(self, start: int, index: int, end: int) -> float:
        """The chance that noise makes such a cut; 1 for one that is too small or that is a piece of a drift."""
        low, high = max(start, index - _WINDOW), min(end, index + _WINDOW)
        if self._is_hopeless(low, index, high):
            return 1.0
        noise = noise_of(blocks_of([[self.places[low:index], self.places[index:high]]]))
        before, after = noise.levels[0, -2:]
        if abs(after - before) < self.least_shift or self._is_drift(low, high, index, before, after):
            return 1.0
        return float(min(1.0, tail_of_difference(noise)[0] * len(self.places)))

    def _is_hopeless(self, low: int, index: int, high: int) -> bool:
        """Whether even a rough look says that noise explains the cut: most do, and the exact answer takes long."""
        before, after = self.smooth[low:index], self.smooth[index:high]
        difference = abs(float(after.mean()) - float(before.mean()))
        error = math.sqrt(float(before.var()) / len(before) + float(after.var()) / len(after))
        return difference < _ROUGHLY * self.least_shift or difference < _SURE * error

    def _is_drift(self, low: int, high: int, index: int, before: float, after: float) -> bool:
        """Whether a straight line is nearer to the runs than two levels are."""
        around = self.smooth[low:high]
        runs = np.arange(len(around)) - (len(around) - 1) / 2
        line = around.mean() + runs * float(runs @ around) / float(runs @ runs)
        levels = np.where(np.arange(low, high) < index, before, after)
        return float(np.sum((around - line) ** 2)) < float(np.sum((around - levels) ** 2))

    def settle(self, indices: list[int]) -> list[Cut]:
        """The cuts between neighbouring levels; the weakest are given up until all hold."""
        while indices:
            bounds = [0, *indices, len(self.places)]
            indices = [self._moved(*bounds[place : place + 3]) for place in range(len(indices))]
            bounds = [0, *indices, len(self.places)]
            chances = [self.chance(*bounds[place : place + 3]) for place in range(len(indices))]
            weakest = int(np.argmax(chances))
            if chances[weakest] <= self.certainty:
                return [Cut(index, chance) for index, chance in zip(indices, chances, strict=True)]
            del indices[weakest]
        return []
