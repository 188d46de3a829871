"""Locate a step: the last run that is certainly before it, and the first that is certainly after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.noise import OUTLIER, noise_of, rows_may_be_empty

_SIDE = 25
"""The number of runs on each side of a step that tell where it lies, at most."""
_CERTAIN = 9.0
"""Least score. The step lies outside its range with a chance below one in 8,000, so hardly one of hundreds is wrong."""


def located(places: Floats, begins: Sequence[int]) -> list[tuple[int, int]]:
    """For each step, return the last run certainly before it and the first certainly after it.

    `begins` are the runs at which the steps most likely begin, in order. The ranges of two steps do not overlap.
    """
    bounds = [0, *begins, len(places)]
    halfway = [0, *((one + other + 1) // 2 for one, other in pairwise(begins)), len(places)]
    with rows_may_be_empty():
        return [
            _located(places, (start, at, end), within)
            for start, at, end, within in zip(bounds, begins, bounds[2:], pairwise(halfway), strict=False)
        ]


def _located(places: Floats, levels: tuple[int, int, int], within: tuple[int, int]) -> tuple[int, int]:
    """Return the same for the step between two levels, given by their bounds. The range lies `within` these runs."""
    start, at, end = max(levels[0], levels[1] - _SIDE), levels[1], min(levels[2], levels[1] + _SIDE)
    first, last = max(start, within[0]), min(end, within[1])
    against = np.cumsum(_evidence(places[start:at], places[at:end]))[first - start : last - start - 1]
    possible = first + np.flatnonzero(against - against.min() < _CERTAIN)
    return int(possible[0]), int(possible[-1]) + 1


def _evidence(before: Floats, after: Floats) -> Floats:
    """For each run, return the score by which it fits the level after better than the level before."""
    levels = np.median(before), np.median(after)
    scatter = np.concatenate([before - levels[0], after - levels[1]])
    noise = noise_of(scatter[None])
    spread, correlation = float(noise.spread[0]), float(noise.correlation[0])
    runs = np.concatenate([before, after])
    squares = ((runs - levels[0]) ** 2 - (runs - levels[1]) ** 2) / (2 * spread**2)
    most = _most(scatter, abs(levels[1] - levels[0]), spread)
    return np.clip(squares * (1 - correlation) / (1 + correlation), -most, most)


def _most(scatter: Floats, shift: float, spread: float) -> float:
    """Return the largest score of a single run. Outliers as far away as the other level reduce it."""
    strays = int(np.sum(np.abs(scatter) > max(shift / 2, OUTLIER * spread)))
    return math.log(len(scatter) / strays) if strays else math.inf
