"""Choose the gated metrics of a run and their rules, and word the message of a gate that failed.

A requirement with `max_regression` gates one metric. `--bench-fail-on regression` gates all metrics with a known
direction. The share of false discoveries is then kept small over all tests of the session.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from curator_bench import words
from curator_bench.metric_names import is_secondary
from curator_bench.values import Check, Requirement, Scalar
from curator_bench.verdict.cases import CONFIDENCE, History, Rules
from curator_bench.verdict.direction import Better, better_of
from curator_bench.verdict.drifting import drift_sight
from curator_bench.verdict.failure_table import percent
from curator_bench.verdict.false_discovery import RATE
from curator_bench.verdict.judgement import Drift, Judgement, Unjudged, Word
from curator_bench.verdict.visible import visible_change
from curator_bench.words import multiple

BOUND = "max_regression"
DRIFT_BOUND = "max_drift"
PREVIOUS = "previous"
_INDENT = "    "
_MORE_REPEATS = (3, 5, 9, 15)
_USEFUL = 0.5
"""Repeats that would only see larger changes are no advice."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A metric that is gated. `limit` is how much worse it may be, as a fraction."""

    metric: str
    rules: Rules
    limit: float
    baseline: str = PREVIOUS
    is_declared: bool = True
    """True if a requirement asks for it, and not only `--bench-fail-on`."""


def wanted(requirements: Sequence[Requirement], metrics: Mapping[str, Scalar], *, everything: bool) -> list[Wanted]:
    """Return the gated metrics, in the order of the requirements; with `everything` also the others."""
    declared = [_declared(one) for one in requirements if one.max_regression is not None and one.metric in metrics]
    if not everything:
        return declared
    said = {one.metric: one for one in reversed(requirements)}
    done = {one.metric for one in declared}
    others = (_undeclared(said.get(name, Requirement(name))) for name in _judgeable(metrics) if name not in done)
    return [*declared, *(one for one in others if one.rules.better is not None)]


def _judgeable(metrics: Mapping[str, Scalar]) -> Iterator[str]:
    """Yield the metrics that are numbers, without the minimum, maximum and spread of repeats."""
    for name, value in metrics.items():
        if number(value) is not None and not is_secondary(name, metrics):
            yield name


