"""Steps of whole histories: found where they are, as large as they are; none on noise, outliers or drift."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_bench.verdict.cases import History, Question, Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.judgement import Step, Trend, Word
from curator_bench.verdict.judging import judge
from curator_bench.verdict.scale import as_floats
from curator_bench.verdict.trends import trends

LESS = Rules(Better.LESS)


def series(*levels: tuple[float, int], noise: float = 0.02, seed: int = 0) -> Floats:
    places = np.repeat([level for level, _ in levels], [runs for _, runs in levels])
    noisy: Floats = places * (1 + noise * np.random.default_rng(seed).standard_normal(len(places)))
    return noisy


def trend(values: Floats | list[float], rules: Rules = LESS) -> Trend:
    return trends([History(as_floats(values), rules)])[0]


def steps(values: Floats | list[float], rules: Rules = LESS) -> tuple[Step, ...]:
    return trend(values, rules).steps


@pytest.mark.parametrize("seed", range(5))
def test_every_level_is_found_where_it_begins(seed: int) -> None:
    found = trend(series((1.0, 60), (1.1, 50), (0.9, 70), (1.0, 40), seed=seed))
    assert [step.word for step in found.steps] == [Word.REGRESSION, Word.IMPROVEMENT, Word.REGRESSION]
    assert [step.began for step in found.steps] == pytest.approx([60, 110, 180], abs=2)
    assert [step.change for step in found.steps] == pytest.approx([0.1, -0.182, 0.11], abs=0.03)
    assert [level.middle for level in found.levels] == pytest.approx([1.0, 1.1, 0.9, 1.0], abs=0.02)
    for step, change in zip(found.steps, [0.1, 0.9 / 1.1 - 1, 1 / 0.9 - 1], strict=True):
        assert step.interval[0] - 0.01 < change < step.interval[1] + 0.01


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([100] * 14, [107, 109, 109, 111, 109, 109, 108, 108, 109, 107, 110, 109]),
        ([100] * 30, [106, 109, 108, 107.5, 107, 108, 109, 108, 107, 108]),
        ([100] * 20, [105, 106, 105, 106, 105, 106, 105.5, 105, 106, 105]),
    ],
)
def test_what_is_plain_to_see_is_found(before: list[float], after: list[float]) -> None:
    for seed in range(10):
        (step,) = steps(np.array([*before, *after]) + np.random.default_rng(seed).normal(0, 0.8, len(before + after)))
        assert step.word is Word.REGRESSION
        assert abs(step.began - len(before)) <= 1


@pytest.mark.parametrize("runs", [10, 20, 40])
def test_a_level_that_lasted_for_a_while_is_found(runs: int) -> None:
    found = steps(series((1.0, 60), (1.2, runs), (1.0, 60)))
    assert [step.word for step in found] == [Word.REGRESSION, Word.IMPROVEMENT]
    assert [step.began for step in found] == pytest.approx([60, 60 + runs], abs=1)


def test_a_step_of_the_newest_runs_is_among_them_once() -> None:
    found = trend(series((1.0, 60), (1.2, 60), (1.45, 3)))
    assert [step.began for step in found.steps] == [60, 120]
    assert found.newest.word is Word.REGRESSION
    assert found.newest.began == 120


@pytest.mark.parametrize("before", [5, 6, 8, 12, 25])
def test_a_regression_stays_found_while_more_runs_confirm_it(before: int) -> None:
    """However short the history is, in a gate and over the whole series: mostly from the second run, then always."""
    stages = [series((1.0, before), (1.5, runs), seed=seed) for seed in range(10) for runs in range(2, 13)]
    gated = judge([Question(one[:-1], one[-1:], LESS) for one in stages])
    hunted = trends([History(one, LESS) for one in stages])
    is_hunted = [any(step.word is Word.REGRESSION for step in one.steps) for one in hunted]
    is_gated = [one.word is Word.REGRESSION for one in gated]
    for found, stages_of_gate in ((is_hunted, 11), (is_gated, 4)):  # later a gate takes the new level for the usual one
        shares = np.reshape(found, (10, -1)).mean(axis=0)
        assert shares[0] >= 0.6
        assert min(shares[1:stages_of_gate]) >= 0.9


def test_more_of_what_should_be_more_is_an_improvement() -> None:
    (step,) = steps(series((100.0, 40), (120.0, 40)), Rules(Better.MORE))
    assert step.word is Word.IMPROVEMENT


def test_single_outliers_are_no_step() -> None:
    noisy = series((1.0, 120))
    noisy[[10, 33, 60, 61, 95]] *= 1.5
    assert steps(noisy) == ()


def test_runs_without_a_number_do_not_move_a_step() -> None:
    holes = np.insert(series((1.0, 40), (1.1, 40)), [5, 20], np.nan)
    (step,) = steps(holes)
    assert abs(step.began - 42) <= 1


@pytest.mark.parametrize("points", range(6))
def test_few_points_show_nothing(points: int) -> None:
    assert steps(np.linspace(1, 9, points)) == ()


@given(st.lists(st.floats(-1e9, 1e9, allow_nan=False), max_size=60))
def test_whatever_was_measured_steps_lie_within_it_in_order(values: list[float]) -> None:
    found = trend(values)
    begins = [step.began for step in found.steps]
    assert begins == sorted(begins)
    assert all(0 < began < len(values) for began in begins)
    assert len(found.levels) == (len(begins) + 1 if values else 0)


@given(st.floats(1e-4, 1e6), st.integers(0, 20))
def test_the_unit_does_not_matter(unit: float, seed: int) -> None:
    values = series((1.0, 30), (1.1, 30), seed=seed)
    assert [one.began for one in steps(unit * values)] == [one.began for one in steps(values)]


@pytest.mark.parametrize("offset", [0.0, -1.0], ids=["zero at first", "negative at first"])
def test_what_has_no_logarithm_has_steps_too(offset: float) -> None:
    (step,) = steps(np.repeat([offset, offset + 5.0], [30, 30]))
    assert step.began == 30


def test_many_series_get_the_answers_of_one_by_one() -> None:
    many = [series((1.0, 40 + seed), (1.0 + 0.03 * seed, 30), seed=seed) for seed in range(6)]
    together = trends([History(one, LESS) for one in many])
    assert [[s.began for s in one.steps] for one in together] == [[s.began for s in steps(one)] for one in many]


def test_of_a_thousand_series_that_do_not_change_hardly_one_has_a_step() -> None:
    random = np.random.default_rng(11)
    clean = [1 + 0.03 * random.standard_normal(int(random.integers(20, 120))) for _ in range(1000)]
    assert sum(bool(one.steps) for one in trends([History(one, LESS) for one in clean])) <= 1
