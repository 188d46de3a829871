"""Judge the changes of several parts of the same runs at once: simultaneous intervals, and what all parts share.

A slower machine makes every part slower, and a disturbed run all of its parts. Such a shift is told apart from the
changes of single parts: it is the median over the parts, if most of them moved alike or scatter together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from curator_bench.verdict.cases import MIN_EFFECT
from curator_bench.verdict.distributions import Floats, t_value
from curator_bench.verdict.intervals import Change, change_between
from curator_bench.verdict.judgement import Word, word_by
from curator_bench.verdict.noise import rows_may_be_empty

CONFIDENCE = 0.99
"""The chance that all intervals of a comparison hold at once. A part whose interval excludes zero is certain."""
FEWEST = 3
"""With fewer runs on a side, the noise is not known, and every word is inconclusive."""
MOST_RUNS = 30
_FEWEST_TO_SHARE, _FEWEST_TO_CENTRE = 3, 4
"""Of two parts, none can be told from what they share; the median of three is moved too much by one of them."""
_MOST_OF_THEM = 0.75
_SCATTER_TOGETHER = 0.5
_LEAST_ERROR = 0.8
"""Of the median error of the parts: few runs of one part may be alike by chance."""
_FOUND = 0.84
"""In standard errors: a change is found 80 % of the time if it exceeds the least certain change by this much."""


@dataclass(frozen=True, slots=True)
class Part:
    """Values of one part in each run of both sides; NaN where a run did not record it."""

    before: Floats
    after: Floats
    least: float = MIN_EFFECT
    """The smallest change of this part that counts, as a fraction."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The change of one part. Fractions are fractions: 0.2 is 20 % more."""

    word: Word
    change: float
    interval: tuple[float, float] | None
    """Simultaneous with those of the other parts; None with too few runs."""
    beyond: float
    """The change beyond what all parts share; the same as `change` if they share nothing."""
    error: float | None
    """Standard error of `beyond`, as a logarithm."""
    runs: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Joint:
    """The changes of all parts, in their order, and the shift they share."""

    parts: tuple[Judged, ...]
    shared: Judged | None
    """None if the parts do not move together."""


def joint_changes(parts: Sequence[Part], *, confidence: float = CONFIDENCE, limit: float = MIN_EFFECT) -> Joint:
    """Judge all parts at once. Values must be positive; `limit` is the smallest shared shift that counts."""
    counted = [(_count(part.before), _count(part.after)) for part in parts]
    known = [place for place, runs in enumerate(counted) if min(runs) >= FEWEST]
    own = 1 - (1 - confidence) / max(len(known), 1)
    raw = {place: _between(parts[place], own) for place in known}
    shift = _Shift.of([parts[place] for place in known], [math.log1p(raw[place].change) for place in known])
    beyond = dict(raw)
    if shift is not None:
        beyond = {place: _between(part, own) for place, part in zip(known, shift.rest, strict=True)}
    least = _LEAST_ERROR * float(np.median([one.error for one in beyond.values()])) if len(known) > 1 else 0.0
    beyond = {place: _widened(one, least) for place, one in beyond.items()}
    judged = tuple(
        _judged(part, raw[place], beyond[place], runs) if place in raw else _unknown(part, runs)
        for place, (part, runs) in enumerate(zip(parts, counted, strict=True))
    )
    return Joint(judged, None if shift is None else _shared(shift, confidence, limit))


def _count(values: Floats) -> int:
    return int(np.isfinite(values).sum())


def _between(part: Part, confidence: float) -> Change:
    before, after = (side[np.isfinite(side)] for side in (part.before, part.after))
    return change_between(before, after, confidence=confidence)


def _widened(found: Change, error: float) -> Change:
    """Return the change with at least this error."""
    if found.error >= error or not found.error:
        return found
    middle, (low, high) = math.log1p(found.change), map(math.log1p, found.interval)
    more = error / found.error
    interval = math.expm1(middle - more * (middle - low)), math.expm1(middle + more * (high - middle))
    return replace(found, interval=interval, error=error)


def _unknown(part: Part, runs: tuple[int, int]) -> Judged:
    change = math.nan
    if min(runs):
        before, after = (float(np.nanmean(side)) for side in (part.before, part.after))
        change = after / before - 1
    return Judged(Word.INCONCLUSIVE, change, None, change, None, runs)


