"""Selects and orders the metrics to show, by their names."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from curator_bench.values import MACHINE

SPREAD = ("min", "max", "std", "n")
"""Endings of metrics that show the spread of another metric's repeats."""
BOOKKEEPING = frozenset(["exit_code"])
_OF_ROUNDS = frozenset(
    [
        *("min_s", "max_s", "mean_s", "stddev_s", "iqr_s", "q1_s", "q3_s", "total_s"),
        *("ops_per_sec", "rounds", "iterations"),
    ]
)
"""Further statistics of pytest-benchmark's rounds, beside `median_s`."""
_OF_SAMPLES = ("_ci_99_a", "_ci_99_b", "_q_25", "_q_75", "_number", "_repeat")
"""Endings of asv's statistics of the samples of a metric."""


def is_secondary(name: str, metrics: Container[str]) -> bool:
    """True for bookkeeping and what the machine did, and for statistics of repeats, rounds, samples or tasks."""
    base, _, ending = name.rpartition("_")
    is_spread = ending in SPREAD and all(each in metrics for each in (base, f"{base}_min", f"{base}_max"))
    is_of_tasks = ending == "std" and f"{base}_mean" in metrics
    is_of_rounds = name in _OF_ROUNDS and "median_s" in metrics and "rounds" in metrics
    sampled = next((name.removesuffix(ending) for ending in _OF_SAMPLES if name.endswith(ending)), None)
    is_of_samples = sampled in metrics and f"{sampled}_number" in metrics and f"{sampled}_repeat" in metrics
    is_statistic = is_spread or is_of_tasks or is_of_rounds or is_of_samples
    return is_statistic or name in BOOKKEEPING or name.startswith(MACHINE)


def in_order(names: Iterable[str], first: Sequence[str]) -> list[str]:
    """Return the names without secondary metrics. Those in `first` (named by requirements or sinks) come first."""
    known = list(dict.fromkeys(names))
    own = [name for name in known if name in first or not is_secondary(name, known)]
    return [*(name for name in dict.fromkeys(first) if name in own), *(name for name in own if name not in first)]
