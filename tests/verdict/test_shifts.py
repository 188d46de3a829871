"""Shifts over a whole series: found where they are, as large as they are; none on noise, outliers or drift."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_bench.verdict.cases import Question, Rules
from curator_bench.verdict.change_points import cuts_of
from curator_bench.verdict.direction import Better
from curator_bench.verdict.gating import Outcome, gate_all
from curator_bench.verdict.shifts import shifts_of, shifts_of_all
from curator_bench.verdict.tails import Floats

LESS = Rules(Better.LESS)


def series(*levels: tuple[float, int], spread: float = 0.02, seed: int = 0) -> Floats:
    places = np.repeat([level for level, _ in levels], [runs for _, runs in levels])
    noisy: Floats = places * (1 + spread * np.random.default_rng(seed).standard_normal(len(places)))
    return noisy


@pytest.mark.parametrize("seed", range(5))
def test_every_level_is_found_where_it_begins(seed: int) -> None:
    found = shifts_of(series((1.0, 60), (1.08, 50), (0.9, 70), (0.99, 40), seed=seed), LESS)
    assert [shift.outcome for shift in found] == ["regression", "improvement", "regression"]
    assert [shift.index for shift in found] == pytest.approx([60, 110, 180], abs=2)
    assert [shift.change for shift in found] == pytest.approx([0.08, -0.167, 0.1], abs=0.02)
    for shift, change in zip(found, [0.08, 0.9 / 1.08 - 1, 0.1], strict=True):
        assert shift.interval[0] - 0.01 < change < shift.interval[1] + 0.01


@pytest.mark.parametrize("runs", [10, 20, 40])
def test_a_level_that_lasted_for_a_while_is_found(runs: int) -> None:
    found = shifts_of(series((1.0, 60), (1.2, runs), (1.0, 60)), LESS)
    assert [shift.outcome for shift in found] == ["regression", "improvement"]
    assert [shift.index for shift in found] == pytest.approx([60, 60 + runs], abs=1)


def test_a_shift_of_the_newest_runs_is_among_them_once() -> None:
    found = shifts_of(series((1.0, 60), (1.2, 60), (1.45, 3)), LESS)
    assert [shift.index for shift in found] == [60, 120]


@pytest.mark.parametrize("before", [5, 6, 8, 12, 25])
def test_a_regression_stays_found_while_more_runs_confirm_it(before: int) -> None:
    """However short the history is, in a gate and over the whole series: mostly from the second run, then all of it."""
    stages = [series((1.0, before), (1.5, runs), seed=seed) for seed in range(10) for runs in range(2, 13)]
    gated = gate_all([Question(one[:-1], one[-1:], LESS) for one in stages])
    hunted = [
        any(shift.outcome is Outcome.REGRESSION for shift in found)
        for found in shifts_of_all([(one, LESS) for one in stages])
    ]
    is_gated = [decision.outcome is Outcome.REGRESSION for decision in gated]
    for found, stages_of_gate in ((hunted, 11), (is_gated, 4)):  # later a gate takes the new level for the usual one
        shares = np.reshape(found, (10, -1)).mean(axis=0)
        assert shares[0] >= 0.6
        assert min(shares[1:stages_of_gate]) >= 0.9


def test_more_of_what_should_be_more_is_an_improvement() -> None:
    (shift,) = shifts_of(series((100.0, 40), (120.0, 40)), Rules(Better.MORE))
    assert shift.outcome is Outcome.IMPROVEMENT


def test_single_outliers_are_no_shift() -> None:
    noisy = series((1.0, 120))
    noisy[[10, 33, 60, 61, 95]] *= 1.5
    assert shifts_of(noisy, LESS) == []


def test_a_drift_is_no_shift() -> None:
    assert shifts_of(series((1.0, 200), spread=0.01) * (1 + 0.01 * np.arange(200) / 50), LESS) == []


def test_runs_without_a_number_do_not_move_a_shift() -> None:
    holes = np.insert(series((1.0, 40), (1.1, 40)), [5, 20], np.nan)
    (shift,) = shifts_of(holes, LESS)
    assert abs(shift.index - 42) <= 1


@pytest.mark.parametrize("points", range(6))
def test_few_points_show_nothing(points: int) -> None:
    assert shifts_of(np.linspace(1, 9, points), LESS) == []


@settings(deadline=None)
@given(st.lists(st.floats(-1e9, 1e9, allow_nan=False), max_size=60))
def test_whatever_was_measured_shifts_lie_within_it_in_order(values: list[float]) -> None:
    found = [shift.index for shift in shifts_of(values, LESS)]
    assert found == sorted(found)
    assert all(0 < index < len(values) for index in found)


@settings(deadline=None)
@given(st.floats(1e-4, 1e6), st.integers(0, 20))
def test_the_unit_does_not_matter(unit: float, seed: int) -> None:
    values = series((1.0, 30), (1.1, 30), seed=seed)
    assert [one.index for one in shifts_of(unit * values, LESS)] == [one.index for one in shifts_of(values, LESS)]


def test_many_series_get_the_answers_of_one_by_one() -> None:
    many = [series((1.0, 40), (1.0 + 0.03 * seed, 30), seed=seed) for seed in range(6)]
    together = shifts_of_all([(one, LESS) for one in many])
    assert [[s.index for s in found] for found in together] == [[s.index for s in shifts_of(one, LESS)] for one in many]


def test_cuts_hold_only_where_levels_differ_by_what_is_asked() -> None:
    places = np.log(series((1.0, 50), (1.08, 50)))
    assert [cut.index for cut in cuts_of(places, least_shift=0.03)] == pytest.approx([50], abs=2)
    assert cuts_of(places, least_shift=0.12) == []
