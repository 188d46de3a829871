"""Control of false discoveries: choose test results so that only a small share of them is noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from curator_bench.verdict.distributions import Bools, Floats

RATE = 0.05
"""The share of noise among all that a session reports. If nothing changed, the chance that anything is reported."""


def adjusted(p_values: Sequence[float] | Floats, *, tests: int = 0) -> Floats:
    """For each p-value, return the smallest rate of false discoveries at which it is a discovery.

    By Benjamini and Hochberg, for tests that are independent or positively correlated, as the metrics of one run are.
    `tests` is the number of tests made, if only the smallest p-values were kept.
    """
    values = np.asarray(p_values, dtype=np.float64)
    made = max(tests, len(values))
    if len(values) == 0:
        return values
    order = np.argsort(values)
    rates = values[order] * made / np.arange(1, len(values) + 1)
    rates = np.minimum.accumulate(rates[::-1])[::-1]
    result = np.empty_like(values)
    result[order] = np.minimum(rates, 1.0)
    return result


def discoveries(p_values: Sequence[float] | Floats, *, rate: float = RATE) -> Bools:
    """Return the tests that are discoveries, if this share of them may be false."""
    return adjusted(p_values) <= rate
