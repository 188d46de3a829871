"""Placeholder until the branch `rounds` is merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from curator_bench.verdict.judgement import Judgement
from curator_bench.verdict.rounds import Rounds, compare_rounds


@dataclass(frozen=True, slots=True)
class TurnsPlan:
    most: int = 30
    first: int = 4
    fewest: int = 3


def judge_turns(asked: Sequence[Rounds], plan: TurnsPlan) -> list[tuple[Judgement, bool]]:
    return [(one, one.says != "inconclusive") for one in compare_rounds(asked)]
