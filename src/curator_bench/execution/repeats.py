"""Several measured executions as one set of metrics: medians, with the spread beside them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from curator_bench.values import Repeat, Scalar


def combine(repeats: Sequence[Repeat]) -> dict[str, Scalar]:
    """The metrics of a run. Of one repeat they are its own.

    Of several: numbers become medians, with `_min`, `_max`, `_std` and `_n` beside them; a truth holds when it held
    each time; of anything else the last value counts.
    """
    if len(repeats) == 1:
        return dict(repeats[0].metrics)
    combined: dict[str, Scalar] = {}
    for name in dict.fromkeys(name for repeat in repeats for name in repeat.metrics):
        values = [repeat.metrics[name] for repeat in repeats if name in repeat.metrics]
        combined.update(_combined(name, values))
    return combined


def _combined(name: str, values: Sequence[Scalar]) -> Mapping[str, Scalar]:
    if all(isinstance(value, bool) for value in values):
        return {name: all(values)}
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) != len(values):
        return {name: values[-1]}
    return {
        name: _median(numbers),
        f"{name}_min": min(numbers),
        f"{name}_max": max(numbers),
        f"{name}_std": _spread(numbers),
        f"{name}_n": len(numbers),
    }


def _median(numbers: Sequence[float]) -> float:
    """Not a number when one of them is not: it must fail any bound."""
    if any(math.isnan(number) for number in numbers):
        return math.nan
    middle = statistics.median(numbers)
    return int(middle) if all(isinstance(n, int) for n in numbers) and middle == int(middle) else middle


def _spread(numbers: Sequence[float]) -> float:
    """The sample standard deviation; 0 for a single value."""
    if len(numbers) < 2:
        return 0.0
    return statistics.stdev(map(float, numbers)) if all(map(math.isfinite, numbers)) else math.nan
