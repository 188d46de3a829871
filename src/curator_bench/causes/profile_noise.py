"""Measures how much the times of functions differ between profiles while nothing changes, and what most of them share.

Two things add up: a sample hits one function or another by chance, and runs differ. Chance matters for short functions,
the runs for long ones. How much each is, is told by the functions themselves, as most of them did not change: by the
scatter of their changes between the sides, and between the runs of a side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from curator_bench.causes.profile_samples import Groups, Samples
from curator_bench.verdict.distributions import Bools, Floats

_FEWEST_TO_SHARE = 4
"""With fewer functions, one of them moves the median too much."""
_FEWEST_SAMPLES = 40
"""With fewer, chance hides how much the runs differ."""
_FURTHEST = 4.0
"""Squared deviations count up to here: functions that changed must not pass for noise."""
_EXPECTED = 0.9205
"""Mean of the square of a normal value that counts up to `_FURTHEST`."""
_USUAL, _KNOWN = 0.02, 8
"""The usual difference of a function between runs, and the number of functions that it counts as."""
_LEAST = 0.005
_LITTLE = 0.2
"""A function computes if it waits for less than this part of its time."""
_ROUNDS = 4
_NEAR = 1.5
"""In standard errors: functions further from what all share count as if they were so near."""
_CLEARLY = 2.0
"""In standard errors: how much more a function must scatter between runs than others to count by itself."""
_LARGEST_WEIGHT, _MOST_SHARED_ERROR = 0.1, 0.05
_USUAL_CLUMPS, _KNOWN_CLUMPS = 1.0, 15


@dataclass(frozen=True, slots=True)
class Noise:
    """The change that two sides of profiles share, and how much functions scatter."""

    shift: float
    """Change, as a logarithm, that functions that compute share: of a slower machine."""
    shift_error: float
    spread: tuple[float, float]
    """Standard deviation between runs, beyond chance, as a fraction: of functions that compute, and that wait."""
    clumps: float
    """Variance of samples by that of independent ones: those of one long call belong together."""
    grain: tuple[float, float]
    """Variance of the time of a group on each side through sampling, per second of it."""
    runs: tuple[int, int]

    def variance(self, level: Floats, spread: Floats, shift_error: Floats) -> Floats:
        """Variance of the difference of groups at this level, each with its spread."""
        of_runs = sum(1 / count for count in self.runs) * spread**2
        return level * self.clumps * sum(self.grain) + level**2 * (of_runs + shift_error**2)

    def level(self, before: Floats, after: Floats) -> Floats:
        """Time of groups if both sides are the same."""
        if not all(self.grain):
            return (before + after) / 2
        weights = 1 / np.array(self.grain)
        level: Floats = (before * weights[0] + after * weights[1]) / weights.sum()
        return level


def noise_of(samples: Samples, groups: Groups) -> Noise:
    """Estimate the noise from the own times of all functions."""
    sides = samples.of_sides(groups.summed(samples.times))
    first = samples.runs[0]
    of_runs = samples.grain[:first], samples.grain[first:]
    grain = tuple(float(one.mean()) / len(one) for one in of_runs)
    plain = Noise(0.0, 0.0, (_USUAL, _USUAL), _USUAL_CLUMPS, (grain[0], grain[1]), samples.runs)
    enough = _known(samples, groups, sides)
    waits = groups.waiting_shares(samples)
    computing = enough & (waits < _LITTLE)
    shift, error = _shared(plain, *(side[computing] for side in sides))
    shifted = replace(plain, shift=shift, shift_error=error)
    clumps, spread = _scatter(shifted, samples, groups, (enough & (waits < 0.5), enough & (waits >= 0.5)))
    return replace(shifted, clumps=clumps, spread=spread)


def _known(samples: Samples, groups: Groups, sides: tuple[Floats, Floats]) -> Bools:
    """Return which groups are functions with enough samples to tell the noise."""
    least = [_FEWEST_SAMPLES * float(samples.grain.mean()) / count for count in samples.runs]
    known: Bools = groups.functions & (sides[0] > least[0]) & (sides[1] > least[1])
    return known


def _shared(noise: Noise, before: Floats, after: Floats) -> tuple[float, float]:
    """Return the change that most functions share, as a logarithm, and its standard error."""
    if len(before) < _FEWEST_TO_SHARE:
        return 0.0, 0.0
    changes = np.log(after / before)
    level = noise.level(before, after)
    errors = np.sqrt(noise.variance(level, np.full(len(level), _USUAL), np.zeros(len(level)))) / level
    shift = float(np.median(changes))
    weights = _bounded(errors**-2)
    for _ in range(_ROUNDS):
        near = shift + np.clip(changes - shift, -_NEAR * errors, _NEAR * errors)
        shift = float(np.sum(weights * near))
    return shift, min(1.1 * float(np.sum((weights * errors) ** 2)) ** 0.5, _MOST_SHARED_ERROR)


def _bounded(weights: Floats) -> Floats:
    """Return weights that sum to one, none of which is large: a function that has most of the time may have changed."""
    most = max(_LARGEST_WEIGHT, 1 / len(weights))
    bounded: Floats = weights / weights.sum()
    for _ in range(_ROUNDS):
        bounded = np.minimum(bounded, most)
        bounded = bounded / bounded.sum()
    return bounded


def restless(noise: Noise, times: Floats, samples: Samples, spread: Floats) -> Floats:
    """Return how many times as much the variance of each group is: above one if its runs clearly scatter more."""
    first = samples.runs[0]
    parts = [_within(times[:, part], samples.grain[part]) for part in (slice(None, first), slice(first, None))]
    freedom = sum(samples.runs) - 2
    if not freedom:
        return np.ones(len(times))
    total = np.zeros(len(times))
    for part, runs in zip(parts, samples.runs, strict=True):
        expected = noise.clumps * part.by_chance + spread**2 * part.by_spread
        total += (runs - 1) * part.squares / np.maximum(expected, 1e-300)
    more = total / freedom
    return np.where(more > 1 + _CLEARLY * math.sqrt(2 / freedom), more, 1.0)


def weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def _scatter(
    noise: Noise, samples: Samples, groups: Groups, chosen: tuple[Bools, Bools]
) -> tuple[float, tuple[float, float]]:
    """Return how samples clump, and how much functions that compute and that wait scatter. Few scatter as all do."""
    times = samples.times.copy()
    times[~samples.is_waiting, samples.runs[0] :] *= math.exp(-noise.shift)
    summed = groups.summed(times)
    errors = noise.shift_error, 0.0
    parts = [_deviations(noise, samples, summed[rows], error) for rows, error in zip(chosen, errors, strict=True)]
    both = _joined(parts)
    clumps, common = _USUAL_CLUMPS, _USUAL
    for _ in range(_ROUNDS):
        clumps = _clumps(both, common)
        common = _spread(both, clumps, _USUAL)
    return clumps, (_spread(parts[0], clumps, common), _spread(parts[1], clumps, common))


@dataclass(frozen=True, slots=True)
class _Deviations:
    """Squared deviations, what chance explains of each, and how much each grows with the square of the spread."""

    squares: Floats
    by_chance: Floats
    by_spread: Floats
    by_shift: Floats

    @property
    def by_usual(self) -> Floats:
        """Return the part of each that the usual spread explains: how much it tells of the spread."""
        own = _USUAL**2 * self.by_spread
        return own / np.maximum(own + self.by_chance, 1e-300)

    def excess(self, clumps: float, spread: float, weights: Floats) -> float:
        """Return by how much the deviations exceed what these explain."""
        explained = clumps * self.by_chance + spread**2 * self.by_spread + self.by_shift
        scaled = self.squares / np.maximum(explained, 1e-300)
        return float(np.sum(_bounded(weights) * np.minimum(scaled, _FURTHEST))) - _EXPECTED


def _joined(parts: list[_Deviations]) -> _Deviations:
    names = ("squares", "by_chance", "by_spread", "by_shift")
    return _Deviations(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _deviations(noise: Noise, samples: Samples, times: Floats, shift_error: float) -> _Deviations:
    """Collect how far functions deviate: between the sides, and between the runs of each."""
    before, after = samples.of_sides(times)
    level = noise.level(before, after)
    per_run = sum(1 / count for count in samples.runs)
    by_shift = level**2 * shift_error**2
    between = _Deviations((after - before) ** 2, level * sum(noise.grain), level**2 * per_run, by_shift)
    first = samples.runs[0]
    within = [
        _within(times[:, part], samples.grain[part])
        for part in (slice(None, first), slice(first, None))
        if len(samples.grain[part]) > 1 and len(times)
    ]
    return _joined([between, *within])


def _within(times: Floats, grain: Floats) -> _Deviations:
    """Collect how far the runs of one side deviate, beyond what all functions of a run share."""
    level = times.mean(axis=1)
    if times.shape[1] < 2:
        none, one = np.zeros(len(level)), np.ones(len(level))
        return _Deviations(none, one, one, none)
    ratios = times / np.maximum(level, 1e-300)[:, None]
    own = np.array([weighted_median(run, np.sqrt(level)) for run in ratios.T])
    rest = times / np.where(own > 0, own, 1.0)
    squares = rest.var(axis=1, ddof=1)
    return _Deviations(squares, level * float(grain.mean()), level**2, np.zeros(len(level)))


def _clumps(found: _Deviations, spread: float) -> float:
    """Return how samples clump, drawn to the usual."""
    weights = 1 - found.by_usual
    told = float(np.sum(weights**2))
    if told < 1e-9:
        return _USUAL_CLUMPS
    own = _root(lambda clumps: found.excess(clumps, spread, weights), 0.0, 20.0)
    return max(1.0, (_KNOWN_CLUMPS * _USUAL_CLUMPS + told * own) / (_KNOWN_CLUMPS + told))


def _spread(found: _Deviations, clumps: float, usual: float) -> float:
    """Return the spread with which the deviations are as large as they should be, drawn to the usual one.

    What little is told of it where chance is larger is not needed there either.
    """
    weights = found.by_usual
    told = float(np.sum(weights**2))
    if told < 1e-9:
        return usual
    own = _root(lambda spread: found.excess(clumps, spread, weights), 0.0, 1.0)
    return max(_LEAST, math.sqrt((_KNOWN * usual**2 + told * own**2) / (_KNOWN + told)))


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Return where a falling function is zero."""
    for _ in range(25):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return high
