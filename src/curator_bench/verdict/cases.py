"""Questions about a metric, its history, and its values as numbers on a scale where higher is worse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats, Ints
from curator_bench.verdict.scale import Scale, scale_of

MIN_EFFECT = 0.03
MIN_HISTORY = 5
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that make a change a regression. Fractions are fractions: 3 % is 0.03."""

    better: Better | None
    min_effect: float = MIN_EFFECT
    min_history: int = MIN_HISTORY


@dataclass(frozen=True, slots=True)
class Question:
    """One metric of one entry, whose newest runs are compared with the history or with a baseline of its own."""

    history: Floats
    newest: Floats
    rules: Rules
    baseline: Floats | None = None


@dataclass(frozen=True, slots=True)
class History:
    """All comparable runs of one metric of one entry on one kind of machine, the oldest first."""

    values: Floats
    rules: Rules


@dataclass(frozen=True, slots=True)
class Case:
    """The numbers of a metric, on their scale; higher is worse."""

    rules: Rules
    scale: Scale
    sign: float
    places: Floats
    indices: Ints
    """The index of each place among the given values."""

    def change(self, before: float, shift: float) -> float:
        """Convert a shift from a place on the scale to a fraction."""
        return self.scale.change(self.sign * before, self.sign * (before + shift))

    def value(self, place: float) -> float:
        return self.scale.back(self.sign * place)

    def interval(self, before: float, shift: float, reach: float) -> tuple[float, float]:
        low, high = sorted(self.change(before, one) for one in (shift - reach, shift + reach))
        return low, high

    def to(self, values: Floats) -> Floats:
        return self.sign * self.scale.to(values[np.isfinite(values)])


def case_of(values: Floats, rules: Rules, beside: Floats | None = None) -> Case:
    """Make the case. `beside` are further values of the metric, which only help to choose the scale."""
    indices = np.flatnonzero(np.isfinite(values))
    known = values[indices]
    scale = scale_of(known if beside is None else np.concatenate([known, beside[np.isfinite(beside)]]))
    sign = -1.0 if rules.better is Better.MORE else 1.0
    return Case(rules, scale, sign, sign * scale.to(known), indices)
