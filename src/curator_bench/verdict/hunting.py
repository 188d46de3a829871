"""The shifts of many series, of which only so many may be false together; and which regressions are still open."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from curator_bench.verdict.cases import Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.false_discovery import adjusted
from curator_bench.verdict.gating import Outcome
from curator_bench.verdict.shifts import Shift, shifts_of_all
from curator_bench.verdict.tails import Floats

RATE = 0.01
"""Of all that is reported of a whole history this share is noise; when nothing changed, it is how often anything is."""


class State(StrEnum):
    OPEN = "open"
    ACCEPTED = "accepted"
    RECOVERED = "recovered"
    """Later shifts have undone it."""
    BETTER = "better"
    """An improvement: nothing is to be done."""


def believed_shifts(series: Sequence[tuple[Floats, Rules]]) -> list[list[Shift]]:
    """The shifts of each series that can be believed as one of those of all series."""
    found = shifts_of_all(series)
    tests = sum(rules.better is not None for _, rules in series)
    flat = [shift for shifts in found for shift in shifts]
    rates = iter(adjusted([shift.p_value for shift in flat], tests=tests).tolist())
    return [[shift for shift in shifts if next(rates) <= RATE] for shifts in found]


def state_of(shift: Shift, later: Sequence[Shift], rules: Rules, *, accepted: bool) -> State:
    """`later` are the shifts of the same series that came after it: the first that leads back ends it for good."""
    if shift.outcome is Outcome.IMPROVEMENT:
        return State.BETTER
    if accepted:
        return State.ACCEPTED
    since = [level.after for level in later] or [shift.after]
    return State.OPEN if all(_is_worse(shift.before, level, rules) for level in since) else State.RECOVERED


def _is_worse(before: float, now: float, rules: Rules) -> bool:
    worse = before - now if rules.better is Better.MORE else now - before
    return worse > 0 if before == 0 else worse / abs(before) >= rules.min_effect
