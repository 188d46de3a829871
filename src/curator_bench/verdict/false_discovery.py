"""Chooses the tests that may be believed together: of all that are called shifts, only so many may be noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from curator_bench.verdict.distributions import Bools, Floats

RATE = 0.05
"""This share of what a session reports is noise; when nothing changed, it is how often anything is reported."""


def adjusted(p_values: Sequence[float] | Floats, *, tests: int | None = None, dependent: bool = False) -> Floats:
    """For each p-value the smallest rate of false discoveries at which it would be one of the discoveries.

    Benjamini and Hochberg's procedure: right for tests that are independent, or that are wrong together as the metrics
    of one run are. With `dependent` it is Benjamini and Yekutieli's, right however they hang together. `tests` is how
    many were made, where only the smallest p-values were kept.
    """
    values = np.asarray(p_values, dtype=np.float64)
    made = max(tests or 0, len(values))
    if len(values) == 0:
        return values
    price = float(np.sum(1.0 / np.arange(1, made + 1))) if dependent else 1.0
    order = np.argsort(values)
    rates = values[order] * made * price / np.arange(1, len(values) + 1)
    rates = np.minimum.accumulate(rates[::-1])[::-1]
    result = np.empty_like(values)
    result[order] = np.minimum(rates, 1.0)
    return result


def discoveries(
    p_values: Sequence[float] | Floats, *, rate: float = RATE, tests: int | None = None, dependent: bool = False
) -> Bools:
    """The tests that are discoveries, if this share of them may be false."""
    return adjusted(p_values, tests=tests, dependent=dependent) <= rate
