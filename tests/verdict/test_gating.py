"""Gating: a value that is worse is told from noise, at any scale, in either direction, and never without a history."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_bench.verdict.cases import Question, Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.gates import Seen, Wanted, bar_of, told
from curator_bench.verdict.gating import Outcome, gate, gate_all
from curator_bench.verdict.judging import judge
from curator_bench.verdict.tails import Floats

LESS, MORE = Rules(Better.LESS), Rules(Better.MORE)
ANY_FLOATS = st.lists(st.floats(-1e12, 1e12, allow_nan=False) | st.sampled_from([math.nan, math.inf, 0.0]), max_size=40)


def level(points: int = 40, spread: float = 0.02, seed: int = 0) -> Floats:
    return 1 + spread * np.random.default_rng(seed).standard_normal(points)


@pytest.mark.parametrize("size", [1.1, 1.3, 3.0])
def test_two_runs_that_are_much_slower_are_a_regression(size: float) -> None:
    decision = gate(np.append(level(), size), size * 1.01, LESS)
    assert decision.outcome is Outcome.REGRESSION
    assert decision.change == pytest.approx(size - 1, abs=0.04)
    assert decision.began == 40
    assert decision.interval is not None
    assert decision.interval[0] < size * 1.005 - 1 < decision.interval[1]


def test_a_single_slow_run_is_suspect_and_measuring_again_decides() -> None:
    assert gate(level(), 1.3, LESS).outcome is Outcome.SUSPECT
    assert gate(level(), [1.3, 1.28], LESS).outcome is Outcome.REGRESSION
    assert gate(level(), [1.3, 1.0], LESS).outcome is Outcome.LEVEL


def test_a_small_shift_is_found_when_it_has_lasted() -> None:
    decision = gate(np.append(level(), 1.05 + 0.01 * np.array([1, -1, 0, 1, -1])), 1.05, LESS)
    assert decision.outcome is Outcome.REGRESSION
    assert decision.began is not None
    assert abs(decision.began - 40) <= 1


def test_what_is_certain_but_too_small_is_level() -> None:
    shifted = np.append(level(60, 0.002), 1.02 + level(5, 0.002, 1) - 1)
    assert gate(shifted, 1.02, LESS).outcome is Outcome.LEVEL
    assert gate(shifted, 1.02, replace(LESS, min_effect=0.01)).outcome is Outcome.REGRESSION


def test_less_of_what_should_be_more_is_a_regression() -> None:
    history = np.append(1000 * level(), 880)
    assert gate(history, 885, MORE).outcome is Outcome.REGRESSION
    assert gate(history, 885, LESS).outcome is Outcome.IMPROVEMENT


@pytest.mark.parametrize("known", range(5))
def test_below_five_runs_nothing_is_said(known: int) -> None:
    decision = gate(level(known), 100.0, LESS)
    assert decision.outcome is Outcome.NOT_ENOUGH_HISTORY
    assert not decision.is_shift
    assert f"{known} of the 5" in decision.reason


def test_as_many_runs_as_are_asked_for_are_needed() -> None:
    rules = replace(LESS, min_history=20)
    assert gate(level(19), [2.0, 2.0], rules).outcome is Outcome.NOT_ENOUGH_HISTORY
    assert gate(level(20), [2.0, 2.0], rules).outcome is Outcome.REGRESSION


def test_without_a_direction_nothing_is_judged() -> None:
    decision = gate(level(), 2.0, Rules(None))
    assert decision.outcome is Outcome.NOT_COMPARABLE
    assert "declare `better`" in decision.reason


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_not_comparable(value: float) -> None:
    assert gate(level(), value, LESS).outcome is Outcome.NOT_COMPARABLE


def test_runs_without_a_number_count_for_nothing() -> None:
    history = np.append(level(), 1.1)
    with_gaps = np.insert(history, [3, 9, 40], [math.nan, math.inf, math.nan])
    plain, gapped = gate(history, 1.1, LESS), gate(with_gaps, 1.1, LESS)
    assert plain.p_value == gapped.p_value
    assert gapped.history == 41
    assert gapped.began == 43


def test_outliers_of_the_history_explain_another() -> None:
    history = level(60)
    history[[5, 17, 23, 44, 51]] *= 1.4
    assert gate(history, 1.41, LESS).outcome in (Outcome.LEVEL, Outcome.SUSPECT)
    assert gate(history, 1.41, LESS).p_value > gate(level(60), 1.41, LESS).p_value


def test_a_slow_drift_is_no_regression() -> None:
    drift = level(150, 0.01) * (1 + 0.01 * np.arange(150) / 50)
    assert gate(drift[:-1], drift[-1], LESS).outcome is Outcome.LEVEL


def test_the_level_before_is_that_since_the_last_shift() -> None:
    """A history that came down to half, and now goes up by a fifth of that."""
    history = np.concatenate([2 * level(40), level(40, seed=1), [1.2]])
    decision = gate(history, 1.21, LESS)
    assert decision.outcome is Outcome.REGRESSION
    assert decision.baseline == pytest.approx(1.0, abs=0.02)


def test_a_baseline_of_its_own_is_what_newest_is_held_against() -> None:
    decision = gate(level(), [1.0, 1.01], LESS, baseline=0.8 * level(10, seed=3))
    assert decision.outcome is Outcome.REGRESSION
    assert decision.baseline == pytest.approx(0.8, abs=0.02)
    assert gate(level(), [1.2, 1.21], LESS, baseline=1.2 * level(10, seed=3)).outcome is Outcome.LEVEL


def test_a_baseline_without_runs_is_no_history() -> None:
    assert gate(level(), 2.0, LESS, baseline=[]).outcome is Outcome.NOT_ENOUGH_HISTORY


@settings(deadline=None)
@given(st.floats(1e-6, 1e6), st.integers(0, 50), st.floats(0.85, 1.2))
def test_the_unit_does_not_matter(unit: float, seed: int, last: float) -> None:
    history = np.append(level(30, seed=seed), last)
    plain, scaled = gate(history, last, LESS), gate(unit * history, unit * last, LESS)
    assert scaled.outcome is plain.outcome
    assert scaled.p_value == pytest.approx(plain.p_value, rel=1e-6)
    assert scaled.change == pytest.approx(plain.change, abs=1e-9)


@settings(deadline=None)
@given(st.integers(0, 200), st.floats(0.8, 1.25))
def test_worse_and_better_are_found_by_the_same_rule(seed: int, last: float) -> None:
    """Of times and of their reciprocals, which are speeds."""
    history = np.append(level(30, seed=seed), last)
    times, speeds = gate(history, last, LESS), gate(1 / history, 1 / last, MORE)
    assert times.outcome is speeds.outcome
    assert times.p_value == pytest.approx(speeds.p_value, rel=1e-6)


@settings(deadline=None)
@given(ANY_FLOATS, st.lists(st.floats(-1e12, 1e12, allow_nan=False), min_size=1, max_size=4), st.sampled_from(Better))
def test_whatever_was_measured_there_is_an_answer(history: list[float], newest: list[float], better: Better) -> None:
    decision = gate(history, newest, Rules(better))
    assert 0 <= decision.p_value <= 1
    assert decision.reason
    if decision.interval is not None and decision.change is not None and math.isfinite(decision.change):
        assert decision.interval[0] <= decision.change <= decision.interval[1]
    if decision.is_shift:
        assert decision.began is not None
        assert 0 <= decision.began < len(history) + len(newest)


def test_values_that_never_differ_are_level() -> None:
    for value in (0.0, 3.0, -2.0, 1e-12):
        assert gate([value] * 20, value, LESS).outcome is Outcome.LEVEL


def test_leaving_zero_for_good_is_a_regression() -> None:
    assert gate([0.0] * 20, [5.0, 5.0], LESS).outcome is Outcome.REGRESSION


def test_many_questions_get_the_answers_of_one_by_one() -> None:
    questions = [Question(level(20 + 5 * seed, seed=seed), np.array([1 + 0.05 * seed]), LESS) for seed in range(8)]
    together = gate_all(questions)
    for question, decision in zip(questions, together, strict=True):
        alone = gate(question.history, question.newest, question.rules)
        assert alone.outcome is decision.outcome
        assert alone.p_value == pytest.approx(decision.p_value, rel=1e-9)


def test_of_many_tests_of_a_session_hardly_ever_one_is_believed_by_chance() -> None:
    """Each is decided before the next is known; what has been believed makes the next easier to believe."""
    random, tests = np.random.default_rng(7), 200
    sessions = random.random((1000, tests))
    assert np.mean(np.any(sessions <= bar_of(tests, 0), axis=1)) <= 0.065
    assert bar_of(tests, 3) == pytest.approx(4 * bar_of(tests, 0))


@pytest.mark.parametrize(("value", "change"), [(1.0, "no longer zero"), (1e308, "times")])
def test_what_has_no_share_is_told_without_one(value: float, change: str) -> None:
    history = np.zeros(20) if value == 1.0 else level(20)
    one = Wanted("t_s", LESS, 0.1)
    text = told(
        one, judge([Question(history, np.array([value]), LESS)])[0], value=value, runs=1, course="", seen=Seen()
    )
    assert change in text
    assert max(map(len, text.splitlines())) < 130
    assert "inf" not in text