def _judged(part: Part, raw: Change, beyond: Change, runs: tuple[int, int]) -> Judged:
    """Judge by the change beyond the shared one. A part that did not get slower itself is no regression."""
    is_certain = not beyond.interval[0] <= 0 <= beyond.interval[1]
    smaller = min(raw.change, beyond.change, key=abs) if raw.change * beyond.change > 0 else 0.0
    word = word_by(smaller, part.least, is_worse=smaller > 0, is_certain=is_certain)
    return Judged(word, raw.change, beyond.interval, beyond.change, beyond.error, runs)


@dataclass(frozen=True, slots=True)
class _Shift:
    """The change that all parts share, in each run of both sides, and the parts without it."""

    before: Floats
    after: Floats
    rest: tuple[Part, ...]

    @classmethod
    def of(cls, parts: Sequence[Part], shifts: Sequence[float]) -> _Shift | None:
        """Find the shared shift; None if the parts neither moved alike nor scatter together."""
        if len(parts) < _FEWEST_TO_SHARE:
            return None
        before, after = (np.log(np.array([getattr(part, side) for part in parts])) for side in ("before", "after"))
        with rows_may_be_empty():
            levels = [np.nanmean(side, axis=1, keepdims=True) for side in (before, after)]
            own = [np.nanmedian(side - level, axis=0) for side, level in zip((before, after), levels, strict=True)]
            is_together = len(parts) >= _FEWEST_TO_CENTRE and _scatter_together((before, after), levels, own)
        if not is_together:
            own = [np.zeros_like(one) for one in own]
        shift = float(np.median(shifts))
        if not is_together and not _moved_alike(np.array(shifts), shift):
            return None
        rest = tuple(
            Part(np.exp(first - own[0]), np.exp(second - own[1] - shift), part.least)
            for part, first, second in zip(parts, before, after, strict=True)
        )
        with rows_may_be_empty():
            of_runs = [np.nanmedian(side - levels[0], axis=0) for side in (before, after)]
        return cls(np.exp(of_runs[0]), np.exp(of_runs[1]), rest)


def _moved_alike(shifts: Floats, shift: float) -> bool:
    return float(np.mean(shifts * np.sign(shift) >= abs(shift) / 2)) >= _MOST_OF_THEM


def _scatter_together(sides: Sequence[Floats], levels: Sequence[Floats], own: Sequence[Floats]) -> bool:
    """Tell whether the parts of a run are fast or slow together: then most of their scatter is that of the run."""
    pairs = list(zip(sides, levels, own, strict=True))
    together = np.concatenate([side - level for side, level, _ in pairs], axis=1)
    apart = np.concatenate([side - level - one for side, level, one in pairs], axis=1)
    parts = len(together)
    scatter, rest = (float(np.nanmedian(np.nanvar(one, axis=1))) for one in (together, apart))
    return rest * parts / (parts - 1) < _SCATTER_TOGETHER * scatter


def _shared(shift: _Shift, confidence: float, limit: float) -> Judged:
    part = Part(shift.before, shift.after, limit)
    change = _between(part, confidence)
    return _judged(part, change, change, (len(shift.before), len(shift.after)))


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two means in the unit of the values."""

    before: float
    after: float
    interval: tuple[float, float] | None
    """None with too few runs."""

    @property
    def value(self) -> float:
        return self.after - self.before


def difference(before: Floats, after: Floats, *, confidence: float = CONFIDENCE) -> Difference:
    """Measure the difference of the means of two sets of runs, by Welch's t."""
    first, second = (float(np.mean(side)) for side in (before, after))
    if min(len(before), len(after)) < FEWEST:
        return Difference(first, second, None)
    squares = [float(np.var(side, ddof=1)) / len(side) for side in (before, after)]
    total = sum(squares)
    inner = sum(one**2 / (len(side) - 1) for one, side in zip(squares, (before, after), strict=True))
    freedom = total**2 / inner if inner else float(len(before) + len(after) - 2)
    reach = float(t_value((1 - confidence) / 2, freedom)) * math.sqrt(total)
    return Difference(first, second, (second - first - reach, second - first + reach))


def more_runs(judged: Judged, parts: int, *, confidence: float = CONFIDENCE) -> int | None:
    """Return how many more runs on each side would probably make this change certain; None if too many."""
    fewest = max(FEWEST - min(judged.runs), 0)
    if judged.error is None:
        return max(fewest, 1)
    before, after = judged.runs
    noise = judged.error / math.sqrt(1 / before + 1 / after)
    size = abs(math.log1p(judged.beyond))
    for more in range(max(fewest, 1), MOST_RUNS + 1):
        first, second = before + more, after + more
        error = noise * math.sqrt(1 / first + 1 / second)
        least = float(t_value((1 - confidence) / max(parts, 1) / 2, first + second - 2.0))
        if (least + _FOUND) * error <= size:
            return more
    return None
