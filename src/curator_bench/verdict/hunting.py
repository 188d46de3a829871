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
    """`later` are the shifts of the same series that came after it."""
    if shift.outcome is Outcome.IMPROVEMENT:
        return State.BETTER
    if accepted:
        return State.ACCEPTED
    now = later[-1].after if later else shift.after
    worse = (shift.before - now if rules.better is Better.MORE else now - shift.before) / (abs(shift.before) or 1.0)
    return State.OPEN if worse >= rules.min_effect else State.RECOVERED
