"""Judge environments that were measured in turns, round against round, so that a drift of the machine cancels out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from curator_bench.verdict.cases import Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.false_discovery import discoveries
from curator_bench.verdict.intervals import ROUNDS, Change, paired_change
from curator_bench.verdict.judgement import Judgement, Unjudged, Word, word_by
from curator_bench.verdict.visible import visible_in_rounds

ROUNDS_RATE = 0.05
"""The share of noise among all differences reported of a comparison."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Values that two environments measured in turns: one of each for each round."""

    first: Floats
    other: Floats
    rules: Rules


def compare_rounds(asked: Sequence[Rounds], *, rate: float = ROUNDS_RATE) -> list[Judgement]:
    """Judge environments measured in turns, round against round, so that a drift of the machine cancels out."""
    found = [paired_change(one.first, one.other) for one in asked]
    sure = iter(discoveries([change.p_value for change in found if change], rate=rate).tolist())
    return [
        Judgement(None, f"fewer than {ROUNDS} rounds of both", Unjudged.NO_HISTORY)
        if change is None
        else _of_rounds(one, change, is_sure=next(sure))
        for one, change in zip(asked, found, strict=True)
    ]


def _of_rounds(one: Rounds, change: Change, *, is_sure: bool) -> Judgement:
    is_worse = (change.change > 0) == (one.rules.better is Better.LESS)
    word = word_by(change.change, one.rules.min_effect, is_worse=is_worse, is_certain=is_sure)
    rounds = min(len(one.first), len(one.other))
    judgement = Judgement(
        word=word,
        reason=f"{change.change:+.1%} in {rounds} rounds",
        before=change.before,
        after=change.after,
        change=change.change,
        interval=change.interval,
        p_value=change.p_value,
        history=rounds,
        visible=_visible(one, rounds, change),
        decides="more rounds decide" if word is Word.INCONCLUSIVE else "",
    )
    if one.rules.better is None:
        reason = f"{judgement.reason}; whether less or more of it is better is not known: declare `better`"
        return replace(judgement, word=None, unjudged=Unjudged.NOT_COMPARABLE, reason=reason, decides="")
    return judgement


def _visible(one: Rounds, rounds: int, change: Change) -> float | None:
    if not math.isfinite(change.error):
        return None
    return visible_in_rounds(rounds, change.error, ROUNDS_RATE, least=one.rules.min_effect)
