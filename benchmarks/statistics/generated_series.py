"""Series of benchmark results as nights leave them: six families of noise, with and without a step at the end.

A second set of families is harder than what is promised, to see what happens beyond.

`spread` is the standard deviation of one run as a fraction of the level; of the outliers' family it is that of the runs
that are none. All times are multiples of the level, which is 1 before the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Random: TypeAlias = np.random.Generator

SPREADS = (0.01, 0.10)
POINTS = (30, 200)


def normal(random: Random, points: int, spread: float) -> Floats:
    return 1 + spread * random.standard_normal(points)


def lognormal(random: Random, points: int, spread: float) -> Floats:
    width = math.sqrt(math.log1p(spread**2))
    return np.exp(width * random.standard_normal(points) - width**2 / 2)


def bimodal(random: Random, points: int, spread: float) -> Floats:
    """Runs are of a fast or of a slow kind, as on one or the other memory node; a tenth to nine tenths are slow."""
    slow, within = random.uniform(0.1, 0.9), random.uniform(0.2, 0.6)
    gap = math.sqrt((1 - within**2) / (slow * (1 - slow)))
    modes = gap * ((random.random(points) < slow) - slow)
    return 1 + spread * (within * random.standard_normal(points) + modes)


def outliers(random: Random, points: int, spread: float) -> Floats:
    """Of a hundred runs one to eight take 10 to 60 % longer, each for reasons of its own."""
    is_slow = random.random(points) < random.uniform(0.01, 0.08)
    return normal(random, points, spread) * np.where(is_slow, random.uniform(1.1, 1.6, points), 1.0)


def correlated(random: Random, points: int, spread: float) -> Floats:
    """Each run takes over 10 to 60 % of how far the one before was off: AR(1)."""
    return _correlated(random, points, spread, random.uniform(0.1, 0.6))


def _correlated(random: Random, points: int, spread: float, taken_over: float) -> Floats:
    off = random.standard_normal(points)
    off[1:] *= math.sqrt(1 - taken_over**2)
    for run in range(1, points):
        off[run] += taken_over * off[run - 1]
    return 1 + spread * off


def drifting(random: Random, points: int, spread: float) -> Floats:
    """Up to 1 % slower every 50 runs."""
    return normal(random, points, spread) * (1 + random.uniform(0, 0.01) * np.arange(points) / 50)


FAMILIES: dict[str, Callable[[Random, int, float], Floats]] = {
    "normal": normal,
    "lognormal": lognormal,
    "bimodal": bimodal,
    "outliers": outliers,
    "correlated": correlated,
    "drifting": drifting,
}


def skewed(random: Random, points: int, spread: float) -> Floats:
    """Most runs are a little faster than the mean, some are a lot slower."""
    shape = 0.6
    times = np.exp(shape * random.standard_normal(points))
    mean, deviation = math.exp(shape**2 / 2), math.sqrt(math.expm1(shape**2) * math.exp(shape**2))
    return 1 + spread * (times - mean) / deviation


def wide_modes(random: Random, points: int, spread: float) -> Floats:
    """Three runs in ten are slower by four times the spread, which is that of each mode."""
    return normal(random, points, spread) * np.where(random.random(points) < 0.3, 1 + 4 * spread, 1.0)


def many_outliers(random: Random, points: int, spread: float) -> Floats:
    """Every tenth run."""
    is_slow = random.random(points) < 0.1
    return normal(random, points, spread) * np.where(is_slow, random.uniform(1.1, 2.0, points), 1.0)


def strongly_correlated(random: Random, points: int, spread: float) -> Floats:
    return _correlated(random, points, spread, 0.6)


def steadily_drifting(random: Random, points: int, spread: float) -> Floats:
    return normal(random, points, spread) * (1 + 0.01 * np.arange(points) / 50)


HARDER: dict[str, Callable[[Random, int, float], Floats]] = {
    "skewed": skewed,
    "wide modes": wide_modes,
    "many outliers": many_outliers,
    "strongly correlated": strongly_correlated,
    "steadily drifting": steadily_drifting,
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a set of series has in common. Without a step they are clean; without a spread it is any from 1 to 10 %."""

    step: float = 0.0
    runs: int = 0
    """How many runs there are at the new level."""
    spread: float | None = None
    points: tuple[int, int] = POINTS

    @property
    def name(self) -> str:
        if not self.step:
            return "clean"
        return f"+{self.step:.0%} at {self.spread:.0%} spread, {self.runs} runs"


def generate(kind: Kind, family: str, count: int, seed: int) -> Iterator[Floats]:
    """So many series of this kind; the same for the same seed."""
    families = FAMILIES | HARDER
    places = [seed, list(families).index(family), round(1000 * kind.step), kind.runs, round(1000 * (kind.spread or 0))]
    random = np.random.default_rng(places)
    for _ in range(count):
        points = int(random.integers(kind.points[0], kind.points[1] + 1))
        spread = kind.spread or math.exp(random.uniform(*np.log(SPREADS)))
        series = families[family](random, points, spread)
        series[points - kind.runs :] *= 1 + kind.step
        yield series
