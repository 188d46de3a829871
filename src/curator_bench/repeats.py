"""Several measured executions as one set of metrics: medians, with the spread beside them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from curator_bench.values import MACHINE, SUCCESS_METRIC, Repeat, Scalar, Stage, StageKind, means_success

_MOST_SAMPLES = 100
_COUNTS = frozenset(["count", "times_missing", "waits_missing", "bytes_in", "bytes_out", "retries", "failures"])
_FIGURES = tuple(field.name for field in fields(Stage) if field.name not in ("name", "kind", "parts"))


def combine(repeats: Sequence[Repeat]) -> dict[str, Scalar]:
    """Combine the metrics of a run's repeats. Those of a single repeat are unchanged.

    Numbers become medians, with `_min`, `_max`, `_std` and `_n` beside them unless the script has a metric of that
    name. A boolean is true if it is true in each repeat, and so is the run's success. Of anything else the last value
    counts. What the machine did is a mean, because a third of the repeats may be disturbed.
    """
    if len(repeats) == 1:
        return dict(repeats[0].metrics)
    names = dict.fromkeys(name for repeat in repeats for name in repeat.metrics)
    combined: dict[str, Scalar] = {}
    spreads: dict[str, Scalar] = {}
    for name in names:
        values = [repeat.metrics[name] for repeat in repeats if name in repeat.metrics]
        numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        if name == SUCCESS_METRIC:
            combined[name] = next((value for value in values if not means_success(value)), values[-1])
        elif name.startswith(MACHINE) and len(numbers) == len(values):
            combined[name] = statistics.fmean(numbers)
        elif len(numbers) == len(values):
            combined[name] = _median(numbers)
            spreads.update(_spread(name, numbers))
        else:
            combined[name] = all(values) if all(isinstance(value, bool) for value in values) else values[-1]
    return combined | {name: value for name, value in spreads.items() if name not in combined}


def thinned(samples: Sequence[float]) -> tuple[float, ...]:
    """Return at most 100 samples, evenly spread in time: a function of a microsecond has 100,000."""
    count = min(len(samples), _MOST_SAMPLES)
    return tuple(samples[number * len(samples) // count] for number in range(count))


def _median(numbers: Sequence[float]) -> float:
    """Return the median. It is NaN if any number is, so that it fails every bound. Integers stay exact if possible."""
    if any(isinstance(number, float) and math.isnan(number) for number in numbers):
        return math.nan
    low, high = statistics.median_low(numbers), statistics.median_high(numbers)
    if low == high:
        return low
    if isinstance(low, int) and isinstance(high, int) and (low + high) % 2 == 0:
        return (low + high) // 2
    return _as_float(low) / 2 + _as_float(high) / 2


def _spread(name: str, numbers: Sequence[float]) -> Mapping[str, Scalar]:
    floats = [_as_float(number) for number in numbers]
    return {
        f"{name}_min": min(numbers),
        f"{name}_max": max(numbers),
        f"{name}_std": _deviation(floats),
        f"{name}_n": len(numbers),
    }


def _deviation(numbers: Sequence[float]) -> float:
    """The sample standard deviation; 0 for a single value."""
    if len(numbers) < 2:
        return 0.0
    try:
        return statistics.stdev(numbers) if all(map(math.isfinite, numbers)) else math.nan
    except OverflowError:
        return math.inf


def _as_float(number: float) -> float:
    """Convert to a float; an integer that is too large becomes infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def combine_stages(repeats: Sequence[Sequence[Stage]]) -> tuple[Stage, ...]:
    """Combine the stages of a run's repeats: medians of their figures, over the repeats that know the figure.

    The order is that in which the stages began.
    """
    if len(repeats) == 1:
        return tuple(repeats[0])
    found: dict[tuple[StageKind, str], list[Stage]] = {}
    for stages in repeats:
        for stage in stages:
            found.setdefault((stage.kind, stage.name), []).append(stage)
    combined = [_median_stage(stages) for stages in found.values()]
    return tuple(sorted(combined, key=lambda stage: math.inf if stage.started_s is None else stage.started_s))


def _median_stage(stages: Sequence[Stage]) -> Stage:
    figures: dict[str, Any] = {}
    for name in _FIGURES:
        known = [value for stage in stages if (value := getattr(stage, name)) is not None]
        figures[name] = None if not known else statistics.median_low(known) if name in _COUNTS else _median(known)
    return replace(stages[-1], **figures)
