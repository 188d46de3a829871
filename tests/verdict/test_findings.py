"""Steps are located between two runs, and those with one cause are one finding."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from generated_series import FAMILIES
from hypothesis import given
from hypothesis import strategies as st

from curator_bench.verdict.cases import History, Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.findings import Change, findings
from curator_bench.verdict.judgement import Word
from curator_bench.verdict.trends import trends

LESS = Rules(Better.LESS)


def change(
    name: str, before: int, after: int, likely: int | None = None, word: Word = Word.REGRESSION, size: float = 0.1
) -> Change[str]:
    first = after if likely is None else likely
    return Change(name, name, word, (before,), ((first - 1,), (first,)), (after,), size)


def names(*changes: Change[str]) -> list[set[str]]:
    return [{member.of for member in one.members} for one in findings(changes)]


def test_what_began_in_ranges_that_overlap_is_one_finding_with_what_they_have_in_common() -> None:
    (found,) = findings([change("sort", 10, 16), change("load", 12, 14, size=-0.4), change("join", 8, 15)])
    assert (found.before.before, found.after.after) == ((12,), (14,))
    assert found.members[0].of == "load"


def test_ranges_that_only_touch_are_two_findings() -> None:
    assert names(change("sort", 10, 12), change("load", 12, 14)) == [{"sort"}, {"load"}]


def test_two_causes_are_not_one_because_something_overlaps_with_both() -> None:
    wide = change("wide", 5, 30, likely=26)
    assert names(change("early", 9, 10), wide, change("late", 25, 26)) == [{"early"}, {"wide", "late"}]


def test_regressions_and_improvements_are_findings_apart() -> None:
    better = change("load", 9, 10, word=Word.IMPROVEMENT)
    assert sorted(map(sorted, names(change("sort", 9, 10), better))) == [["load"], ["sort"]]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 15), st.floats(0, 1)), max_size=25), st.randoms())
def test_every_change_is_in_one_finding_whose_members_overlap_in_any_order(
    ranges: list[tuple[int, int, float]], random: Random
) -> None:
    changes = [
        change(str(at), start, start + width, likely=start + 1 + int(share * (width - 1)))
        for at, (start, width, share) in enumerate(ranges)
    ]
    found = findings(changes)
    assert sorted(member.of for one in found for member in one.members) == sorted(one.of for one in changes)
    for one in found:
        assert max(member.before for member in one.members) < min(member.after for member in one.members)
    for first, second in pairwise(found):
        assert first.after.after <= second.before.before
    random.shuffle(changes)
    assert {frozenset(one) for one in names(*changes)} == {frozenset(m.of for m in one.members) for one in found}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_lies_between_the_runs_it_is_said_to_lie_between(family: str) -> None:
    random, missed, widths = np.random.default_rng(5), 0, []
    begins = random.integers(30, 170, 60).tolist()
    series = [FAMILIES[family](random, 200, 0.02).copy() for _ in begins]
    for values, begin in zip(series, begins, strict=True):
        values[begin:] *= 1.12
    for trend, begin in zip(trends([History(values, LESS) for values in series]), begins, strict=True):
        for step in trend.steps:
            assert step.last_before < step.began <= step.first_after
            missed += abs(step.began - begin) < 12 and not step.last_before < begin <= step.first_after
            widths.append(step.first_after - step.last_before)
    assert missed <= 1
    assert np.median(widths) <= 6


def test_the_ranges_of_two_steps_of_one_metric_do_not_overlap() -> None:
    random = np.random.default_rng(2)
    for _ in range(20):
        values = np.repeat([1.0, 1.08, 1.16], [40, 12, 40]) * (1 + 0.03 * random.standard_normal(92))
        steps = trends([History(values, LESS)])[0].steps
        for first, second in pairwise(steps):
            assert first.first_after <= second.last_before
