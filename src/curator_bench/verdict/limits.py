"""Limits that noise alone hardly ever exceeds, and the smallest change that a limit catches.

How far runs lie from their level is described by Student's t, for each side of it: its scale and how heavy its tail is
are not known, so all that explain the history count, each as well as it does. Few runs leave room for heavy tails, and
so for wide limits; runs far away make them wide as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curator_bench.verdict.distributions import Bools, Floats, t_score
from curator_bench.verdict.judgement import Level
from curator_bench.verdict.noise import BLOCK, LEAST_NOISE
from curator_bench.verdict.scale import Scale, scale_of

RATE = 1 / 1000
"""The share of runs that may fail by noise alone."""
FEWEST = 30
"""The fewest runs that tell enough of the noise."""
FEWEST_OF_LEVEL = 5
"""The fewest runs of the present level."""
_RESERVE = 0.35
"""The share of `RATE` that limits use. The rest is for runs that depend on each other, and tails of other shapes."""
_MOST = 500
_AS_NORMAL = 1.4826
_FOUND = 0.84
"""In units of noise: a run is beyond the limit 80 % of the time if its level exceeds the limit by this much."""
_FREEDOMS = np.array([1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 100.0])
_WEIGHTS = np.array([0.03, 0.05, 0.10, 0.12, 0.15, 0.20, 0.20, 0.15])
"""How usual such tails are, before the history is looked at."""
_SCALES = np.exp(np.linspace(math.log(0.3), math.log(6.0), 61))
"""The scales that are tried, in units of the usual distance."""


class Tail:
    """How far runs lie from their level on one side: a mixture of tails, each with the weight that runs give it."""

    def __init__(self, distances: Floats, usual: float) -> None:
        self._scales = np.maximum(usual * _SCALES, LEAST_NOISE)
        ratios = (distances / self._scales[:, None]) ** 2
        freedoms = _FREEDOMS[:, None, None]
        fits = np.log1p(ratios / freedoms).sum(axis=2) * -(_FREEDOMS[:, None] + 1) / 2
        fits += len(distances) * (_log_density_at_zero()[:, None] - np.log(self._scales))
        fits += np.log(_WEIGHTS)[:, None]
        weights = np.exp(fits - fits.max())
        self._weights = weights / weights.sum()

    def chance(self, distance: float) -> float:
        """Return the chance that a run lies farther away on this side."""
        ratios = np.broadcast_to(distance / self._scales, self._weights.shape)
        beyond = np.exp(-t_score(ratios, np.broadcast_to(_FREEDOMS[:, None], ratios.shape)))
        return float((beyond * self._weights).sum())

    def distance(self, chance: float) -> float:
        """Return the distance that a run exceeds with this chance."""
        low, high = 0.0, LEAST_NOISE
        while self.chance(high) > chance:
            low, high = high, 2 * high
        for _ in range(30):
            half = (low + high) / 2
            low, high = (half, high) if self.chance(half) > chance else (low, half)
        return high


@dataclass(frozen=True, slots=True)
class Scatter:
    """The present level of a metric, and how its runs scatter around it."""

    scale: Scale
    level: float
    noise: float
    above: Tail
    below: Tail
    runs: int
    is_constant: bool
    """True if the metric never changed since its level began."""

    @property
    def place(self) -> float:
        """The level on the scale."""
        return float(self.scale.to(np.array([self.level]))[0])

    def limit(self, *, is_upper: bool, rate: float = RATE) -> float:
        """Return the limit that noise alone exceeds in fewer runs than this."""
        distance = (self.above if is_upper else self.below).distance(rate * _RESERVE)
        return self.scale.back(self.place + (distance if is_upper else -distance))

    def chance(self, limit: float, *, is_upper: bool) -> float:
        """Return the chance that noise alone carries a run beyond a limit."""
        if (limit < self.level) if is_upper else (limit > self.level):
            return 1.0
        return (self.above if is_upper else self.below).chance(self._distance(limit))

    def catches(self, limit: float, *, is_upper: bool) -> float:
        """Return the smallest change, as a fraction, that a limit catches in 80 % of runs."""
        reach = self._distance(limit) + _FOUND * self.noise
        return self.scale.change(self.place, self.place + (reach if is_upper else -reach))

    def _distance(self, limit: float) -> float:
        if self.scale.unit is None and limit <= 0:
            return math.inf
        return abs(float(self.scale.to(np.array([limit]))[0]) - self.place)


def scatter_of(values: Floats, levels: Sequence[Level]) -> Scatter | None:
    """Return the scatter of the newest runs around their levels; None if there are too few of them."""
    known: Bools = np.isfinite(values)
    newest = values[levels[-1].start :][known[levels[-1].start :]] if levels else values[:0]
    if known.sum() < FEWEST or len(newest) < FEWEST_OF_LEVEL:
        return None
    scale = scale_of(values[known])
    parts = [scale.to(part) for level in levels for part in _blocks(values[level.start : level.end])]
    deviations = np.concatenate([part - np.median(part) for part in parts if len(part) >= FEWEST_OF_LEVEL])[-_MOST:]
    usual = max(_AS_NORMAL * float(np.median(np.abs(deviations))), LEAST_NOISE)
    return Scatter(
        scale,
        float(np.median(newest[-BLOCK:])),
        usual,
        Tail(deviations[deviations > 0], usual),
        Tail(-deviations[deviations < 0], usual),
        len(deviations),
        is_constant=bool((newest == newest[0]).all()),
    )


def _blocks(values: Floats) -> list[Floats]:
    """Return the runs of a level in pieces, the newest of which are whole: in a long level, a drift is no scatter."""
    known = values[np.isfinite(values)]
    ends = range(len(known), 0, -BLOCK)
    return [known[max(end - BLOCK, 0) : end] for end in ends][::-1]


def _log_density_at_zero() -> Floats:
    return np.array(
        [
            math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
            for freedom in _FREEDOMS
        ]
    )
