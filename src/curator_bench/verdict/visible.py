"""The smallest change that would have been found: 80 % of the time, with a given history and noise."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from curator_bench.verdict.cases import MIN_EFFECT
from curator_bench.verdict.distributions import t_value
from curator_bench.verdict.newest import CERTAIN, CERTAIN_OF_FEW, FEW, least_of
from curator_bench.verdict.noise import BLOCK

_FOUND = 0.84
"""In standard errors: a change is found 80 % of the time if it exceeds the least certain change by this much."""
_LARGEST = 700.0
"""The largest logarithm of a change; `exp` of more overflows."""


def visible_change(noise: float, history: int, newest: int = 1, *, least: float = MIN_EFFECT) -> float:
    """Return the smallest change, as a fraction, that is found 80 % of the time.

    There are `history` runs before the change and `newest` after it, which count as two at least. `least` is the
    smallest change that counts.
    """
    known, runs = min(max(history, 2), BLOCK), max(newest, 2)
    certain = CERTAIN_OF_FEW if known + runs < FEW else CERTAIN
    error = noise * math.sqrt(1 / runs + 1 / known)
    large, sure = _least_shift(runs, least), _deviations(certain, known - 1.0) * error
    return found_beyond(max(large, sure), error)


@cache
def _least_shift(runs: int, least: float) -> float:
    return math.log1p(float(least_of(np.array(float(runs)), np.array(least), np.array(False))))


@cache
def _deviations(certain: float, freedom: float) -> float:
    """Return the number of standard errors that are as certain as this score."""
    return float(t_value(math.exp(-certain), freedom))


def found_beyond(certain: float, error: float) -> float:
    """Return the change that is found 80 % of the time. The least certain one and its error are logarithms."""
    return math.expm1(min(certain + _FOUND * error, _LARGEST))
