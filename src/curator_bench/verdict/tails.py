"""Tail probabilities, and the variance of means of correlated values: the little that numpy lacks."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

LEAST = 1e-300
"""A chance below this is as good as none, and this still has a logarithm."""

_complementary_error = np.vectorize(math.erfc, otypes=[float])


def normal_tail(score: Floats) -> Floats:
    """The chance that a standard normal value exceeds each score."""
    tail: Floats = _complementary_error(score / math.sqrt(2))
    return np.maximum(tail / 2, LEAST)


def t_tail(score: Floats, freedom: Floats) -> Floats:
    """The same for Student's t: Wallace's transformation to a normal score, which errs a little to the safe side."""
    as_normal = np.sqrt(freedom * np.log1p(score**2 / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    return normal_tail(np.sign(score) * as_normal)


def variance_of_mean(count: Floats, correlation: Floats) -> Floats:
    """Of the mean of `count` values of unit variance, each correlated with the one before (AR(1))."""
    rest = 1.0 - correlation
    return ((1.0 + correlation) / rest - 2.0 * correlation * (1.0 - correlation**count) / (count * rest**2)) / count


def covariance_of_neighbours(count: Floats, other: Floats, correlation: Floats) -> Floats:
    """Between the means of two stretches of such values of which one follows the other."""
    faded = (1.0 - correlation**count) * (1.0 - correlation**other)
    return correlation / (1.0 - correlation) ** 2 * faded / (count * other)
