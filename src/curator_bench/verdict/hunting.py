"""Finds the steps of a history that are still open."""

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
    """Later steps have undone it."""


def state_of(step: Step, later: Sequence[Step], rules: Rules, *, accepted: bool) -> State | None:
    """The state of a regression; None of an improvement, as nothing is to be done.

    `later` are the steps of the same series that came after it: the first that leads back ends it for good."""
    if step.word is Word.IMPROVEMENT:
        return None
    if accepted:
        return State.ACCEPTED
    since = [one.after for one in later or [step]]
    return State.OPEN if all(_is_worse(step.before, level, rules) for level in since) else State.RECOVERED


def _is_worse(before: float, now: float, rules: Rules) -> bool:
    worse = before - now if rules.better is Better.MORE else now - before
    return worse > 0 if before == 0 else worse / abs(before) >= rules.min_effect
