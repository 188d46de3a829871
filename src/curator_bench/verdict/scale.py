"""The scale on which a metric is judged: its logarithm, so that +10 % counts the same at one second and at one hour.

A metric that is sometimes zero or negative has no logarithm, and is judged in units of its usual size.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curator_bench.verdict.distributions import Floats

_LARGEST = math.log(sys.float_info.max)
_FARTHEST = 1e12
"""In units of the usual size: farther values count as this far, so that their squares do not overflow."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Convert values of one metric to distances; `unit` is the usual size if values are not always positive."""

    unit: float | None = None
    least: float = -math.inf
    """The smallest value that the metric can have: 0 if it is never negative, as for times and counts."""

    def to(self, values: Floats) -> Floats:
        if self.unit is None:
            return np.log(values)
        with np.errstate(over="ignore"):
            return np.clip(values / self.unit, -_FARTHEST, _FARTHEST)

    def back(self, place: float) -> float:
        return math.exp(min(place, _LARGEST)) if self.unit is None else max(place, self.least) * self.unit

    def fraction(self, distance: float, level: float) -> float:
        """Convert a distance to a fraction of a level, which is a value of the metric."""
        if self.unit is None:
            return distance
        return distance * self.unit / abs(level) if level else math.inf

    def change(self, before: float, after: float) -> float:
        """Return the change from one place to another as a fraction of the first; infinite from zero."""
        if self.unit is None:
            return math.expm1(min(after - before, _LARGEST))
        before, after = max(before, self.least), max(after, self.least)
        if before == after:
            return 0.0
        return (after - before) / abs(before) if before else math.copysign(math.inf, after - before)


def scale_of(values: Floats) -> Scale:
    if np.all(values > 0):
        return Scale()
    sizes = np.abs(values[values != 0])
    least = 0.0 if np.all(values >= 0) else -math.inf
    return Scale(float(np.median(sizes)) if len(sizes) else 1.0, least)


def as_floats(values: Sequence[float] | Floats) -> Floats:
    return np.asarray(values, dtype=np.float64).reshape(-1)
