"""The state of a step: open, or recovered."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from curator_bench.verdict.cases import Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.judgement import Step, Word


class State(StrEnum):
    OPEN = "open"
    ACCEPTED = "accepted"
    RECOVERED = "recovered"
    """Later steps have undone the regression."""


def state_of(step: Step, later: Sequence[Step], rules: Rules, *, accepted: bool) -> State | None:
    """Return the state of a regression; None for an improvement.

    `later` are the later steps of the same series. The first of them that leads back closes the regression for good.
    """
    if step.word is Word.IMPROVEMENT:
        return None
    if accepted:
        return State.ACCEPTED
    since = [one.after for one in later or [step]]
    return State.OPEN if all(_is_worse(step.before, level, rules) for level in since) else State.RECOVERED


def _is_worse(before: float, now: float, rules: Rules) -> bool:
    worse = before - now if rules.better is Better.MORE else now - before
    return worse > 0 if before == 0 else worse / abs(before) >= rules.min_effect