def number(value: Scalar) -> float | None:
    """Return the value as a float if it is a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _declared(requirement: Requirement) -> Wanted:
    limit = requirement.max_regression or 0.0
    return Wanted(
        requirement.metric, _rules(requirement, max(limit, requirement.min_effect)), limit, requirement.baseline
    )


def _undeclared(requirement: Requirement) -> Wanted:
    effect = requirement.min_effect
    rules = _rules(requirement, effect)
    return Wanted(requirement.metric, rules, effect, requirement.baseline, is_declared=False)


def _rules(requirement: Requirement, effect: float) -> Rules:
    return Rules(better_of(requirement.metric, requirement.better), effect, requirement.min_history)


def is_met(one: Wanted, decision: Judgement) -> bool | None:
    """Return false for a regression, None for what may be one: a gate only limits how much worse a metric is."""
    is_better = (decision.change or 0.0) * (1 if one.rules.better is Better.LESS else -1) < 0
    if decision.word is Word.INCONCLUSIVE and not is_better:
        return None
    return decision.word is not Word.REGRESSION


def bar_of(tests: int, found: int) -> float:
    """Return the largest p-value that counts as a discovery among this many tests, after this many discoveries.

    This controls the rate of false discoveries although each test is decided before the next is known (LOND): every
    test has the same share of the rate, and every discovery adds one more share.
    """
    return RATE * (found + 1) / max(tests, 1)


def check_of(one: Wanted, value: Scalar, decision: Judgement, *, note: str) -> Check:
    """Return the gate as a check, like those of other bounds."""
    met, change = is_met(one, decision), decision.change
    return Check(
        metric=one.metric,
        bound=BOUND,
        limit=one.limit,
        actual=value,
        met=met,
        off_by_fraction=abs(change) if not met and change is not None and math.isfinite(change) else None,
        note=note,
        better=str(one.rules.better) if one.rules.better else None,
        says=decision.says,
    )


def sight(decision: Judgement, limit: float, *, repeats: int = 1) -> str:
    """Return the warning of a gate that cannot detect a change of its limit, with a way to detect it; empty if it can.

    `repeats` is how often the script ran for each value.
    """
    if not decision.is_blind_to(limit) or decision.visible is None:
        return ""
    text = words.sight(decision.noise, decision.history, decision.visible, percent)
    more = _more_repeats(decision, limit, repeats)
    return f"{text}; {more}" if more else text


def _more_repeats(decision: Judgement, limit: float, repeats: int) -> str:
    """Return the fewest repeats that would see the limit, or else the most worth their time; empty if none helps."""
    if decision.noise is None:
        return ""
    for repeat in _MORE_REPEATS:
        seen = visible_change(decision.noise / math.sqrt(repeat), decision.history)
        if seen <= limit:
            break
    return f"`repeat: {repeat * repeats}` would see {percent(seen)}" if seen <= max(limit, _USEFUL) else ""


def drift_sight_text(history: History, limit: float) -> str:
    """Return the warning of a gate on drift that cannot detect a drift of its limit; empty if it can."""
    seen = drift_sight(history)
    if seen is None or seen.visible <= limit:
        return ""
    return words.sight(seen.noise, seen.runs, seen.visible, percent)


@dataclass(frozen=True, slots=True)
class WantedDrift:
    """A metric whose drift is gated. `limit` is how much worse it may become, as a fraction."""

    metric: str
    rules: Rules
    limit: float


def wanted_drifts(requirements: Sequence[Requirement], metrics: Mapping[str, Scalar]) -> list[WantedDrift]:
    """Return the gates on drift of these metrics, in the order of the requirements."""
    return [
        WantedDrift(one.metric, _rules(one, one.min_effect), one.max_drift)
        for one in requirements
        if one.max_drift is not None and one.metric in metrics
    ]


def drift_check(one: WantedDrift, value: Scalar, found: Drift | None, *, lacks: str = "") -> Check:
    """Return the gate on drift as a check. `lacks` says why it could not be judged."""
    return Check(
        metric=one.metric,
        bound=DRIFT_BOUND,
        limit=one.limit,
        actual=value,
        met=found is None,
        off_by_fraction=abs(found.change) if found and math.isfinite(found.change) else None,
        note=lacks or (crept(one.metric, found) if found else ""),
        better=str(one.rules.better) if one.rules.better else None,
        says=str(Unjudged.NO_HISTORY) if lacks else "drift" if found else "no drift",
    )


def crept(metric: str, found: Drift) -> str:
    """Word a drift: `sort_time_s has crept by +9.0 % since 2026-05-01 (1 to 1.09)`."""
    levels = f"{found.before:,.4g} to {found.after:,.4g}"
    return f"{metric} has crept by {signed(found.change)} since {found.since} ({levels})"


@dataclass(frozen=True, slots=True)
class Seen:
    """The first appearance of a regression. An empty session means the run being judged."""

    session: str = ""
    commit: str | None = None
    when: str = ""


def failure_text(one: Wanted, decision: Judgement, *, value: float, runs: int, trend: str, seen: Seen) -> str:
    """Word a gate that is not met: its word, value, baseline, change, trend, and since when.

    `runs` is the number of runs at the new level, with this one.
    """
    is_open = decision.word is Word.INCONCLUSIVE
    level = f" (the level of the {runs} runs since it began is {decision.after:,.4g})" if runs > 1 else ""
    rows = [
        ("value", f"{value:,.4g}{level}"),
        ("baseline", _baseline(one, decision)),
        ("change", _change(one, decision)),
        ("trend", trend),
        ("decides", decision.decides) if is_open else ("first seen", _first_seen(seen)),
    ]
    lines = [f"{_INDENT}{name:<11}{text}" for name, text in rows if text]
    may = "may be" if is_open else "is"
    return "\n".join([f"{one.metric} {may} worse than before: {decision.says}", *lines])


def _baseline(one: Wanted, decision: Judgement) -> str:
    is_told = decision.noise is not None and math.isfinite(decision.noise)
    spread = f" ± {percent(decision.noise or 0.0)} from run to run" if is_told else ""
    of = "the runs before" if one.baseline == PREVIOUS else one.baseline
    return f"{decision.before:,.4g}{spread} ({of}; {decision.history} comparable runs)"


def _change(one: Wanted, decision: Judgement) -> str:
    if decision.change is None or decision.interval is None:
        return ""
    if not math.isfinite(decision.change):
        return signed(decision.change)
    low, high = decision.interval
    sure = f"{CONFIDENCE:.0%} confidence interval {signed(low)} to {signed(high)}"
    return f"{signed(decision.change)}, {sure}; allowed is {percent(one.limit)}"


def _first_seen(seen: Seen) -> str:
    if not seen.session:
        return "in this run"
    commit = f", commit {seen.commit[:12]}" if seen.commit else ""
    return f"in session {seen.session}, {seen.when}{commit}"


def signed(fraction: float) -> str:
    """Format a change as `+12.3 %`; a change to ten times as much or more as `×12`."""
    if not math.isfinite(fraction):
        return "no longer zero" if fraction > 0 else "-∞ %"
    return multiple(fraction) or f"{100 * fraction:+.1f} %"
