"""Intervals of what was measured in turns hold what they promise, also for few rounds and while the machine drifts."""

from __future__ import annotations

import numpy as np
import pytest

from curator_bench.verdict.bootstrap import Compared, Paired, compared, paired_change
from curator_bench.verdict.direction import Better
from curator_bench.verdict.tails import Floats


def rounds(chance: np.random.Generator, level: float, count: int) -> Floats:
    drift = 1 + 0.2 * np.arange(count) / count
    return level * drift * np.exp(0.02 * chance.standard_normal(count))


def changes(slower: float, count: int) -> list[Paired]:
    chance = np.random.default_rng(count)
    found = [paired_change(rounds(chance, 1.0, count), rounds(chance, 1 + slower, count)) for _ in range(200)]
    return [one for one in found if one is not None]


@pytest.mark.parametrize("count", [5, 8, 20])
def test_the_interval_holds_the_true_change_as_often_as_it_says(count: int) -> None:
    found = changes(0.08, count)
    assert sum(one.interval[0] <= 0.08 <= one.interval[1] for one in found) >= 0.91 * len(found)


@pytest.mark.parametrize("count", [5, 8, 20])
def test_what_is_alike_is_found_to_differ_no_more_often_than_it_says(count: int) -> None:
    assert sum(one.p_value < 0.05 for one in changes(0.0, count)) <= 0.085 * 200


def test_a_change_is_found_through_a_drift_that_is_larger() -> None:
    assert sum(one.p_value < 0.05 for one in changes(0.08, 8)) >= 0.95 * 200


def test_of_two_rounds_nothing_is_said() -> None:
    assert paired_change(np.array([1.0, 1.1]), np.array([2.0, 2.1])) is None


def test_values_that_never_change_are_the_same() -> None:
    found = paired_change(np.full(5, 7.0), np.full(5, 7.0))
    assert found is not None
    assert (found.change, compared(found, Better.LESS, is_sure=False)) == (0.0, Compared.SAME)


@pytest.mark.parametrize("level", [1.0, -0.1], ids=["on a logarithm", "without one"])
def test_the_change_is_that_of_the_values_shown(level: float) -> None:
    """However rounds scatter: medians of the two and a mean change might even have opposite signs."""
    found = paired_change(level + np.array([0.1, 0.1, 5.0]), level + np.array([0.2, 0.2, 0.3]))
    assert found is not None
    assert found.change == pytest.approx((found.after - found.before) / abs(found.before))


@pytest.mark.parametrize(
    ("change", "interval", "better", "is_sure", "expected"),
    [
        (0.1, (0.05, 0.15), Better.LESS, True, Compared.WORSE),
        (0.1, (0.05, 0.15), Better.MORE, True, Compared.BETTER),
        (0.1, (0.05, 0.15), None, True, Compared.DIFFERENT),
        (0.1, (0.05, 0.15), Better.LESS, False, Compared.UNSURE),
        (0.01, (0.005, 0.015), Better.LESS, True, Compared.SAME),
        (0.1, (-0.05, 0.25), Better.LESS, True, Compared.UNSURE),
    ],
)
def test_a_verdict_needs_certainty_and_size(
    change: float, interval: tuple[float, float], better: Better | None, is_sure: bool, expected: Compared
) -> None:
    assert compared(Paired(1.0, 1.0, change, interval, 0.01), better, is_sure=is_sure) is expected
