"""Functions that numpy lacks: tail probabilities as scores, and the variance of means of correlated values.

A score is minus the natural logarithm of a probability: 7 is about one in 1,000, 8 one in 3,000. It cannot underflow.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.intp]

# Chebyshev's fit to the logarithm of erfc (Numerical Recipes), right to 1 in 10 million.
_FIT = (0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368)
_AT_ZERO = -1.26551223


def normal_score(values: Floats) -> Floats:
    """Score of the chance that a standard normal value exceeds each of these."""
    size = np.abs(values) / math.sqrt(2)
    place = 1 / (1 + size / 2)
    fitted = _AT_ZERO + place * np.polyval(_FIT, place)
    score = size**2 - fitted - np.log(place) + math.log(2)
    return np.where(values >= 0, score, -np.log1p(-np.exp(-score)))


def t_score(values: Floats, freedom: Floats) -> Floats:
    """Score of the chance that Student's t exceeds these. Wallace's transformation errs a little to the safe side."""
    as_normal = np.sqrt(freedom * np.log1p(values**2 / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    return normal_score(np.sign(values) * as_normal)


def t_value(tail: float, freedom: Floats | float) -> Floats:
    """The value that Student's t exceeds with this chance: the inverse of `t_score`."""
    freedom = np.asarray(freedom, dtype=np.float64)
    as_normal = NormalDist().inv_cdf(1 - tail) * (8 * freedom + 3) / (8 * freedom + 1)
    value: Floats = np.sqrt(freedom * np.expm1(np.minimum(as_normal**2 / freedom, 500.0)))
    return value


def variance_of_mean(count: Floats | float, correlation: Floats) -> Floats:
    """Variance of the mean of `count` values of unit variance, each correlated with the one before (AR(1))."""
    rest = 1.0 - correlation
    variance: Floats = (
        (1.0 + correlation) / rest - 2.0 * correlation * (1.0 - correlation**count) / (count * rest**2)
    ) / count
    return variance
