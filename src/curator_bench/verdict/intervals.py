"""Measure the change of a metric between two sets of runs, with its p-value and interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curator_bench.verdict.cases import CONFIDENCE
from curator_bench.verdict.distributions import Floats, t_score, t_value, variance_of_mean
from curator_bench.verdict.noise import noise_of, rows_may_be_empty, table_of
from curator_bench.verdict.scale import Scale, as_floats, scale_of


@dataclass(frozen=True, slots=True)
class Change:
    """A change from one level to another, as a fraction of the level before: 0.1 is 10 % more."""

    before: float
    after: float
    change: float
    interval: tuple[float, float]
    p_value: float
    """The chance that noise alone makes two levels differ as much, in either direction."""
    error: float = 0.0
    """Standard error of the change."""


def change_between(
    before: Sequence[float] | Floats, after: Sequence[float] | Floats, *, confidence: float = CONFIDENCE
) -> Change:
    """Measure the change between two stretches of runs, each on one level and in the order of measurement.

    Outliers do not count, and runs that resemble the run before them count less.
    """
    first, second = as_floats(before), as_floats(after)
    scale = scale_of(np.concatenate([first, second]))
    table, _ = table_of([scale.to(first), scale.to(second)])
    with rows_may_be_empty():
        noise = noise_of(table)
    weights = np.maximum(noise.count - 1, 0)
    variance = float(weights @ noise.variance) / max(float(weights.sum()), 1.0)
    variances = np.maximum(noise.variance, variance) * variance_of_mean(noise.count, noise.correlation)
    levels = noise.level.tolist()
    freedom = max(float(noise.freedom.sum()), 2.0)
    return _change(scale, (levels[0], levels[1] - levels[0]), math.sqrt(float(variances.sum())), freedom, confidence)


def _change(scale: Scale, found: tuple[float, float], error: float, freedom: float, confidence: float) -> Change:
    level, shift = found
    reach = float(t_value((1 - confidence) / 2, freedom)) * error
    score = float(t_score(np.array(abs(shift) / error), np.array(freedom)))
    return Change(
        before=scale.back(level),
        after=scale.back(level + shift),
        change=scale.change(level, level + shift),
        interval=(scale.change(level, level + shift - reach), scale.change(level, level + shift + reach)),
        p_value=min(1.0, 2 * math.exp(-score)),
        error=scale.fraction(error, scale.back(level)),
    )
