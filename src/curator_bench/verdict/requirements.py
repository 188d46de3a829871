"""Check the metrics of a run against every bound of its requirements.

Numbers are compared in decimal: 0.98 is within 0.01 of 0.97, and 2**70 is not 2**70 + 1. `gates` checks
`max_regression` and `max_drift`; here they fail only if the metric is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from typing import TypeGuard

from curator_bench.values import (
    BOUNDS,
    GATES,
    SUCCESS_METRIC,
    Check,
    Requirement,
    RunResult,
    Scalar,
    Verdict,
    means_success,
)

_MEMORY = ("peak_memory_bytes", "average_memory_bytes")
_TOO_SHORT_BELOW_S = 1.0
_NAMES_SHOWN = 3
_SHORTEST_PART = 3


def check(requirements: Sequence[Requirement], metrics: Mapping[str, Scalar]) -> tuple[Check, ...]:
    """Return one check for each bound of each requirement, and one more if only the script itself reports a failure."""
    checks = [
        _check_bound(requirement, bound, limit, metrics)
        for requirement in requirements
        for bound, limit in _bounds_of(requirement)
    ]
    checks += [
        _check_gateable(requirement, gate, metrics)
        for requirement in requirements
        if not _is_comparable(metrics.get(requirement.metric))
        for gate in GATES
        if getattr(requirement, gate) is not None
    ]
    is_known = any(done.metric == SUCCESS_METRIC and done.is_unmet for done in checks)
    if _script_says_it_failed(metrics) and not is_known:
        said = metrics[SUCCESS_METRIC]
        note = "reported by the script itself" if said is False else f"is {_kind(said)}, not true or false"
        checks.append(Check(SUCCESS_METRIC, "exact_value", True, said, met=False, note=note))
    return tuple(checks)


def judge(result: RunResult, checks: Sequence[Check], *, inconclusive_fails: bool = False) -> Verdict:
    """Return the verdict of a run.

    A run that ended well fails if a check is not met, or if its script says so. An inconclusive check fails it only
    with `inconclusive_fails`.
    """
    if result.verdict is not Verdict.PASSED:
        return result.verdict
    is_bad = any(done.is_unmet or (inconclusive_fails and done.is_inconclusive) for done in checks)
    return Verdict.FAILED if is_bad or _script_says_it_failed(result.metrics) else Verdict.PASSED


def nearest_names(name: str, names: Iterable[str]) -> list[str]:
    """Return a few of these names that may have been meant by `name`: spelt alike, or one contains the other."""
    known = {known.lower(): known for known in sorted(names, reverse=True)}
    wanted = name.lower()
    alike = get_close_matches(wanted, known, n=_NAMES_SHOWN)
    related = sorted((other for other in known if _is_within(wanted, other)), key=lambda other: (len(other), other))
    return [known[other] for other in dict.fromkeys([*alike, *related])][:_NAMES_SHOWN]


def _is_within(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) >= _SHORTEST_PART and shorter in longer


def _script_says_it_failed(metrics: Mapping[str, Scalar]) -> bool:
    return not means_success(metrics.get(SUCCESS_METRIC, True))


def _bounds_of(requirement: Requirement) -> Iterator[tuple[str, str | int | float]]:
    for bound in BOUNDS:
        limit = getattr(requirement, bound)
        if limit is not None:
            yield bound, limit


def _check_bound(
    requirement: Requirement, bound: str, limit: str | int | float, metrics: Mapping[str, Scalar]
) -> Check:
    name = requirement.metric
    if name not in metrics:
        return _check_missing(name, bound, limit, metrics)
    actual = metrics[name]
    if isinstance(limit, bool | str):
        return _check_same(name, bound, limit, actual)
    return _check_number(requirement, bound, limit, actual)


def _check_gateable(requirement: Requirement, gate: str, metrics: Mapping[str, Scalar]) -> Check:
    """Check a requirement that needs statistics, on a metric that is not a number."""
    name, limit = requirement.metric, getattr(requirement, gate)
    if name not in metrics:
        return _check_missing(name, gate, limit, metrics)
    return Check(name, gate, limit, metrics[name], met=False, note=f"is {_kind(metrics[name])}, not a number")


def _check_missing(name: str, bound: str, limit: str | int | float, metrics: Mapping[str, Scalar]) -> Check:
    """Check a metric that is missing: not met, or inconclusive if the run was too short to sample its memory."""
    if name in _MEMORY and _was_too_short(metrics):
        note = "not measured: the run was too short"
        return Check(name, bound, limit, None, met=None, missing=True, note=note)
    return Check(name, bound, limit, None, met=False, missing=True, note=_missing_note(name, metrics))


def _was_too_short(metrics: Mapping[str, Scalar]) -> bool:
    """True if the measured time of a run is one in which memory may not be sampled twice, on a busy machine."""
    seconds = metrics.get("exec_time_s")
    return _is_comparable(seconds) and seconds < _TOO_SHORT_BELOW_S


def _missing_note(name: str, metrics: Mapping[str, Scalar]) -> str:
    if not metrics:
        return "there are no metrics at all"
    near = nearest_names(name, metrics)
    return f"no such metric; nearest: {', '.join(near)}" if near else "no such metric, and none with a similar name"


def _check_same(name: str, bound: str, limit: bool | str, actual: Scalar) -> Check:
    """Compare with an exact value. True equals only true, neither 1 nor "true"."""
    is_same_kind = isinstance(actual, type(limit))
    note = "" if is_same_kind else f"is {_kind(actual)}, not {_kind(limit)}"
    return Check(name, bound, limit, actual, met=is_same_kind and actual == limit, note=note)


def _check_number(requirement: Requirement, bound: str, limit: int | float, actual: Scalar) -> Check:
    name, tolerance = requirement.metric, requirement.tolerance if bound == "exact_value" else None
    if not (_is_comparable(limit) and _is_comparable(actual)):
        note = f"is {_kind(actual)}, not a number" if _is_comparable(limit) else f"the limit is {_kind(limit)}"
        return Check(name, bound, limit, actual, met=False, tolerance=tolerance, note=note)
    difference = _written(actual) - _written(limit)
    if _is_met(bound, difference, tolerance):
        return Check(name, bound, limit, actual, met=True, tolerance=tolerance)
    off_by = int(abs(difference)) if isinstance(actual, int) and isinstance(limit, int) else _as_float(abs(difference))
    share = _as_float(abs(difference / _written(limit))) if limit else None
    return Check(name, bound, limit, actual, met=False, tolerance=tolerance, off_by=off_by, off_by_fraction=share)


def _is_comparable(value: Scalar) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or math.isfinite(value)


def _kind(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text"
    if value is None:
        return "null"
    return "a number" if _is_comparable(value) else ("infinite" if math.isinf(value) else "NaN")


def _written(value: int | float) -> Fraction:
    """Return the number in its shortest decimal form, as it was written in its file."""
    return Fraction(value if isinstance(value, int) else float.__repr__(value))


def _is_met(bound: str, difference: Fraction, tolerance: float | None) -> bool:
    if bound == "min_value":
        return difference >= 0
    if bound == "max_value":
        return difference <= 0
    return abs(difference) <= _written(tolerance or 0)


def _as_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
