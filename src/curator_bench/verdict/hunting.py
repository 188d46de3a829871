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
    """Later runs were as good as before, whatever came after them."""
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
    """`later` are the shifts of the same series that came after it."""
    if shift.outcome is Outcome.IMPROVEMENT:
        return State.BETTER
    if accepted:
        return State.ACCEPTED
    levels = [shift.after, *(one.after for one in later)]
    return (
        State.OPEN if all(_worse_by(shift, level, rules) >= rules.min_effect for level in levels) else State.RECOVERED
    )


def _worse_by(shift: Shift, level: float, rules: Rules) -> float:
    """As a fraction of the level before; of what was zero, of the level since."""
    worse = shift.before - level if rules.better is Better.MORE else level - shift.before
    return worse / (abs(shift.before) or abs(shift.after) or 1.0)
