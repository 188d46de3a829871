"""How much a metric differs between environments that were measured in turns, without assuming how it scatters.

Each round gives one difference, so what drifts from round to round cancels out. The rounds are drawn again and again
(bootstrap-t, which unlike plain percentiles keeps what it promises for few rounds, too).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from curator_bench.verdict.cases import MIN_EFFECT
from curator_bench.verdict.direction import Better
from curator_bench.verdict.noise import LEAST_SPREAD
from curator_bench.verdict.scale import Scale, scale_of
from curator_bench.verdict.tails import Floats

DRAWS = 4000
ROUNDS = 3
"""Of fewer rounds nothing is said."""
_SEED = 20_260_118


class Compared(StrEnum):
    WORSE = "worse"
    BETTER = "better"
    DIFFERENT = "different"
    """Of a metric without a known direction."""
    SAME = "same"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class Paired:
    """From the mean of the first environment to that of the second, on their scale; fractions are of the first."""

    before: float
    after: float
    change: float
    interval: tuple[float, float]
    p_value: float


def paired_change(first: Floats, second: Floats, *, confidence: float = 0.95) -> Paired | None:
    """The change between rounds of two environments, in their order; None where there are too few of them."""
    rounds = min(len(first), len(second))
    if rounds < ROUNDS:
        return None
    first, second = first[:rounds], second[:rounds]
    scale = scale_of(np.concatenate([first, second]))
    places = scale.to(first), scale.to(second)
    before = float(np.mean(places[0]))
    middle, drawn, error = _drawn(places[1] - places[0])
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    bounds = middle - float(high) * error, middle - float(low) * error
    return Paired(
        before=scale.back(before),
        after=scale.back(before + middle),
        change=scale.change(before, before + middle),
        interval=(_at(scale, before, bounds[0]), _at(scale, before, bounds[1])),
        p_value=float((1 + np.sum(np.abs(drawn) >= abs(middle) / error)) / (1 + len(drawn))),
    )


def _at(scale: Scale, before: float, bound: float) -> float:
    return scale.change(before, before + bound)


def _drawn(differences: Floats) -> tuple[float, Floats, float]:
    """Their mean, the t values of means that are drawn from them, and the standard error."""
    chance = np.random.default_rng(_SEED)
    count = len(differences)
    middle = float(np.mean(differences))
    drawn = differences[chance.integers(0, count, size=(DRAWS, count))]
    least = LEAST_SPREAD / np.sqrt(count)
    error = max(float(np.std(differences, ddof=1)) / count**0.5, float(least))
    # A draw of one round again and again has no spread of its own; it must not look infinitely certain.
    errors = np.maximum(np.std(drawn, axis=1, ddof=1) / np.sqrt(count), 0.1 * error)
    return middle, (np.mean(drawn, axis=1) - middle) / errors, error


def compared(paired: Paired, better: Better | None, *, is_sure: bool, min_effect: float = MIN_EFFECT) -> Compared:
    """The verdict. `is_sure`: it is believed as one of all that were compared with it."""
    low, high = sorted(paired.interval)
    if is_sure and abs(paired.change) >= min_effect and (low > 0 or high < 0):
        if better is None:
            return Compared.DIFFERENT
        return Compared.WORSE if (paired.change > 0) == (better is Better.LESS) else Compared.BETTER
    return Compared.SAME if -min_effect < low and high < min_effect else Compared.UNSURE
